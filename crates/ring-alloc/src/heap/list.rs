//! The lists of all chunks, one for each class. The owner adds and removes chunks, other threads
//! evict chunks of an idle owner, and statistics walk the lists from any thread.

use core::ptr::{self, NonNull};

use ephemera_prim::biased::{LockState, OwnerPass};
use ephemera_prim::unit_list::{UnitList, try_patiently};

use super::evict::Evictions;
use super::{ChunkHeap, RingEnv};
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

    /// If the census continues at a chunk that is about to leave the list, lets it continue at the
    /// next one. Only a thread with the lock may call this method, or the owner while it is alone.
    fn move_census_past(&self, chunk: ChunkPtr) {
        if self.census.next.get() == chunk.as_ptr() && !weakened!("census_keeps_a_freed_chunk") {
            // SAFETY: the chunk is on the list (H5), and no other thread removes chunks (B4).
            let next = unsafe { self.small_chunks().after(chunk.as_non_null()) };
            self.census.next.set(next.map_or(ptr::null_mut(), NonNull::as_ptr));
        }
    }

    /// Evicts chunks. Returns for each chunk whether this call evicted it. The caller must free the
    /// evicted chunks. Evicts none if the owner is inside the lock, another thread has it, or the
    /// kernel refuses the fence. Never evicts a divided chunk, the newest chunk of a class, or a
    /// chunk of a class whose list a thread walks.
    ///
    /// # Safety
    /// The caller has borrowed the chunks from the heap's mail, and has then seen two facts: the
    /// owner replaced each of them as the front, and none of their blocks is live (B4). `evictions`
    /// belongs to the heap.
    pub(crate) unsafe fn evict<const N: usize>(
        &self,
        evictions: &Evictions,
        chunks: &[Option<ChunkPtr>; N],
    ) -> [bool; N] {
        if chunks.iter().flatten().all(|chunk| chunk.is_divided()) {
            return [false; N];
        }
        let Some(_guard) = evictions.lock.try_lock() else { return [false; N] };
        // SAFETY: while this thread has the lock, the owner only adds chunks (B4), and no other
        // thread evicts chunks.
        let evictors = self.chunks.each_ref().map(|chunks| unsafe { chunks.evict() });
        chunks.map(|chunk| {
            let Some(chunk) = chunk.filter(|chunk| !chunk.is_divided()) else { return false };
            let class = chunk.class();
            let Some(evictor) = &evictors[class.index()] else { return false };
            self.move_census_past(chunk);
            // SAFETY: the chunk is lent, so it is on the list (H5). The owner added the chunk
            // before it published the front that replaced the chunk, and this thread has seen that
            // front.
            let evicted = unsafe { evictor.remove(chunk.as_non_null()) };
            if evicted && class == ChunkClass::Small {
                evictions.note_small();
            }
            evicted
        })
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

    /// Calls `visit` for every chunk. Only the owner may call this method, while no other thread
    /// evicts chunks.
    pub(super) fn for_each(&self, mut visit: impl FnMut(ChunkPtr)) {
        // SAFETY: a chunk on the list is not freed (H5), and the owner removes none during the walk
        // (C1).
        let mut visit = |chunk| visit(unsafe { ChunkPtr::new(chunk) });
        for chunks in &self.chunks {
            // SAFETY: the caller owns the heap (H1), and no thread evicts chunks.
            unsafe { chunks.for_each(&mut visit) };
        }
    }

    /// Returns whether `chunk` is the heap's front of `class`, as far as this thread sees.
    pub(crate) fn is_front(&self, class: ChunkClass, chunk: ChunkPtr) -> bool {
        chunk.has_cursor(self.fronts[class.index()].get())
    }
}

/// Keeps other threads from evicting chunks.
#[must_use = "other threads may evict chunks as soon as this is dropped"]
pub(crate) struct KeptChunks<'h>(Option<OwnerPass<'h>>);

