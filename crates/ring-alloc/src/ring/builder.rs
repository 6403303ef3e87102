//! Defines the settings of a ring.

use core::fmt;
use core::marker::PhantomData;

#[cfg(feature = "alloc")]
use allocator_api2::alloc::Global;
use allocator_api2::alloc::{AllocError, Allocator};
use ephemera_prim::account::UNLIMITED;

use super::inner::Inner;
use super::source::ChunkSource;
use super::{RingAlloc, no_memory};
use crate::geometry::{Geometry, Standard};

/// The settings of a [`RingAlloc`].
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use ring_alloc::RingAlloc;
///
/// let ring = RingAlloc::builder().limit(8 << 20).retain(0).build();
/// assert_eq!(ring.stats().limit, 8 << 20);
/// # }
/// ```
#[must_use = "settings create no ring by themselves"]
pub struct Builder<G = Standard> {
    limit: usize,
    retain: Option<usize>,
    geometry: PhantomData<fn() -> G>,
}

// `Clone` is not derived, because the derived implementation would require `G: Clone`.
impl<G> Clone for Builder<G> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<G> Copy for Builder<G> {}

impl<G> fmt::Debug for Builder<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("limit", &self.limit).field("retain", &self.retain).finish()
    }
}

impl Builder {
    /// Creates settings with no limit and the standard geometry.
    pub const fn new() -> Self {
        Self { limit: UNLIMITED, retain: None, geometry: PhantomData }
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl<G: Geometry> Builder<G> {
    /// Sets the limit on the bytes that the ring may hold: chunks, large blocks and the ring's own
    /// state (256 bytes on a 64-bit target). A large block over pages [may hold
    /// more](crate#where-memory-comes-from) than it counts.
    ///
    /// A request that would exceed the limit makes the ring free its empty chunks, and fails with
    /// [`AllocError`] if that is not enough. Most containers then abort the process, except in
    /// methods such as `Box::try_new_in` and `Vec::try_reserve`. A shrink is never refused because
    /// of the limit: if it must move its block, the move may exceed the limit.
    pub const fn limit(self, bytes: usize) -> Self {
        Self { limit: bytes, ..self }
    }

    /// Sets the number of empty chunks of each class that the ring keeps for reuse, besides the
    /// front. The default is the geometry's [`RETAIN`](Geometry::RETAIN), which is 4 in
    /// [`Standard`].
    ///
    /// The ring keeps the front of each class (the chunk that blocks are allocated from) even when
    /// the front has no live block. A ring without live blocks therefore holds up to `chunks + 1`
    /// chunks of each class that it has used, or one of each with `retain(0)`.
    /// [`RingAlloc::trim`] frees the fronts too.
    pub const fn retain(self, chunks: usize) -> Self {
        Self { retain: Some(chunks), ..self }
    }

    /// Sets the geometry of the chunks.
    pub const fn geometry<H: Geometry>(self) -> Builder<H> {
        Builder { limit: self.limit, retain: self.retain, geometry: PhantomData }
    }

    /// Creates the ring over the operating system's pages, like [`RingAlloc::new`].
    ///
    /// # Aborts
    /// Calls `handle_alloc_error` if there is no memory for the ring's state, or if the limit is
    /// smaller than that state.
    #[cfg(feature = "alloc")]
    #[must_use]
    pub fn build(self) -> RingAlloc<Global, G> {
        self.try_build().unwrap_or_else(|AllocError| no_memory::<Global, G>())
    }

    /// Creates the ring over the operating system's pages, like [`RingAlloc::new`].
    ///
    /// # Errors
    /// Returns [`AllocError`] if there is no memory for the ring's state, or if the limit is
    /// smaller than that state.
    #[cfg(feature = "alloc")]
    pub fn try_build(self) -> Result<RingAlloc<Global, G>, AllocError> {
        self.create(ChunkSource::without_backing::<G>(Global))
    }

    /// Creates the ring over `backing`, which also serves the ring's own state.
    ///
    /// # Aborts
    /// Calls `handle_alloc_error` if `backing` cannot allocate the ring's state, or if the limit is
    /// smaller than that state. Without the feature `alloc`, panics instead.
    #[must_use]
    pub fn build_in<A: Allocator>(self, backing: A) -> RingAlloc<A, G> {
        self.try_build_in(backing).unwrap_or_else(|AllocError| no_memory::<A, G>())
    }

    /// Creates the ring over `backing`, which also serves the ring's own state.
    ///
    /// # Errors
    /// Returns [`AllocError`] if `backing` cannot allocate the ring's state, or if the limit is
    /// smaller than that state.
    pub fn try_build_in<A: Allocator>(self, backing: A) -> Result<RingAlloc<A, G>, AllocError> {
        self.create(ChunkSource::with_backing(backing))
    }

    fn create<A: Allocator>(self, source: ChunkSource<A>) -> Result<RingAlloc<A, G>, AllocError> {
        let retain = self.retain.unwrap_or(G::RETAIN);
        Inner::create(self.limit, retain, source).map(RingAlloc::from_inner)
    }
}

impl<A: Allocator> RingAlloc<A> {
    /// Creates a ring over `backing`, which also serves the ring's own state.
    ///
    /// # Aborts
    /// Calls `handle_alloc_error` if there is no memory for the ring's state. Without the feature
    /// `alloc`, panics instead. [`RingAlloc::try_new_in`] returns an error.
    #[must_use]
    #[inline]
    pub fn new_in(backing: A) -> Self {
        Builder::new().build_in(backing)
    }

    /// Creates a ring over `backing`, which also serves the ring's own state.
    ///
    /// # Errors
    /// Returns [`AllocError`] if `backing` cannot allocate the ring's state.
    #[inline]
    pub fn try_new_in(backing: A) -> Result<Self, AllocError> {
        Builder::new().try_build_in(backing)
    }
}

#[cfg(feature = "alloc")]
impl RingAlloc<Global> {
    /// Creates a ring over the operating system's pages. On a 64-bit target, the ring holds 256
    /// bytes of the global heap until its first allocation.
    ///
    /// Without the feature `std`, the global heap serves the chunks and large blocks too
    /// ([details](crate#where-memory-comes-from)). With this feature, `RingAlloc::new_in(Global)`
    /// and `RingAlloc::default()` create a ring over the global heap.
    ///
    /// # Aborts
    /// Calls `handle_alloc_error` if there is no memory for the ring's state.
    /// [`Builder::try_build`] returns an error instead.
    #[must_use]
    #[inline]
    pub fn new() -> Self {
        Builder::new().build()
    }

    /// Returns the default settings of a ring: the limit on the bytes held, the number of empty
    /// chunks to keep, and the geometry.
    ///
    /// # Examples
    ///
    /// ```
    /// use core::alloc::Layout;
    /// use ring_alloc::RingAlloc;
    ///
    /// let ring = RingAlloc::builder().limit(1 << 20).build();
    /// assert!(ring.allocate(Layout::new::<[u8; 2 << 20]>()).is_err());
    /// ```
    pub const fn builder() -> Builder {
        Builder::new()
    }
}
