//! `TypedBox`: the handle of a value in a `TypedPool`.

use core::marker::PhantomData;
use core::mem;
use core::pin::Pin;
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;
#[cfg(feature = "alloc")]
use allocator_api2::alloc::Global;

use super::TypedPool;
use crate::forward::forward_to_value;

macro_rules! typed_box {
    ($($default:tt)*) => {
        /// An owned value in a [`TypedPool`]. Dropping the handle drops the value and frees its
        /// slot.
        ///
        /// The handle borrows the pool for `'p` and stays on the pool's thread.
        ///
        /// ```compile_fail,E0277
        /// fn send<T: Send>(_: T) {}
        /// send(typed_pool::TypedPool::new().alloc(1_u8));
        /// ```
        pub struct TypedBox<'p, T, A: Allocator $($default)*> {
            slot: NonNull<T>,
            pool: &'p TypedPool<T, A>,
            marker: PhantomData<T>,
        }
    };
}

#[cfg(feature = "alloc")]
typed_box!(= Global);
#[cfg(not(feature = "alloc"))]
typed_box!();

/// Guards a slot whose value is not stored yet, was moved out, or is being dropped. Dropping the
/// claim frees the slot.
pub(super) struct Claim<'p, T, A: Allocator> {
    slot: NonNull<T>,
    pool: &'p TypedPool<T, A>,
}

impl<'p, T, A: Allocator> Claim<'p, T, A> {
    #[inline]
    pub(super) fn new(pool: &'p TypedPool<T, A>, slot: NonNull<T>) -> Self {
        Self { slot, pool }
    }

    #[inline]
    pub(super) fn keep(self) -> NonNull<T> {
        let slot = self.slot;
        mem::forget(self);
        slot
    }
}

impl<T, A: Allocator> Drop for Claim<'_, T, A> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the creator of the claim passed a live slot of this pool, which only this claim
        // frees.
        unsafe { self.pool.deallocate(self.slot) };
    }
}

impl<'p, T, A: Allocator> TypedBox<'p, T, A> {
    /// Creates the handle of the value in `slot`.
    ///
    /// # Safety
    /// `slot` is a live slot of `pool` with a value in it, and nothing else uses it.
    #[inline]
    pub(super) unsafe fn new(pool: &'p TypedPool<T, A>, slot: NonNull<T>) -> Self {
        Self { slot, pool, marker: PhantomData }
    }

    /// Consumes the handle, frees its slot, and returns the value.
    #[inline]
    #[must_use]
    pub fn into_inner(this: Self) -> T {
        let (pool, slot) = (this.pool, Self::into_raw(this));
        // SAFETY: the handle owned the value, and nothing reads or drops the copy in the slot
        // again.
        let value = unsafe { slot.read() };
        drop(Claim::new(pool, slot));
        value
    }

    /// Leaks the handle and returns a reference to its value, valid for as long as the pool is
    /// borrowed. The value is never dropped, and its slot is never freed.
    #[inline]
    #[must_use]
    pub fn leak(this: Self) -> &'p mut T {
        // SAFETY: the handle owned the value, and nothing drops the value or frees its slot.
        unsafe { Self::into_raw(this).as_mut() }
    }

    /// Consumes the handle and returns the raw slot, which still holds the value.
    /// [`TypedPool::from_raw`] creates a handle from the slot again, and [`TypedPool::deallocate`]
    /// frees the slot.
    #[inline]
    #[must_use]
    pub fn into_raw(this: Self) -> NonNull<T> {
        let slot = this.slot;
        mem::forget(this);
        slot
    }

    /// Returns the pool of the value.
    #[inline]
    #[must_use]
    pub fn pool(this: &Self) -> &'p TypedPool<T, A> {
        this.pool
    }
}

impl<T, A: Allocator> Drop for TypedBox<'_, T, A> {
    #[inline]
    fn drop(&mut self) {
        // `_claim` frees the slot after the value's destructor, even if the destructor panics. The
        // destructor may use the pool.
        let _claim = Claim::new(self.pool, self.slot);
        // SAFETY: the handle owns its value, which is dropped only here.
        unsafe { self.slot.drop_in_place() };
    }
}

forward_to_value!([T, A: Allocator] TypedBox<'_, T, A>, slot);

/// A handle is `Unpin` for every `T`, because moving the handle does not move its value.
impl<T, A: Allocator> Unpin for TypedBox<'_, T, A> {}

impl<'p, T, A: Allocator> From<TypedBox<'p, T, A>> for Pin<TypedBox<'p, T, A>>
where
    A: 'static,
    T: 'static,
{
    fn from(this: TypedBox<'p, T, A>) -> Self {
        // SAFETY: the value stays in its slot until it is dropped. A leaked value stays there
        // permanently, because its unit is never freed and the backing allocator is never dropped.
        unsafe { Pin::new_unchecked(this) }
    }
}
