//! Settings for a `TypedPool`, and the making of one.

use core::marker::PhantomData;

#[cfg(feature = "alloc")]
use allocator_api2::alloc::Global;
use allocator_api2::alloc::{AllocError, Allocator};

use super::{TypedPool, no_memory};
use crate::account::UNLIMITED;
use crate::heap::ChunkLen;

/// Settings for a [`TypedPool`].
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use typed_pool::TypedPool;
///
/// let pool: TypedPool<[u8; 100]> = TypedPool::builder().chunk_len(16).limit(1 << 20).build();
/// assert_eq!(pool.stats().limit, 1 << 20);
/// # }
/// ```
#[derive(Debug)]
#[must_use = "settings make no pool by themselves"]
pub struct Builder<T> {
    chunk_len: ChunkLen,
    capacity: usize,
    limit: usize,
    marker: PhantomData<fn() -> T>,
}

impl<T> Builder<T> {
    /// No limit, nothing to begin with, chunks that grow.
    pub const fn new() -> Self {
        Self { chunk_len: ChunkLen::Grows, capacity: 0, limit: UNLIMITED, marker: PhantomData }
    }

    /// How many slots to take from the backing allocator at a time, not fewer than one. Of no meaning for values without units (larger than
    /// 32 KiB, aligned to more than 4 KiB, or of size zero).
    ///
    /// Up to what fits a unit (1,019 slots of 32 bytes, 63 of 1,024) these are one shorter unit, beyond that several whole ones, 64 at most.
    /// Where the limit or the backing allocator has no room for that, it is fewer.
    pub const fn chunk_len(self, slots: usize) -> Self {
        Self { chunk_len: ChunkLen::Fixed(slots), ..self }
    }

    /// How many slots to begin with. They are kept until a [`trim`](TypedPool::trim). Of no meaning for values without units, of which
    /// nothing is taken before they come: no limit is too small for it.
    pub const fn capacity(self, slots: usize) -> Self {
        Self { capacity: slots, ..self }
    }

    /// The most bytes that the pool may hold from its backing allocator. Requests beyond that fail, and with them the making of a pool
    /// whose capacity needs more.
    pub const fn limit(self, bytes: usize) -> Self {
        Self { limit: bytes, ..self }
    }

    /// The pool, over the global heap.
    ///
    /// Calls `handle_alloc_error` when there is no memory for what it is to begin with.
    #[cfg(feature = "alloc")]
    #[must_use]
    pub fn build(self) -> TypedPool<T> {
        self.build_in(Global)
    }

    /// The pool, over `backing`.
    ///
    /// # Panics
    /// When there is no memory for what it is to begin with: by way of `handle_alloc_error`, where there is one.
    #[must_use]
    pub fn build_in<A: Allocator>(self, backing: A) -> TypedPool<T, A> {
        match self.try_build_in(backing) {
            Ok(pool) => pool,
            Err(AllocError) => no_memory(core::alloc::Layout::new::<T>()),
        }
    }

    /// The pool, over `backing`.
    ///
    /// # Errors
    /// [`AllocError`] when the limit or the backing allocator has no room for what it is to begin with.
    pub fn try_build_in<A: Allocator>(self, backing: A) -> Result<TypedPool<T, A>, AllocError> {
        let pool = TypedPool::from_settings(self.chunk_len, self.limit, backing);
        pool.try_reserve(self.capacity)?;
        Ok(pool)
    }
}

impl<T> Default for Builder<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Clone for Builder<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Builder<T> {}
