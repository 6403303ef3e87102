//! Holes: the free sections of chunks that long-lived blocks pin (see `chunk/sections.rs`).
//!
//! A *sparse* heap divides each small chunk that becomes its front into sections, and takes a
//! hole before it requests a new chunk. So one long-lived block pins a section of 4 KiB rather than
//! a chunk of 32 KiB.
//!
//! ```text
//!   divided_front --> the divided chunk that is the front, or null
//!   first --> chunk with holes <--> chunk with holes   (the chunk whose section was freed last)
//! ```
//!
//! A free in a divided chunk takes more instructions. A heap therefore divides no further
//! chunk once a census (see `census`) finds that it is no longer sparse, or once it has taken empty
//! chunks much more often than holes.

use ephemera_prim::barrier;

use super::front::set_front;
use super::sparse::PATIENCE;
use super::{ChunkHeap, RingEnv};
use crate::chunk::ChunkPtr;
use crate::cursor::room_of;
use crate::geometry::ChunkClass;

impl ChunkHeap {
    /// Makes the heap sparse, as if a census had found few live bytes.
    #[cfg(all(test, ephemera_loom))]
    pub(crate) fn make_sparse(&self) {
        self.holes.set_sparse(true);
    }
}

/// Notes that the heap continues in an empty chunk that it had, not in a hole. Returns whether the
/// heap is still sparse.
fn note_empty(heap: &ChunkHeap) -> bool {
    let sparse = &heap.holes.sparse;
    if !weakened!("sparse_heap_stays_sparse") {
        sparse.set(sparse.get().saturating_sub(1));
    }
    sparse.get() != 0
}

/// Prepares an empty small chunk that becomes the front: divides it if the heap is sparse.
/// `requested` says that the chunk is new.
pub(super) fn prepare<E: RingEnv>(env: E, chunk: ChunkPtr, requested: bool) {
    let heap = env.heap();
    if heap.holes.sparse.get() != 0 && (requested || note_empty(heap)) {
        chunk.divide();
        open_hole(env, chunk);
    }
}

/// Takes a hole: moves the second cursor of its chunk to its start, and makes the chunk the front.
/// Returns `None` if the heap has no hole that it may take.
///
/// A chunk with unbooked remote frees does not become the front, because another thread may be
/// about to purge it (B3). Such a chunk leaves the list until its remote frees are booked.
pub(super) fn take<E: RingEnv>(env: E) -> Option<ChunkPtr> {
    let heap = env.heap();
    loop {
        // SAFETY: a chunk on the list is not freed: it is removed when it runs empty (C1).
        let chunk = unsafe { ChunkPtr::from_raw(heap.holes.first.get()) }?;
        open_hole(env, chunk);
        set_front(env, ChunkClass::Small, Some(chunk));
        // Order the store of the front before the load of the foreign word. Pairs with `heavy` in
        // `purge_chunks`.
        barrier::light();
        if !chunk.has_unbooked() || weakened!("lent_chunk_becomes_the_front") {
            heap.holes.sparse.set((heap.holes.sparse.get() + 1).min(PATIENCE));
            return Some(chunk);
        }
        set_front(env, ChunkClass::Small, None);
        leave_hole_of(env, chunk);
        heap.holes.remove(chunk);
    }
}

/// After remote frees in a chunk were booked: puts the chunk on the list of chunks with holes again
/// if it has a hole.
pub(super) fn note_booked<E: RingEnv>(env: E, chunk: ChunkPtr) {
    if chunk.is_divided() && chunk.has_hole() {
        list(env, chunk);
    }
}

/// Moves the second cursor of a chunk with a hole to the start of the hole. Keeps the chunk on the
/// list of chunks with holes if it has another one.
fn open_hole<E: RingEnv>(env: E, chunk: ChunkPtr) {
    chunk.open_hole::<E::Geometry>();
    if !chunk.has_hole() {
        env.heap().holes.remove(chunk);
    }
}

/// Restarts the divided front, which ran empty: its second cursor runs through the whole chunk
/// again.
/// Returns `false` if the caller must unite its sections instead, because the heap is not sparse.
pub(super) fn restart<E: RingEnv>(env: E, chunk: ChunkPtr) -> bool {
    if !note_empty(env.heap()) {
        return false;
    }
    chunk.divide();
    open_hole(env, chunk);
    true
}

/// Unites the sections of a chunk, if it is divided, and removes it from the list of chunks with
/// holes.
pub(super) fn unite(heap: &ChunkHeap, chunk: ChunkPtr) {
    heap.holes.remove(chunk);
    chunk.unite();
}

/// Leaves the hole through which the front runs: counts the bytes after the cursor as freed. No
/// further block then fits into the front.
pub(super) fn leave<E: RingEnv>(env: E) {
    if let Some(chunk) = env.heap().divided_front() {
        leave_hole_of(env, chunk);
    }
}

/// Leaves the hole of `chunk`, which is or was the front.
pub(super) fn leave_hole_of<E: RingEnv>(env: E, chunk: ChunkPtr) {
    let rest = chunk.close();
    if !weakened!("rest_of_a_hole_is_lost") && chunk.cover::<E::Geometry>(rest) {
        list(env, chunk);
    }
}

/// Counts a block in a divided chunk as freed. If a section becomes free, puts the chunk on
/// the list of chunks with holes.
#[inline]
pub(super) fn cover_block<E: RingEnv>(env: E, chunk: ChunkPtr, start: usize, size: usize) {
    if chunk.cover_block::<E::Geometry>(start, size) {
        list(env, chunk);
    }
}

/// Counts the tail of a block that shrank from `old` to `new` bytes as freed.
pub(super) fn cover_tail<E: RingEnv>(env: E, chunk: ChunkPtr, start: usize, [old, new]: [usize; 2]) {
    let tail = start + room_of(new)..start + room_of(old);
    if !weakened!("shrunk_tails_are_lost") && chunk.cover::<E::Geometry>(tail) {
        list(env, chunk);
    }
}

/// Puts a chunk with a hole on the list of chunks with holes, unless it is on the list.
fn list<E: RingEnv>(env: E, chunk: ChunkPtr) {
    if !chunk.is_listed() {
        env.heap().holes.push(chunk);
    }
}
