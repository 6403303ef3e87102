//! Lets a sparse heap allocate from *holes*: free sections side by side in a chunk that long-lived
//! blocks pin (see `chunk/sections.rs`).
//!
//! A *sparse* heap divides an empty or new small chunk that becomes its front, and takes a hole
//! before it requests a new chunk. (Chunks that it finds before it books remote frees, because
//! chunks rest, come first and stay undivided.) A long-lived block thus pins a few sections of 1
//! KiB rather than a chunk of 32 KiB: the sections in which it lies, at most three, and few free
//! ones beside them.
//!
//! ```text
//!   divided_front --> the divided chunk whose second cursor is the front, or null
//!   first --> the chunk that joined the list last <--> ... <--> chunk that may have holes
//! ```
//!
//! A free in a divided chunk takes more instructions. A heap therefore stops dividing chunks in
//! three cases: a census (see `census`) finds that it is no longer sparse, it has continued in
//! empty chunks much more often than in holes, or it has few small chunks when it takes a hole.

use core::alloc::Layout;
use core::ops::Range;
use core::ptr::NonNull;

use ephemera_prim::barrier;

use super::front::set_front;
use super::list::keep_lists;
use super::sparse::PATIENCE;
use super::{ChunkHeap, RingEnv, census};
use crate::chunk::ChunkPtr;
use crate::chunk::front::FrontPtr;
use crate::cursor::{GRANULE, room_of};
use crate::geometry::{ChunkClass, Geometry};
use crate::live::LiveCount;

/// The number of chunks on the list that a heap looks at for one hole.
const LOOKS: usize = 16;

/// The number of small chunks that a heap looks at for a hole after a refusal.
const LOOKS_AFTER_REFUSAL: usize = 1_024;

impl ChunkHeap {
    /// Makes the heap sparse, as if a census had found few live bytes.
    #[cfg(test)]
    pub(crate) fn make_sparse(&self) {
        self.holes.set_sparse(true);
    }
}

/// Divides an empty chunk that is or becomes the front, if it is small and the heap is sparse.
/// Returns whether it did. `requested` says that the chunk is new. If it is not, the heap continues
/// in a chunk that it already had, and may thereby stop being sparse.
pub(super) fn divide<E: RingEnv>(env: E, chunk: ChunkPtr, class: ChunkClass, requested: bool) -> bool {
    if class != ChunkClass::Small {
        return false;
    }
    let sparse = &env.heap().holes.sparse;
    if !requested && !weakened!("sparse_heap_stays_sparse") {
        sparse.set(sparse.get().saturating_sub(1));
    }
    let divides = sparse.get() != 0;
    if divides {
        chunk.divide::<E::Geometry>();
    }
    divides
}

/// Takes a hole: moves the second cursor of a chunk to the start of a hole, and makes it the front.
/// Prefers another hole of the chunk that is the front. Returns `None`, usually without a change of
/// the front, if the heap has no hole that it may take.
///
/// A chunk with unbooked remote frees does not become the front, because another thread may be
/// about to purge it (B3). Such a chunk leaves the list. Once its remote frees are booked, the heap
/// searches it again.
#[inline]
pub(super) fn take<E: RingEnv>(env: E) -> Option<ChunkPtr> {
    let holes = &env.heap().holes;
    if holes.divided_front.get().is_null() && holes.first.get().is_null() { None } else { take_hole(env) }
}

/// Takes a hole, from the list or of one of the newest [`LOOKS_AFTER_REFUSAL`] small chunks. Takes
/// one from the list only if another thread is evicting chunks. The slow path calls this after a
/// refusal, because chunks that are not due may have holes too.
#[cold]
pub(super) fn take_any<E: RingEnv>(env: E) -> Option<ChunkPtr> {
    let kept = keep_lists(&env);
    let list = env.heap().small_chunks();
    let mut next = list.newest().filter(|_| kept.is_some());
    for _ in 0..LOOKS_AFTER_REFUSAL {
        let Some(chunk) = next.filter(|_| !weakened!("refusals_search_no_chunk")) else { break };
        // SAFETY: the caller owns the heap (H1) and is alone (B4). The chunk is on the list (H5).
        next = unsafe { list.after(chunk) };
        // SAFETY: a chunk on the list is not freed (C1).
        let chunk = unsafe { ChunkPtr::new(chunk) };
        let is_front = env.heap().divided_front() == Some(chunk);
        if chunk.is_divided() && !is_front && !chunk.is_listed() && !chunk.has_unbooked() {
            list_if_hole(env, chunk);
            if chunk.is_listed() {
                break;
            }
        }
    }
    take(env)
}

