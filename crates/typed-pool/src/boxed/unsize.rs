//! Conversions of boxes to boxes of trait objects and slices.

use core::mem;
use core::ptr::NonNull;

use super::{AnyPool, BoxPool, PooledBox};

impl<T: ?Sized, P: BoxPool> PooledBox<T, P> {
    /// Turns the box into a box of [`AnyPool`], which finds its pool when it is dropped. Boxes of
    /// one value type from several pools thereby get the same type.
    #[inline]
    #[must_use]
    pub fn erase(this: Self) -> PooledBox<T, AnyPool> {
        // SAFETY: the box is of this pool. It becomes a box of `AnyPool`, so this pool's `__erase`
        // is called only once for it.
        unsafe { P::__erase(core::alloc::Layout::for_value::<T>(&*this)) };
        let value = Self::into_raw(this);
        // SAFETY: the box owned the value, and the value's layout leads from its slot to its pool.
        unsafe { PooledBox::from_raw(value) }
    }

    /// Replaces the box's pointer with the pointer that `unsize` makes from it, and returns a box
    /// of [`AnyPool`] with the new pointer. [`unsize!`](crate::unsize) calls this function. Call it
    /// directly for coercions that the macro cannot express.
    ///
    /// # Safety
    /// `unsize` returns its argument with other metadata: the same address, and a vtable or length
    /// of the value at that address. That metadata gives the value the same size and alignment as
    /// before.
    #[inline]
    #[must_use]
    pub unsafe fn unsize_with<U: ?Sized>(
        this: Self,
        unsize: impl FnOnce(*mut T) -> *mut U,
    ) -> PooledBox<U, AnyPool> {
        let erased = PooledBox::erase(this);
        let unsized_value = unsize(erased.value.as_ptr());
        mem::forget(erased);
        // SAFETY: `unsize` keeps the address of the value, which is not null.
        let value = unsafe { NonNull::new_unchecked(unsized_value) };
        // SAFETY: the box owned the value, and the same size and alignment lead from its slot to
        // its pool.
        unsafe { PooledBox::from_raw(value) }
    }
}

/// Turns a [`PooledBox`](crate::PooledBox) into a box of a trait object or a slice: `unsize!(boxed
/// => dyn Trait)`. The standard library's `Box` coerces without a macro.
///
/// The result is a `PooledBox<dyn Trait, AnyPool>`. When that box is dropped, it finds its pool
/// through the address, size and alignment of the value.
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
/// let shapes: [PooledBox<dyn Shape, AnyPool>; 2] = [
///     unsize!(PooledBox::new(Square(2.0)) => dyn Shape),
///     unsize!(PooledBox::new(Circle(1.0)) => dyn Shape),
/// ];
/// assert_eq!(shapes.iter().map(|shape| shape.area()).sum::<f64>(), 7.0);
/// ```
///
/// A conversion that is not a coercion does not compile:
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
        // SAFETY: the closure only coerces its argument, and a coercion keeps the address and the
        // value.
        unsafe { $crate::PooledBox::unsize_with(boxed, |value| -> *mut $target { value }) }
    }};
}
