//! `TypedBox`: the handle of a value in a `TypedPool`, and the methods of the pool that return one.

use core::marker::PhantomData;
use core::mem;
use core::pin::Pin;
use core::ptr::NonNull;

#[cfg(feature = "alloc")]
use allocator_api2::alloc::Global;
use allocator_api2::alloc::{AllocError, Allocator};

use super::{TypedPool, no_memory};
use crate::error::TryAllocError;
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

/// Guards a slot whose value is not stored yet, or is being dropped. Dropping the guard frees the
/// slot.
struct TypedSlotGuard<'p, T, A: Allocator> {
    slot: NonNull<T>,
    pool: &'p TypedPool<T, A>,
}

impl<T, A: Allocator> Drop for TypedSlotGuard<'_, T, A> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the creator of the guard passed a live slot of this pool, which only this guard
        // frees.
        unsafe { self.pool.deallocate(self.slot) };
    }
}

impl<'p, T, A: Allocator> TypedBox<'p, T, A> {
    /// Consumes the handle, frees its slot, and returns the value.
    #[inline]
    #[must_use]
    pub fn into_inner(this: Self) -> T {
        let (pool, slot) = (this.pool, Self::into_raw(this));
        // SAFETY: the handle owned the value, and nothing reads or drops the copy in the slot
        // again.
        let value = unsafe { slot.read() };
        // SAFETY: the handle owned the slot of this pool, which is not used again.
        unsafe { pool.deallocate(slot) };
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
        // `_guard` frees the slot after the value's destructor, even if the destructor panics. The
        // destructor may use the pool.
        let _guard = TypedSlotGuard { slot: self.slot, pool: self.pool };
        // SAFETY: the handle owns its value, which is dropped only here.
        unsafe { self.slot.drop_in_place() };
    }
}

impl<T, A: Allocator> TypedPool<T, A> {
    /// Allocates a slot, moves `value` into it, and returns its handle.
    ///
    /// # Aborts
    /// Calls `handle_alloc_error` if the allocation fails. Without the feature `alloc`, this method
    /// panics instead. [`TypedPool::try_alloc`] returns an error.
    #[inline]
    pub fn alloc(&self, value: T) -> TypedBox<'_, T, A> {
        match self.allocate() {
            Ok(slot) => self.fill(slot, value),
            Err(AllocError) => no_memory(Self::LAYOUT),
        }
    }

    /// Allocates a slot, moves `value` into it, and returns its handle.
    ///
    /// # Errors
    /// Returns [`TryAllocError`], with the value, if the limit would be exceeded, or if the backing
    /// allocator refuses.
    #[inline]
    pub fn try_alloc(&self, value: T) -> Result<TypedBox<'_, T, A>, TryAllocError<T>> {
        match self.allocate() {
            Ok(slot) => Ok(self.fill(slot, value)),
            Err(AllocError) => Err(TryAllocError::new(value)),
        }
    }

    /// Allocates a slot, then stores the result of `init` in it and returns its handle. If `init`
    /// panics, this function frees the slot.
    ///
    /// # Aborts
    /// Calls `handle_alloc_error` if the allocation fails. Without the feature `alloc`, this method
    /// panics instead.
    #[inline]
    pub fn alloc_with(&self, init: impl FnOnce() -> T) -> TypedBox<'_, T, A> {
        match self.allocate() {
            Ok(slot) => self.fill_with(slot, init),
            Err(AllocError) => no_memory(Self::LAYOUT),
        }
    }

    /// Allocates a slot, then stores the result of `init` in it, like [`TypedPool::alloc_with`].
    ///
    /// # Errors
    /// Returns [`TryAllocError`], with `init`, if the limit would be exceeded, or if the backing
    /// allocator refuses.
    #[inline]
    pub fn try_alloc_with<F: FnOnce() -> T>(
        &self,
        init: F,
    ) -> Result<TypedBox<'_, T, A>, TryAllocError<F, T>> {
        match self.allocate() {
            Ok(slot) => Ok(self.fill_with(slot, init)),
            Err(AllocError) => Err(TryAllocError::new(init)),
        }
    }

    #[inline]
    fn fill_with(&self, slot: NonNull<T>, init: impl FnOnce() -> T) -> TypedBox<'_, T, A> {
        let guard = TypedSlotGuard { slot, pool: self };
        let value = init();
        mem::forget(guard);
        self.fill(slot, value)
    }

    #[inline]
    fn fill(&self, slot: NonNull<T>, value: T) -> TypedBox<'_, T, A> {
        // SAFETY: the slot is for a `T`, and nothing else uses it.
        unsafe { slot.write(value) };
        // SAFETY: the slot of this pool has a value, and only this handle uses it.
        unsafe { self.from_raw(slot) }
    }

    /// Creates a handle from a slot that [`TypedBox::into_raw`] returned.
    ///
    /// # Safety
    /// `slot` is a live slot of this pool with a value in it, and nothing else uses it.
    #[inline]
    pub unsafe fn from_raw(&self, slot: NonNull<T>) -> TypedBox<'_, T, A> {
        TypedBox { slot, pool: self, marker: PhantomData }
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
