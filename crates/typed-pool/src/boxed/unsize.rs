//! Boxes of trait objects and slices.

use core::mem;
use core::ptr::NonNull;

use super::{AnyPool, Pool, PooledBox};

impl<T: ?Sized, P: Pool> PooledBox<T, P> {
    /// The same box, of a pool that is found when the value is dropped: boxes of one type from several pools have one type so.
    #[inline]
    #[must_use]
    pub fn erase(this: Self) -> PooledBox<T, AnyPool> {
        // SAFETY: this box, which is of `AnyPool` from here on.
        unsafe { P::__erase(core::alloc::Layout::for_value::<T>(&*this)) };
        let value = Self::into_raw(this);
        // SAFETY: the box's value; its slot finds the pool that it is from.
        unsafe { PooledBox::from_raw(value) }
    }

    /// The same value behind the pointer that `unsize` makes of its own: what [`unsize!`](crate::unsize) does, for coercions that it
    /// cannot write down.
    ///
    /// # Safety
    /// `unsize` returns its argument with other metadata: the same address, and a vtable or length of the very value that lies there. Size and
    /// alignment of the value, as they follow from that metadata, are those that it had.
    #[inline]
    #[must_use]
    pub unsafe fn unsize_with<U: ?Sized>(
        this: Self,
        unsize: impl FnOnce(*mut T) -> *mut U,
    ) -> PooledBox<U, AnyPool> {
        let erased = PooledBox::erase(this);
        let unsized_value = unsize(erased.value.as_ptr());
        mem::forget(erased);
        // SAFETY: the same address, which is not null.
        let value = unsafe { NonNull::new_unchecked(unsized_value) };
        // SAFETY: the box's value; its slot finds the pool that it is from by the same size and alignment.
        unsafe { PooledBox::from_raw(value) }
    }
}

/// Turns a [`PooledBox`](crate::PooledBox) into one of a trait object or a slice, as `Box` does by itself: `unsize!(boxed => dyn Trait)`.
///
/// The result is a `PooledBox<dyn Trait, AnyPool>`: its slot finds the pool that it is from by the size and alignment of the value.
///
/// # Examples
///
/// ```
/// use typed_pool::{AnyPool, PooledBox, pooled, unsize};
///
/// trait Shape {
///     fn area(&self) -> f64;
/// }
///
/// struct Square(f64);
/// struct Circle(f64);
///
/// impl Shape for Square {
///     fn area(&self) -> f64 {
///         self.0 * self.0
///     }
/// }
///
/// impl Shape for Circle {
///     fn area(&self) -> f64 {
///         3.0 * self.0 * self.0
///     }
/// }
///
/// pooled!(Square);
/// pooled!(Circle);
///
/// let shapes: [PooledBox<dyn Shape, AnyPool>; 2] =
///     [unsize!(PooledBox::new(Square(2.0)) => dyn Shape), unsize!(PooledBox::new(Circle(1.0)) => dyn Shape)];
/// assert_eq!(shapes.iter().map(|shape| shape.area()).sum::<f64>(), 7.0);
/// ```
///
/// Nothing but a coercion will do:
///
/// ```compile_fail
/// # use typed_pool::{PooledBox, pooled, unsize};
/// # #[derive(Debug)]
/// # struct Square(f64);
/// # pooled!(Square);
/// let wrong = unsize!(PooledBox::new(Square(2.0)) => u32);
/// ```
///
/// ```compile_fail
/// # use typed_pool::{PooledBox, pooled, unsize};
/// # struct Square(f64);
/// # pooled!(Square);
/// let wrong = unsize!(PooledBox::new(Square(2.0)) => dyn core::fmt::Debug);
/// ```
#[macro_export]
macro_rules! unsize {
    ($boxed:expr => $target:ty) => {{
        let boxed = $boxed;
        // SAFETY: the closure coerces its argument and does nothing else, and pointers coerce to what they point at only.
        unsafe { $crate::PooledBox::unsize_with(boxed, |value| -> *mut $target { value }) }
    }};
}
