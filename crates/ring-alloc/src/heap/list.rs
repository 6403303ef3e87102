//! The lists of all chunks, one for each class. The owner adds and removes chunks, and statistics
//! walk the lists from any thread.

use ephemera_prim::unit_list::UnitList;

use super::ChunkHeap;
use crate::chunk::{Chunk, ChunkPtr};
use crate::geometry::ChunkClass;

impl ChunkHeap {
    /// Returns the list of small chunks.
    pub(super) fn small_chunks(&self) -> &UnitList<Chunk> {
        &self.chunks[ChunkClass::Small.index()]
    }

    /// Adds a new chunk to the list of its class (H5). Only the owner may call this method.
    pub(super) fn link(&self, chunk: ChunkPtr, class: ChunkClass) {
        // SAFETY: the caller owns the heap (H1). The new chunk is on no list yet, and is removed
        // before it is freed (H5).
        unsafe { self.chunks[class.index()].add(chunk.as_non_null()) };
        if class == ChunkClass::Small {
            self.small.add(1);
        }
    }

    /// Removes a chunk from its list, before the chunk is freed. `wait` says whether to wait for a
    /// walker that protects the chunk. Returns `true` if the chunk was removed, and `false` if it
    /// stays protected and therefore on the list.
    pub(super) fn unlink(&self, chunk: ChunkPtr, class: ChunkClass, wait: Wait) -> bool {
        let (chunks, chunk) = (&self.chunks[class.index()], chunk.as_non_null());
        let removed = match wait {
            // SAFETY: the caller owns the heap (H1), and the chunk is on the list (H5).
            Wait::No => unsafe { chunks.remove(chunk) },
            // SAFETY: the caller owns the heap (H1), and the chunk is on the list (H5).
            Wait::Bounded => unsafe { chunks.remove_patiently(chunk) },
        };
        if removed && class == ChunkClass::Small {
            self.small.sub(1);
        }
        removed
    }

    /// Calls `visit` for every chunk that the walk reaches. Returns whether the walk reached all
    /// chunks. Any thread may call this method.
    pub(crate) fn walk(&self, mut visit: impl FnMut(ChunkClass, ChunkPtr)) -> bool {
        ChunkClass::ALL.into_iter().fold(true, |all, class| {
            // SAFETY: the walk protects the chunk during `visit`, so the chunk is not freed (C1).
            let read = self.chunks[class.index()].walk(|chunk| visit(class, unsafe { ChunkPtr::new(chunk) }));
            all && read
        })
    }

    /// Calls `visit` for every chunk. Only the owner may call this method.
    pub(super) fn for_each(&self, mut visit: impl FnMut(ChunkPtr)) {
        // SAFETY: a chunk on the list is not freed (H5), and the owner removes none during the walk
        // (C1).
        let mut visit = |chunk| visit(unsafe { ChunkPtr::new(chunk) });
        for chunks in &self.chunks {
            // SAFETY: the caller owns the heap (H1).
            unsafe { chunks.for_each(&mut visit) };
        }
    }

    /// Returns whether `chunk` is the heap's front of `class`, as far as this thread sees.
    pub(crate) fn is_front(&self, class: ChunkClass, chunk: ChunkPtr) -> bool {
        chunk.has_cursor(self.fronts[class.index()].get())
    }
}

/// Whether the owner, before it frees a chunk, waits for a walker that protects the chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// The owner does not wait, and keeps a protected chunk as an empty chunk.
    No,
    /// The owner waits a bounded time. Every trim waits in this way, also before a refusal and at
    /// thread exit, because the chunk would otherwise stay held.
    Bounded,
}
