//! Settings for a ring, and the making of one.

use core::fmt;
use core::marker::PhantomData;

#[cfg(feature = "alloc")]
use allocator_api2::alloc::Global;
use allocator_api2::alloc::{AllocError, Allocator};

use super::inner::{Inner, Settings};
use super::{RingAlloc, no_memory};
use crate::account::UNLIMITED;
use crate::geometry::{Geometry, Standard};

/// Settings for a [`RingAlloc`].
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
#[must_use = "settings make no ring by themselves"]
pub struct Builder<G = Standard> {
    limit: usize,
    retain: Option<usize>,
    geometry: PhantomData<fn() -> G>,
}

// By hand: a derived implementation would ask the same of the geometry, of which a builder has no value.
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
    /// No limit, the standard geometry.
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
    /// The most bytes that the ring may hold from its backing allocator: chunks, large blocks and the ring's own
    /// state (about 200 bytes). Requests beyond that fail with [`AllocError`], after the ring freed its empty chunks. A shrink that
    /// has to move its block is not refused: it may take a chunk beyond the limit.
    pub const fn limit(self, bytes: usize) -> Self {
        Self { limit: bytes, ..self }
    }

    /// Empty chunks of each class that the ring keeps for the next need: unless set here, [`RETAIN`](Geometry::RETAIN) of the geometry, which
    /// is 4 in the standard one.
    pub const fn retain(self, chunks: usize) -> Self {
        Self { retain: Some(chunks), ..self }
    }

    /// Another geometry of chunks.
    pub const fn geometry<H: Geometry>(self) -> Builder<H> {
        Builder { limit: self.limit, retain: self.retain, geometry: PhantomData }
    }

    /// The ring, over the global heap.
    ///
    /// # Panics
    /// When there is no memory for its state: by way of `handle_alloc_error`, where there is one.
    #[cfg(feature = "alloc")]
    #[must_use]
    pub fn build(self) -> RingAlloc<Global, G> {
        self.build_in(Global)
    }

    /// The ring, over `backing`.
    ///
    /// # Panics
    /// When there is no memory for its state: by way of `handle_alloc_error`, where there is one.
    #[must_use]
    pub fn build_in<A: Allocator>(self, backing: A) -> RingAlloc<A, G> {
        match self.try_build_in(backing) {
            Ok(ring) => ring,
            Err(AllocError) => no_memory::<A, G>(),
        }
    }

    /// The ring, over `backing`.
    ///
    /// # Errors
    /// [`AllocError`] when `backing` has no memory for the ring's state, or the limit none.
    pub fn try_build_in<A: Allocator>(self, backing: A) -> Result<RingAlloc<A, G>, AllocError> {
        let settings = Settings { limit: self.limit, retain: self.retain.unwrap_or(G::RETAIN) };
        Inner::create(settings, backing).map(RingAlloc::from_inner)
    }
}
