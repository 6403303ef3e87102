//! Defines the source of a ring's chunks and large blocks.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};
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

impl<A> ChunkSource<A> {
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
}

/// Evaluates `$call`, in which `$source` names the allocator behind a [`ChunkSource`].
macro_rules! by_source {
    ($this:expr, $source:ident => $call:expr) => {
        match $this {
            ChunkSource::Backing($source) => $call,
            #[cfg(feature = "std")]
            ChunkSource::Pages(_) => {
                let $source = &Pages;
                $call
            }
        }
    };
}

// SAFETY: each method forwards to the allocator of the variant, which never changes. A
// `ChunkSource` is not cloned, and its blocks stay valid as long as those of that allocator.
unsafe impl<A: Allocator> Allocator for ChunkSource<A> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        by_source!(self, source => source.allocate(layout))
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        by_source!(self, source => source.allocate_zeroed(layout))
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the block came from this allocator, and the caller upholds the rest.
        by_source!(self, source => unsafe { source.deallocate(block, layout) });
    }

    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the block came from this allocator, and the caller upholds the rest.
        by_source!(self, source => unsafe { source.grow(block, old, new) })
    }

    unsafe fn grow_zeroed(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the block came from this allocator, and the caller upholds the rest.
        by_source!(self, source => unsafe { source.grow_zeroed(block, old, new) })
    }

    unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the block came from this allocator, and the caller upholds the rest.
        by_source!(self, source => unsafe { source.shrink(block, old, new) })
    }
}
