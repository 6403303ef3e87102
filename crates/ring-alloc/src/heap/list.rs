//! The lists of all chunks, one for each class. The owner adds and removes chunks, and statistics
//! walk the lists from any thread.

use core::ptr::NonNull;

use ephemera_prim::account::Account;
use ephemera_prim::raw;
use ephemera_prim::unit_list::Listed;
use ephemera_prim::word::OwnerPtr;

use super::{ChunkHeap, RingEnv};
use crate::chunk::purge::discard;
use crate::chunk::{Chunk, ChunkPtr};
use crate::geometry::ChunkClass;

// SAFETY: each method returns the address of the same field every time, and only the list uses the
// two fields.
unsafe impl Listed for Chunk {
    unsafe fn next(chunk: NonNull<Self>) -> NonNull<OwnerPtr<Self>> {
        // SAFETY: the caller's chunk is live, so it is not freed during this call (C1).
        NonNull::from(unsafe { ChunkPtr::new(chunk) }.next())
    }

    unsafe fn prev(chunk: NonNull<Self>) -> NonNull<OwnerPtr<Self>> {
        // SAFETY: the caller's chunk is live, so it is not freed during this call (C1).
        NonNull::from(unsafe { ChunkPtr::new(chunk) }.prev())
    }
}

/// Frees an empty chunk. If a walker stands on it, returns `false`; the chunk is then only on the
/// list of all chunks.
#[cold]
#[inline(never)]
pub(super) fn free_chunk<E: RingEnv>(env: E, chunk: ChunkPtr, class: ChunkClass, wait: Wait) -> bool {
    if !env.heap().unlink(chunk, class, wait) {
        return false;
    }
    let layout = class.chunk_layout::<E::Geometry>();
    let memory = chunk.end_of_life();
    if env.note_freed(layout.size()) {
        // SAFETY: the chunk is a live block of `backing` with this layout. It is empty and on no
        // list (H4, H5), so nothing needs its bytes.
        unsafe { discard(memory, layout.size()) };
    }
    // SAFETY: the chunk is empty and on no list (H4, H5), so nothing points to it. It came from
    // `backing` with this layout.
    unsafe { raw::release(env.backing(), memory, layout) };
    env.account().release(layout.size());
    env.heap().note_freed(class);
    true
}

impl ChunkHeap {
    /// Adds a new chunk (H5). Only the owner calls this.
    pub(super) fn link(&self, chunk: ChunkPtr, class: ChunkClass) {
        // SAFETY: the caller owns the heap (H1), and the chunk is removed before it is freed (H5).
        unsafe { self.chunks[class.index()].add(chunk.as_non_null()) };
    }

    /// Removes a chunk that is about to be freed. If a walker stands on it, returns `false` and
    /// changes nothing.
    pub(super) fn unlink(&self, chunk: ChunkPtr, class: ChunkClass, wait: Wait) -> bool {
        let (chunks, chunk) = (&self.chunks[class.index()], chunk.as_non_null());
        match wait {
            // SAFETY: the caller owns the heap (H1), and the chunk is on the list (H5).
            Wait::No => unsafe { chunks.remove(chunk) },
            // SAFETY: as above.
            Wait::Bounded => unsafe { chunks.remove_patiently(chunk) },
        }
    }

    /// Calls `visit` for every chunk, on any thread. Returns `false` if some chunks were not
    /// visited.
    pub(crate) fn walk(&self, mut visit: impl FnMut(ChunkClass, ChunkPtr)) -> bool {
        ChunkClass::ALL.into_iter().fold(true, |all, class| {
            // SAFETY: the list keeps a chunk from being freed while a walker stands on it (C1).
            let read = self.chunks[class.index()].walk(|chunk| visit(class, unsafe { ChunkPtr::new(chunk) }));
            all && read
        })
    }

    /// Calls `visit` for every chunk. Only the owner calls this.
    pub(super) fn for_each(&self, mut visit: impl FnMut(ChunkPtr)) {
        // SAFETY: chunks on the list are live, and the owner frees none during the walk (C1).
        let mut visit = |chunk| visit(unsafe { ChunkPtr::new(chunk) });
        for chunks in &self.chunks {
            // SAFETY: the caller owns the heap (H1).
            unsafe { chunks.for_each(&mut visit) };
        }
    }

    /// Returns whether `chunk` is a front of this heap. For statistics.
    pub(crate) fn is_front(&self, class: ChunkClass, chunk: ChunkPtr) -> bool {
        let front: *mut Chunk = self.fronts[class.index()].get();
        front == chunk.as_ptr() || chunk.is_split() && chunk.sections().any(|s| s.as_ptr() == front)
    }
}

/// Whether the owner waits for a walker that stands on the chunk to be freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// The owner keeps the chunk instead. It tries again when the next chunk runs empty.
    No,
    /// The owner waits a bounded time: before a refusal, and at thread exit, since the chunk would
    /// stay otherwise.
    Bounded,
}
