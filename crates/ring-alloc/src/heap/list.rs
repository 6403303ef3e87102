//! The lists of all chunks, one for each class: the owner adds and removes, statistics walk along them from any thread.

use core::ptr::NonNull;

use ephemera_prim::unit_list::Listed;
use ephemera_prim::word::OwnerPtr;

use super::Heap;
use crate::chunk::{Chunk, ChunkPtr};
use crate::geometry::Class;

// SAFETY: the addresses of two fields, for as long as the chunk lives; nothing but the list uses them.
unsafe impl Listed for Chunk {
    unsafe fn next(chunk: NonNull<Self>) -> NonNull<OwnerPtr<Self>> {
        // SAFETY: C1: the caller's chunk is alive.
        NonNull::from(unsafe { ChunkPtr::new(chunk) }.next())
    }

    unsafe fn prev(chunk: NonNull<Self>) -> NonNull<OwnerPtr<Self>> {
        // SAFETY: C1: the caller's chunk is alive.
        NonNull::from(unsafe { ChunkPtr::new(chunk) }.prev())
    }
}

impl Heap {
    /// Adds a new chunk (H5). The owner's alone.
    pub(super) fn link(&self, chunk: ChunkPtr, class: Class) {
        // SAFETY: H1: the caller owns the heap; H5: the chunk is new, and is not freed before it was removed.
        unsafe { self.chunks[class.index()].add(chunk.as_non_null()) };
    }

    /// Removes a chunk that is about to be freed. Returns `false`, with nothing changed, if a walker stands on it.
    pub(super) fn unlink(&self, chunk: ChunkPtr, class: Class, wait: Wait) -> bool {
        let (chunks, chunk) = (&self.chunks[class.index()], chunk.as_non_null());
        match wait {
            // SAFETY: H1: the caller owns the heap; H5: the chunk is on the list.
            Wait::No => unsafe { chunks.remove(chunk) },
            // SAFETY: as above.
            Wait::Bounded => unsafe { chunks.remove_patiently(chunk) },
        }
    }

    /// Calls `visit` for every chunk, on any thread. Returns `false` if some were not visited.
    pub(crate) fn walk(&self, mut visit: impl FnMut(Class, ChunkPtr)) -> bool {
        Class::ALL.into_iter().fold(true, |all, class| {
            // SAFETY: C1: the list keeps a chunk from being freed while a walker stands on it.
            let read = self.chunks[class.index()].walk(|chunk| visit(class, unsafe { ChunkPtr::new(chunk) }));
            all && read
        })
    }

    /// Calls `visit` for every chunk. The owner's alone.
    pub(super) fn for_each(&self, mut visit: impl FnMut(ChunkPtr)) {
        // SAFETY: C1: chunks on the list are alive.
        let mut visit = |chunk| visit(unsafe { ChunkPtr::new(chunk) });
        for chunks in &self.chunks {
            // SAFETY: H1: the caller owns the heap.
            unsafe { chunks.for_each(&mut visit) };
        }
    }

    /// Whether `chunk` is what this heap allocates from now. For statistics.
    pub(crate) fn is_front(&self, class: Class, chunk: ChunkPtr) -> bool {
        self.fronts[class.index()].get() == chunk.as_ptr()
    }
}

/// Whether the owner waits for a walker that stands on the chunk it is about to free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// It keeps the chunk instead: the next chunk that drains tries again.
    No,
    /// A bounded time, since the chunk would stay behind: before a refusal, and at the end of a thread.
    Bounded,
}
