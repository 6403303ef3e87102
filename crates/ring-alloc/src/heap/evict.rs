//! The lock for threads that *evict* chunks of an idle owner: they remove empty chunks from the
//! lists of all chunks, and then free them. The lock keeps the owner from removing chunks, and from
//! walking the lists, at the same time (B4).

use ephemera_prim::biased::{BiasedGuard, BiasedLock, OwnerPass};
use ephemera_prim::sync::{AtomicBool, AtomicUsize, Ordering};

use super::RingEnv;

/// The lock of a heap whose chunks other threads may evict.
#[derive(Debug)]
pub(crate) struct Evictions {
    lock: BiasedLock,
    /// The number of small chunks that other threads evicted. Only a thread with the lock writes
    /// it.
    small: AtomicUsize,
    /// Whether the owner kept an empty chunk because another thread evicted chunks. Only the owner
    /// writes it.
    postponed: AtomicBool,
}

impl Evictions {
    ephemera_prim::const_unless_loom! {
        pub(crate) fn new() -> Self {
            Self {
                lock: BiasedLock::new(),
                small: AtomicUsize::new(0),
                postponed: AtomicBool::new(false),
            }
        }
    }

    /// Returns whether the owner kept an empty chunk because of an eviction that has ended.
    ///
    /// A thread that releases the heap's record calls this after the release and a fence. If the
    /// eviction has not ended, the thread that evicts sees that the record is free, after a fence
    /// too, and frees the chunk.
    pub(crate) fn has_postponed(&self) -> bool {
        let postponed = self.postponed.load(Ordering::Relaxed) && !self.lock.is_locked();
        postponed && !weakened!("postponed_chunks_stay")
    }

    /// Locks, unless the owner uses the lists, or another thread has the lock.
    pub(super) fn try_lock(&self) -> Option<BiasedGuard<'_>> {
        self.lock.try_lock()
    }

    /// Counts a small chunk that this thread, which has the lock, evicted.
    pub(super) fn note_small(&self) {
        self.small.fetch_add(1, Ordering::Relaxed);
    }
}

/// Keeps other threads from evicting chunks.
#[must_use = "other threads may evict chunks as soon as this is dropped"]
pub(crate) struct KeptChunks<'h>(Option<OwnerPass<'h>>);

impl KeptChunks<'_> {
    /// Returns whether the owner may remove chunks and walk the lists of all chunks. Otherwise,
    /// another thread may be evicting chunks that the owner does not use.
    pub(super) fn is_alone(&self) -> bool {
        self.0.as_ref().is_none_or(OwnerPass::is_alone)
    }
}

/// Keeps other threads from evicting chunks until the result is dropped. Only the owner of the heap
/// may call this.
pub(crate) fn keep_chunks<E: RingEnv>(env: &E) -> KeptChunks<'_> {
    KeptChunks(env.evictions().map(|evictions| evictions.lock.enter()))
}

/// Stores whether the owner of the heap, the caller, kept an empty chunk because of an eviction.
pub(super) fn set_postponed<E: RingEnv>(env: E, postponed: bool) {
    let word = env.evictions().map(|evictions| &evictions.postponed);
    // The heaps of NOWHERE and GONE are never written (H6), and never postpone a free.
    if let Some(word) = word.filter(|word| word.load(Ordering::Relaxed) != postponed) {
        word.store(postponed, Ordering::Relaxed);
    }
}

/// Returns the number of small chunks. Only the owner of the heap may call this.
pub(crate) fn small_chunks<E: RingEnv>(env: E) -> usize {
    let evicted = env.evictions().map_or(0, |evictions| evictions.small.load(Ordering::Relaxed));
    let evicted = if weakened!("evicted_chunks_count") { 0 } else { evicted };
    env.heap().small.get().wrapping_sub(evicted)
}