/// Keeps other threads from evicting chunks until the result is dropped. A thread that has already
/// begun to evict chunks goes on. Only the owner of the heap may call this.
pub(crate) fn keep_chunks<E: RingEnv>(env: &E) -> KeptChunks<'_> {
    KeptChunks(env.evictions().map(|evictions| evictions.lock.enter()))
}

/// Lets the owner of the heap, the caller, remove chunks and follow the links of the lists of all
/// chunks until the result is dropped. Returns `None` if another thread evicts chunks or is about
/// to. In a forked child, first repairs lists whose lock a thread of the parent left behind.
pub(crate) fn keep_lists<E: RingEnv>(env: &E) -> Option<KeptChunks<'_>> {
    let kept = keep_chunks(env);
    match kept.0.as_ref().map_or(LockState::Alone, OwnerPass::state) {
        LockState::Alone => Some(kept),
        LockState::Locked => None,
        LockState::LeftBehind => {
            restore_lists(env, &kept);
            Some(kept)
        }
    }
}

/// Restores the lists of all chunks in a forked child, if a thread of the parent was evicting
/// chunks at the fork. Then opens the lock. The cost grows with the number of chunks, once after a
/// fork.
#[cold]
fn restore_lists<E: RingEnv>(env: &E, kept: &KeptChunks<'_>) {
    let heap = env.heap();
    // SAFETY: the caller owns the heap (H1), and no thread of this process evicts chunks.
    let [small, _] = heap.chunks.each_ref().map(|chunks| unsafe { chunks.restore() });
    heap.small.set(small + env.evictions().map_or(0, Evictions::small));
    heap.census.next.set(ptr::null_mut());
    if let Some(pass) = &kept.0 {
        pass.open();
    }
}

/// Stores whether the owner, which is the caller, kept an empty chunk because of an eviction.
pub(super) fn set_postponed<E: RingEnv>(env: E, postponed: bool) {
    if let Some(evictions) = env.evictions() {
        evictions.set_postponed(postponed);
    }
}

/// Returns the number of small chunks. Only the owner of the heap may call this.
pub(crate) fn small_chunks<E: RingEnv>(env: E) -> usize {
    env.heap().small.get().wrapping_sub(env.evictions().map_or(0, Evictions::small))
}

/// The result of an attempt to remove a chunk from its list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Removal {
    Done,
    /// A walker protects the chunk, which stays on the list.
    Protected,
    /// Another thread evicts chunks, so the chunk stays on the list.
    Postponed,
}

/// Removes a chunk from the list of its class, before the chunk is freed. `wait` says whether to
/// wait for a thread that prevents this.
pub(super) fn unlink<E: RingEnv>(env: E, chunk: ChunkPtr, class: ChunkClass, wait: Wait) -> Removal {
    let heap = env.heap();
    let mut removal = Removal::Postponed;
    let mut remove = || {
        removal = Removal::Postponed;
        if let Some(_kept) = keep_lists(&env) {
            heap.move_census_past(chunk);
            // SAFETY: the caller owns the heap (H1), the chunk is on the list (H5), and no thread
            // evicts chunks (B4).
            let removed = unsafe { heap.chunks[class.index()].remove(chunk.as_non_null()) };
            removal = if removed { Removal::Done } else { Removal::Protected };
        }
        removal == Removal::Done
    };
    let removed = if wait == Wait::No { remove() } else { try_patiently(remove) };
    if removed && class == ChunkClass::Small {
        heap.small.sub(1);
    }
    if removal == Removal::Postponed {
        set_postponed(env, true);
    }
    removal
}

/// Whether the owner, before it frees a chunk, waits for a walker that protects the chunk or for a
/// thread that evicts chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// The owner does not wait. It keeps the chunk as an empty chunk if it cannot remove it.
    No,
    /// The owner waits a bounded time. Every trim waits in this way, also before a refusal and at
    /// thread exit, because the chunk would otherwise stay held.
    Bounded,
}
