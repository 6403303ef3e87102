//! Defines the source of a ring's chunks and large blocks.

use allocator_api2::alloc::Allocator;
#[cfg(feature = "std")]
use ephemera_prim::pages::Pages;

/// The source of a ring's chunks and large blocks. It stays the same for the life of the ring, so
/// each block returns to the allocator that it came from.
pub(super) enum ChunkSource<A> {
    /// The backing allocator that the creator of the ring chose.
    Backing(A),
    /// The operating system's pages, if the creator of the ring chose no backing allocator. The
    /// value in this variant allocates the ring's state.
    #[cfg(feature = "std")]
    Pages(A),
}

impl<A: Allocator> ChunkSource<A> {
    /// Returns the source of a ring whose creator chose no backing allocator. `state` allocates the
    /// ring's state, and without the feature `std` everything else too.
    #[cfg(feature = "alloc")]
    pub(super) fn unchosen(state: A) -> Self {
        #[cfg(feature = "std")]
        if !weakened!("rings_take_global_chunks") {
            return Self::Pages(state);
        }
        Self::Backing(state)
    }

    /// Returns the allocator of the ring's state.
    pub(super) fn of_state(&self) -> &A {
        match self {
            Self::Backing(state) => state,
            #[cfg(feature = "std")]
            Self::Pages(state) => state,
        }
    }

    /// Returns the allocator of chunks and large blocks.
    fn allocator(&self) -> &dyn Allocator {
        match self {
            Self::Backing(backing) => backing,
            #[cfg(feature = "std")]
            Self::Pages(_) => &Pages,
        }
    }
}

// SAFETY: every method forwards to the allocator of the variant, which never changes. Blocks stay
// valid as long as those of that allocator. A `ChunkSource` has no clones.
unsafe impl<A: Allocator> Allocator for ChunkSource<A> {
    ephemera_prim::__forward_allocator!(|self| *self.allocator(), Allocator);
}
