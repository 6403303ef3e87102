//! Lets a sparse heap allocate from *holes*: free sections side by side in a chunk that long-lived
//! blocks pin (see `chunk/sections.rs`).
//!
//! A *sparse* heap divides an empty small chunk that becomes its front, unless chunks rest. It
//! takes a hole before it requests a new chunk. So a long-lived block pins one or two sections of
//! 4 KiB rather than a chunk of 32 KiB.
//!
//! ```text
//!   divided_front --> the divided chunk whose second cursor is the front, or null
//!   first --> the chunk that joined the list last <--> ... <--> chunk with holes
//! ```
//!
//! A free in a divided chunk takes more instructions. A heap therefore stops dividing chunks once a
//! census (see `census`) finds that it is no longer sparse, or once it has continued in empty
//! chunks much more often than in holes.

use core::alloc::Layout;
use core::ops::Range;
use core::ptr::NonNull;

use ephemera_prim::barrier;

use super::front::set_front;
use super::sparse::PATIENCE;
use super::{ChunkHeap, RingEnv};
use crate::chunk::ChunkPtr;
use crate::chunk::front::FrontPtr;
use crate::cursor::GRANULE;
use crate::geometry::{ChunkClass, Geometry};

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
#[inline]
pub(super) fn prepare<E: RingEnv>(env: E, chunk: ChunkPtr, requested: bool) {
    if env.heap().holes.sparse.get() != 0 {
        divide(env, chunk, requested);
    }
}

/// Divides an empty chunk that becomes the front of a sparse heap, unless the heap thereby stops
/// being sparse.
#[inline(never)]
fn divide<E: RingEnv>(env: E, chunk: ChunkPtr, requested: bool) {
    if requested || note_empty(env.heap()) {
        chunk.divide();
        open_hole(env, chunk);
    }
}

/// Takes a hole: moves the second cursor of its chunk to its start, and makes the chunk the front.
/// Returns `None`, usually without a change of the front, if the heap has no hole that it may take.
///
/// A chunk with unbooked remote frees does not become the front, because another thread may be
/// about to purge it (B3). Such a chunk leaves the list. It joins the list again when its remote
/// frees are booked, or when another of its sections becomes free. So a call looks at more than one
/// chunk only if other threads freed blocks of the chunks before it since the heap booked.
#[inline]
pub(super) fn take<E: RingEnv>(env: E) -> Option<ChunkPtr> {
    if env.heap().holes.first.get().is_null() { None } else { take_hole(env) }
}

/// Takes a hole as [`take`] does.
#[inline(never)]
fn take_hole<E: RingEnv>(env: E) -> Option<ChunkPtr> {
    let heap = env.heap();
    loop {
        // SAFETY: a chunk on the list is not freed: it is removed when it runs empty (C1).
        let chunk = unsafe { ChunkPtr::from_raw(heap.holes.first.get()) }?;
        if !chunk.has_unbooked() && enter(env, chunk) {
            let sparse = &heap.holes.sparse;
            if sparse.get() != 0 {
                sparse.set((sparse.get() + 1).min(PATIENCE));
            }
            return Some(chunk);
        }
        heap.holes.remove(chunk);
    }
}

/// Leaves the hole of the front, if the front is in one. Then moves the second cursor of `chunk` to
/// the start of its first hole, and makes it the front. Returns `false` if the chunk has remote
/// frees that are not booked. The full chunk then is the front.
fn enter<E: RingEnv>(env: E, chunk: ChunkPtr) -> bool {
    if let Some(last) = env.heap().divided_front() {
        leave(env, last);
    }
    open_hole(env, chunk);
    set_front(env, ChunkClass::Small, Some(chunk));
    // ORDERING: light fence, between the store of the front and the load of the foreign word. Pairs
    // with `heavy` in `purge_chunks`, between the loan of the chunk and the load of the front.
    barrier::light();
    if !chunk.has_unbooked() || weakened!("lent_chunk_becomes_the_front") {
        return true;
    }
    set_front(env, ChunkClass::Small, None);
    leave(env, chunk);
    false
}

