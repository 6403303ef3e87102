//! `Builder`: the settings of a `TypedPool`.

use core::fmt;
use core::marker::PhantomData;

#[cfg(feature = "alloc")]
use allocator_api2::alloc::Global;
use allocator_api2::alloc::{AllocError, Allocator};
use ephemera_prim::account::UNLIMITED;

use super::{TypedPool, no_memory};
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
#[must_use = "settings create no pool by themselves"]
pub struct Builder<T> {
    chunk_len: ChunkLen,
    capacity: usize,
    limit: usize,
    marker: PhantomData<fn() -> T>,
}

impl<T> Builder<T> {
    /// Creates settings without a limit and without an initial capacity. Requests grow from 64
    /// slots up to a whole unit.
    pub const fn new() -> Self {
        Self { chunk_len: ChunkLen::Grows, capacity: 0, limit: UNLIMITED, marker: PhantomData }
    }

    /// Sets the number of slots that the pool reserves when it is built. The pool keeps their units
    /// until a [`trim`](TypedPool::trim). For values without units (see
    /// [`chunk_len`](Self::chunk_len)), the pool does not reserve anything, so no limit is too
    /// small.
    pub const fn capacity(self, slots: usize) -> Self {
        Self { capacity: slots, ..self }
    }

    /// Sets the limit on the bytes that the pool holds from its backing allocator. The pool refuses
    /// requests beyond the limit, and a capacity that exceeds it. At a refusal, the methods that
    /// return a `Result` return an error, and the others abort the process. Without the feature
    /// `alloc`, those others panic instead.
    pub const fn limit(self, bytes: usize) -> Self {
        Self { limit: bytes, ..self }
    }

    /// Sets the number of slots of each request to the backing allocator. Zero means one. This
    /// setting has no effect for values without units: values that are larger than 32 KiB, aligned
    /// to more than 4 KiB, or of size zero.
    ///
    /// If `slots` is at most the capacity of a unit (1,019 slots of 32 bytes, 63 of 1,024), each
    /// request is for one unit with that number of slots. Otherwise, each request is for several
    /// whole units, at most 64. If the limit or the backing allocator has no room for a request,
    /// the pool requests fewer slots.
    pub const fn chunk_len(self, slots: usize) -> Self {
        Self { chunk_len: ChunkLen::Fixed(slots), ..self }
    }

    /// Creates the pool over the global heap.
    ///
    /// # Aborts
    /// Calls `handle_alloc_error` if the limit or the global heap has no room for the capacity.
    #[cfg(feature = "alloc")]
    #[must_use]
    pub fn build(self) -> TypedPool<T> {
        self.build_in(Global)
    }

    /// Creates the pool over the global heap.
    ///
    /// # Errors
    /// Returns [`AllocError`] if the limit or the global heap has no room for the capacity.
    #[cfg(feature = "alloc")]
    pub fn try_build(self) -> Result<TypedPool<T>, AllocError> {
        self.try_build_in(Global)
    }

    /// Creates the pool over `backing`.
    ///
    /// # Aborts
    /// Calls `handle_alloc_error` if the limit or the backing allocator has no room for the
    /// capacity. Without the feature `alloc`, this method panics instead.
    #[must_use]
    pub fn build_in<A: Allocator>(self, backing: A) -> TypedPool<T, A> {
        match self.try_build_in(backing) {
            Ok(pool) => pool,
            Err(AllocError) => no_memory(core::alloc::Layout::new::<T>()),
        }
    }

    /// Creates the pool over `backing`.
    ///
    /// # Errors
    /// Returns [`AllocError`] if the limit or the backing allocator has no room for the capacity.
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

impl<T> fmt::Debug for Builder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("capacity", &self.capacity)
            .field("limit", &self.limit)
            .field("chunk_len", &self.chunk_len)
            .finish()
    }
}

#[cfg(feature = "alloc")]
impl<T> TypedPool<T> {
    /// Creates a pool with room for `slots` values. The pool keeps this room until a
    /// [`trim`](TypedPool::trim). This call touches only the page with each unit's header, which is
    /// one page in eight of a unit of 32 KiB. For values without units, the pool does not reserve
    /// anything.
    ///
    /// # Aborts
    /// Calls [`handle_alloc_error`](allocator_api2::alloc::handle_alloc_error) if there is no
    /// memory for the slots.
    #[must_use]
    pub fn with_capacity(slots: usize) -> Self {
        Self::builder().capacity(slots).build()
    }

    /// Creates a pool that requests `slots` slots at a time from the global heap: at least one
    /// slot, and at most 64 units. Without a chunk length, a pool requests 64 slots first and
    /// doubles the number with each unit that it holds, up to a whole unit.
    #[must_use]
    pub fn with_chunk_len(slots: usize) -> Self {
        Self::builder().chunk_len(slots).build()
    }

    /// Returns a builder that sets the limit, the slots per request, and the initial capacity of a
    /// pool.
    pub const fn builder() -> Builder<T> {
        Builder::new()
    }
}