/// Takes a hole as [`take`] does.
#[inline(never)]
fn take_hole<E: RingEnv>(env: E) -> Option<ChunkPtr> {
    let chunk = reopen_front(env).or_else(|| take_listed(env))?;
    census::check_size(env);
    let sparse = &env.heap().holes.sparse;
    if sparse.get() != 0 {
        sparse.set((sparse.get() + 1).min(PATIENCE));
    }
    Some(chunk)
}

/// Moves the second cursor of the front to another hole of its chunk, if there is one.
fn reopen_front<E: RingEnv>(env: E) -> Option<ChunkPtr> {
    let front = env.heap().divided_front()?;
    let hole = front.hole::<E::Geometry>()?;
    front.cover::<E::Geometry>(front.close());
    front.open::<E::Geometry>(hole);
    Some(front)
}

/// Takes a hole of the first chunk on the list that has one. Looks at [`LOOKS`] chunks at most.
fn take_listed<E: RingEnv>(env: E) -> Option<ChunkPtr> {
    let heap = env.heap();
    for _ in 0..LOOKS {
        // SAFETY: a chunk on the list is not freed: it is removed when it runs empty (C1).
        let chunk = unsafe { ChunkPtr::from_raw(heap.holes.first.get()) }?;
        heap.holes.remove(chunk);
        if chunk.has_unbooked() {
            continue;
        }
        let Some(hole) = chunk.hole::<E::Geometry>() else {
            chunk.expect_frees();
            continue;
        };
        if enter(env, chunk, hole) {
            return Some(chunk);
        }
    }
    None
}

/// Leaves the hole of the front, if the front is in one. Then moves the second cursor of `chunk` to
/// the start of `hole`, and makes `chunk` the front. If `chunk` has unbooked remote frees, leaves
/// the hole again, makes the full chunk the front, and returns `false`.
fn enter<E: RingEnv>(env: E, chunk: ChunkPtr, hole: Range<usize>) -> bool {
    if let Some(last) = env.heap().divided_front() {
        leave(env, last);
    }
    chunk.open::<E::Geometry>(hole);
    set_front(env, ChunkClass::Small, Some(chunk));
    // ORDERING: light fence, between the store of the front and the load of the foreign word. Pairs
    // with `heavy` in `purge_chunks`, between the loan of the chunk and the load of the front.
    barrier::light();
    if !chunk.has_unbooked() || weakened!("lent_chunk_becomes_the_front") {
        return true;
    }
    set_front(env, ChunkClass::Small, None);
    chunk.cover::<E::Geometry>(chunk.close());
    false
}

/// Collects the bytes of remote frees in a divided chunk by section, after these frees were booked.
/// Then searches the chunk, unless it is the front or on the list of chunks with holes.
pub(super) fn note_booked<E: RingEnv>(env: E, chunk: ChunkPtr) {
    chunk.collect_remote();
    let is_front = env.heap().divided_front() == Some(chunk);
    if !is_front && !chunk.is_listed() && !weakened!("booked_chunks_stay_unlisted") {
        list_if_hole(env, chunk);
    }
}

/// Frees a block of `size` bytes at `start`, in a chunk that the owner of `env`'s heap does not
/// own.
///
/// # Safety
/// The caller upholds the contract of [`RingEnv::free_remotely`] for this block.
#[inline(never)]
pub(super) unsafe fn free_remotely<E: RingEnv>(env: E, start: usize, size: usize, chunk: ChunkPtr) {
    chunk.count_remotely::<E::Geometry>(start..start + room_of(size));
    // SAFETY: the caller upholds the callee's contract.
    unsafe { env.free_remotely(chunk, LiveCount::block(size)) };
}

/// Frees `less` bytes of a block, in a chunk that the owner of `env`'s heap does not own. The block
/// no longer takes up the bytes between the two addresses.
///
/// # Safety
/// The caller upholds the contract of [`RingEnv::free_remotely`] for these bytes.
pub(super) unsafe fn shrink_remotely<E: RingEnv>(env: E, tail: Range<usize>, less: usize, chunk: ChunkPtr) {
    chunk.count_remotely::<E::Geometry>(tail);
    // SAFETY: the caller upholds the callee's contract.
    unsafe { env.free_remotely(chunk, LiveCount::resized(less)) };
}