/// After remote frees in a chunk were booked: puts the chunk on the list of chunks with holes again
/// if it has a hole.
pub(super) fn note_booked<E: RingEnv>(env: E, chunk: ChunkPtr) {
    if chunk.is_divided() && chunk.has_hole() && !weakened!("booked_chunks_stay_unlisted") {
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
/// again. Returns `false` if the caller must unite its sections instead, because the heap is not
/// sparse.
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

/// Leaves the hole of `chunk`, whose second cursor is or was the front: counts the bytes after the
/// cursor as freed. No further block then fits into the hole.
#[inline(never)]
pub(super) fn leave<E: RingEnv>(env: E, chunk: ChunkPtr) {
    let rest = chunk.close();
    if !weakened!("rest_of_a_hole_is_lost") {
        cover(env, chunk, rest);
    }
}

/// Frees `room` bytes from `start` on in a divided chunk: the room of a block, or the tail of a
/// block that shrank. If the bytes end at the cursor of the front, moves this cursor back.
/// Otherwise, counts them as freed. If a section becomes free, puts the chunk on the list of chunks
/// with holes.
#[inline]
pub(super) fn free_room<E: RingEnv>(env: E, chunk: ChunkPtr, start: usize, room: usize) {
    if env.heap().divided_front() == Some(chunk) && chunk.move_back(start, start + room) {
        return;
    }
    match chunk.cover_within_section::<E::Geometry>(start, room) {
        Some(false) => {}
        Some(true) => list(env, chunk),
        None => cover(env, chunk, start..start + room),
    }
}

/// Counts the bytes between two addresses as freed. If a section becomes free, puts the chunk on
/// the list of chunks with holes.
#[inline(never)]
fn cover<E: RingEnv>(env: E, chunk: ChunkPtr, addresses: Range<usize>) {
    if chunk.cover::<E::Geometry>(addresses) {
        list(env, chunk);
    }
}

/// Allocates at the cursor of a front, or of a chunk that becomes the front. The check of the
/// address takes no load, and its result rarely changes even if alignments vary from call to call.
#[inline]
pub(super) fn bump<E: RingEnv>(env: E, front: FrontPtr, layout: Layout) -> Option<NonNull<u8>> {
    if layout.align() > GRANULE && front.is_second(E::Geometry::SMALL_CHUNK) {
        return bump_aligned(env, front, layout);
    }
    front.bump(layout.size(), layout.align())
}

/// Allocates an aligned block at a second cursor, or in the full chunk, into which no block fits.
/// Counts the gap before the block as freed.
#[inline(never)]
fn bump_aligned<E: RingEnv>(env: E, front: FrontPtr, layout: Layout) -> Option<NonNull<u8>> {
    let gap = front.position();
    let block = front.bump(layout.size(), layout.align())?;
    // SAFETY: a block was allocated, so the front is not the full chunk. A first cursor is at the
    // base of its chunk, so only a second cursor has this offset.
    let chunk = unsafe { front.divided_chunk() };
    if !weakened!("gaps_are_lost") {
        cover(env, chunk, gap..block.addr().get());
    }
    Some(block)
}

/// Puts a chunk with a hole on the list of chunks with holes, unless it is on the list.
#[inline(never)]
fn list<E: RingEnv>(env: E, chunk: ChunkPtr) {
    if !chunk.is_listed() {
        env.heap().holes.push(chunk);
    }
}

#[cfg(all(test, not(ephemera_loom)))]
impl ChunkHeap {
    /// Checks H8 and S3, the counts of all divided chunks, and that the census continues at a chunk
    /// of the heap. Returns whether the census is in the middle of a pass.
    pub(crate) fn check_holes<G: Geometry>(&self) -> bool {
        let (mut listed, mut at, mut prev) = (0, self.holes.first.get(), core::ptr::null_mut());
        // SAFETY: a chunk on the list is not freed (C1).
        while let Some(chunk) = unsafe { ChunkPtr::from_raw(at) } {
            let [next, before] = chunk.hole_links().map(core::cell::Cell::get);
            assert!(chunk.is_listed() && chunk.has_hole() && before == prev);
            (listed, prev, at) = (listed + 1, at, next);
        }
        let mut continues = self.census.next.get().is_null();
        self.for_each(|chunk| {
            continues |= self.census.next.get() == chunk.as_ptr();
            if chunk.is_divided() {
                chunk.check_sections::<G>();
                assert_eq!(chunk.is_listed(), chunk.has_hole());
                listed -= usize::from(chunk.is_listed());
                assert!(!chunk.is_empty() || self.divided_front() == Some(chunk));
            }
        });
        assert_eq!(listed, 0, "the list has a chunk that the heap does not have");
        assert!(continues, "the census continues at a chunk that the heap does not have");
        if let Some(front) = self.divided_front() {
            assert_eq!(self.front(ChunkClass::Small), front.second());
        }
        !self.census.next.get().is_null()
    }
}
