//! Defines the source of a ring's chunks and large blocks.

use allocator_api2::alloc::Allocator;
#[cfg(feature = "alloc")]
use ephemera_prim::pages::{Pages, SPAN_MIN};

#[cfg(feature = "alloc")]
use crate::geometry::Geometry;

/// The source of a ring's chunks and large blocks. It stays the same for the life of the ring, so
/// each block returns to the allocator that it came from.
pub(super) struct ChunkSource<A> {
    /// The allocator of the ring's state, and of its chunks and large blocks unless `over_pages`.
    pub(super) allocator: A,
    /// Whether the chunks and large blocks come from the operating system's pages.
    #[cfg(feature = "alloc")]
    over_pages: bool,
}

// A ring counts its state, so the source takes no memory for a choice that the build cannot make.
#[cfg(not(feature = "alloc"))]
const _: () = assert!(size_of::<ChunkSource<usize>>() == size_of::<usize>());

impl<A: Allocator> ChunkSource<A> {
    /// Returns the source of a ring whose creator chose the backing allocator `allocator`.
    pub(super) fn with_backing(allocator: A) -> Self {
        Self {
            allocator,
            #[cfg(feature = "alloc")]
            over_pages: false,
        }
    }

    /// Returns the source of a ring of geometry `G` whose creator chose no backing allocator: the
    /// pages, while `global` allocates the ring's state. A chunk that is shorter than a span would
    /// take a whole span. In that case, and without the feature `std`, the source is `global`.
    #[cfg(feature = "alloc")]
    pub(super) fn without_backing<G: Geometry>(global: A) -> Self {
        let fill_spans =
            G::SMALL_CHUNK.min(G::MEDIUM_CHUNK) >= SPAN_MIN || weakened!("short_chunks_take_spans");
        let over_pages = cfg!(feature = "std") && fill_spans && !weakened!("rings_take_global_chunks");
        Self { allocator: global, over_pages }
    }

    /// Returns the allocator of chunks and large blocks.
    fn chunk_allocator(&self) -> &dyn Allocator {
        #[cfg(feature = "alloc")]
        if self.over_pages {
            return &Pages;
        }
        &self.allocator
    }
}

// SAFETY: every method forwards to the same allocator, because `over_pages` never changes. Blocks
// stay valid as long as the blocks of that allocator. A `ChunkSource` has no clones.
unsafe impl<A: Allocator> Allocator for ChunkSource<A> {
    ephemera_prim::__forward_allocator!(|self| *self.chunk_allocator(), Allocator);
}
