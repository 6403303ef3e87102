//! Defines the source of a ring's chunks and large blocks.

use allocator_api2::alloc::Allocator;
#[cfg(feature = "alloc")]
use ephemera_prim::pages::{Pages, SPAN_MIN};

#[cfg(feature = "alloc")]
use crate::geometry::Geometry;

/// The source of a ring's chunks and large blocks. It stays the same for the life of the ring, so
/// each block returns to the allocator that it came from.
pub(super) enum ChunkSource<A> {
    /// The backing allocator that the creator of the ring chose.
    Backing(A),
    /// The operating system's pages, if the creator of the ring chose no backing allocator. The
    /// value in this variant allocates the ring's state.
    #[cfg(feature = "alloc")]
    Pages(A),
}

impl<A: Allocator> ChunkSource<A> {
    /// Returns the source of a ring of geometry `G` whose creator chose no backing allocator: the
    /// pages, while `global` allocates the ring's state. A chunk that is shorter than a span would
    /// take a whole span. In that case, and without the feature `std`, the source is `global`.
    #[cfg(feature = "alloc")]
    pub(super) fn without_backing<G: Geometry>(global: A) -> Self {
        let fill_spans =
            G::SMALL_CHUNK.min(G::MEDIUM_CHUNK) >= SPAN_MIN || weakened!("short_chunks_take_spans");
        if cfg!(feature = "std") && fill_spans && !weakened!("rings_take_global_chunks") {
            Self::Pages(global)
        } else {
            Self::Backing(global)
        }
    }

    /// Returns the allocator of the ring's state.
    pub(super) fn state_allocator(&self) -> &A {
        match self {
            Self::Backing(state) => state,
            #[cfg(feature = "alloc")]
            Self::Pages(state) => state,
        }
    }

    /// Returns the allocator of chunks and large blocks.
    fn chunk_allocator(&self) -> &dyn Allocator {
        match self {
            Self::Backing(backing) => backing,
            #[cfg(feature = "alloc")]
            Self::Pages(_) => &Pages,
        }
    }
}

// SAFETY: every method forwards to the allocator of the variant, which never changes. Blocks stay
// valid as long as those of that allocator. A `ChunkSource` has no clones.
unsafe impl<A: Allocator> Allocator for ChunkSource<A> {
    ephemera_prim::__forward_allocator!(|self| *self.chunk_allocator(), Allocator);
}