/// Searches a divided chunk, which is neither on the list of chunks with holes nor the front. Puts
/// it on the list if it has a hole, and otherwise lets it join after further frees.
fn list_if_hole<E: RingEnv>(env: E, chunk: ChunkPtr) {
    if chunk.hole::<E::Geometry>().is_some() {
        env.heap().holes.push(chunk);
    } else {
        chunk.expect_frees();
    }
}

/// Unites the sections of a chunk, if it is divided, and removes it from the list of chunks with
/// holes.
pub(super) fn unite(heap: &ChunkHeap, chunk: ChunkPtr) {
    heap.holes.remove(chunk);
    chunk.unite();
}

/// Leaves the hole of `chunk`, whose second cursor is or was the front: counts the bytes after the
/// cursor as freed. No further block then fits into the hole. Puts the chunk on the list of chunks
/// with holes if it has a hole.
#[inline(never)]
pub(super) fn leave<E: RingEnv>(env: E, chunk: ChunkPtr) {
    let rest = chunk.close();
    if !weakened!("rest_of_a_hole_is_lost") {
        chunk.cover::<E::Geometry>(rest);
    }
    list_if_hole(env, chunk);
}

/// Puts a divided chunk with enough freed bytes on the list of chunks with holes.
#[inline(never)]
pub(super) fn list<E: RingEnv>(env: E, chunk: ChunkPtr) {
    env.heap().holes.push(chunk);
}

/// Counts the bytes of a booked free by section, and lists the chunk if enough of it was freed.
#[inline(never)]
pub(super) fn count<E: RingEnv>(env: E, chunk: ChunkPtr, addresses: Range<usize>) {
    if chunk.count::<E::Geometry>(addresses) {
        list(env, chunk);
    }
}

/// Allocates at the cursor of a front, or of a chunk that becomes the front. At a second cursor, an
/// aligned block takes a function of its own, which counts the gap before the block. The test for a
/// second cursor takes no load, and its result rarely changes from call to call.
#[inline]
pub(super) fn bump<G: Geometry>(front: FrontPtr, layout: Layout) -> Option<NonNull<u8>> {
    if layout.align() > GRANULE && front.is_second(G::SMALL_CHUNK) {
        return bump_aligned::<G>(front, layout);
    }
    front.bump(layout.size(), layout.align())
}

/// Allocates an aligned block at a second cursor, or in the full chunk, into which no block fits.
/// Counts the gap before the block as freed.
#[inline(never)]
fn bump_aligned<G: Geometry>(front: FrontPtr, layout: Layout) -> Option<NonNull<u8>> {
    let gap = front.next().get();
    let block = front.bump(layout.size(), layout.align())?;
    // SAFETY: a block was allocated, so the front is not the full chunk. A first cursor is at the
    // base of its chunk, so only a second cursor has this offset.
    let chunk = unsafe { front.divided_chunk() };
    if !weakened!("gaps_are_lost") {
        chunk.cover::<G>(gap..block.addr().get());
    }
    Some(block)
}

#[cfg(all(test, not(ephemera_loom)))]
impl ChunkHeap {
    /// Checks the counts of all divided chunks. The heap must belong to this thread.
    pub(crate) fn check_counts<G: Geometry>(&self) {
        self.for_each(|chunk| {
            if chunk.is_divided() {
                chunk.check_sections::<G>();
            }
        });
    }

    /// Checks H8 and S3, the counts of all divided chunks, and that the census continues at a chunk
    /// of the heap. Returns whether the census is in the middle of a pass.
    pub(crate) fn check_holes<G: Geometry>(&self) -> bool {
        let (mut listed, mut at, mut prev) = (0, self.holes.first.get(), core::ptr::null_mut());
        // SAFETY: a chunk on the list is not freed (C1).
        while let Some(chunk) = unsafe { ChunkPtr::from_raw(at) } {
            let [next, before] = chunk.hole_links().map(core::cell::Cell::get);
            assert!(chunk.is_listed() && before == prev);
            (listed, prev, at) = (listed + 1, at, next);
        }
        let mut continues = self.census.next.get().is_null();
        self.for_each(|chunk| {
            continues |= self.census.next.get() == chunk.as_ptr();
            if chunk.is_divided() {
                let (due, is_front) = (chunk.check_sections::<G>(), self.divided_front() == Some(chunk));
                let places = [due, chunk.is_listed(), is_front];
                assert_eq!(places.into_iter().filter(|place| *place).count(), 1, "{places:?}");
                listed -= usize::from(chunk.is_listed());
                assert!(!chunk.is_empty() || is_front);
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
