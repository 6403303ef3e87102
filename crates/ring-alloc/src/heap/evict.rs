//! The lock for threads that *evict* chunks of an idle owner: they remove chunks without live
//! blocks from the lists of all chunks, and then free them. While a thread has the lock, the owner
//! neither removes chunks nor follows the links of these lists (B4).

use ephemera_prim::biased::BiasedLock;
use ephemera_prim::sync::{AtomicBool, AtomicUsize, Ordering};

/// The lock of a heap whose chunks other threads may evict.
#[derive(Debug)]
pub(crate) struct Evictions {
    pub(crate) lock: BiasedLock,
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
    /// A thread that releases the heap's record runs a fence after the release, and then calls this
    /// function. If the eviction has not ended, the evicting thread also runs a fence, then sees
    /// that the record is free, and frees the chunk.
    pub(crate) fn has_postponed(&self) -> bool {
        let postponed = self.postponed.load(Ordering::Relaxed) && !self.lock.is_locked();
        postponed && !weakened!("postponed_chunks_stay")
    }

    /// Returns the number of small chunks that other threads evicted. Only the owner may call this.
    pub(super) fn small(&self) -> usize {
        if weakened!("evicted_chunks_count") { 0 } else { self.small.load(Ordering::Relaxed) }
    }

    /// Stores whether the owner, which is the caller, kept an empty chunk because of an eviction.
    pub(super) fn set_postponed(&self, postponed: bool) {
        // Do not store an unchanged value: the heaps of NOWHERE and GONE are never written (H6).
        if self.postponed.load(Ordering::Relaxed) != postponed {
            self.postponed.store(postponed, Ordering::Relaxed);
        }
    }

    /// Counts a small chunk that this thread, which has the lock, evicted.
    pub(super) fn note_small(&self) {
        self.small.fetch_add(1, Ordering::Relaxed);
    }
}
