//! Decides when a thread returns the pages of an empty chunk to the operating system, before it
//! frees the chunk to the global allocator.
//!
//! A general allocator keeps freed chunks, and few of them return pages while other blocks are live
//! at higher addresses. So after a burst that its own thread freed, the process would keep the
//! whole burst. The thread therefore counts the bytes of chunks that it freed and did not request
//! again. Beyond a *bound*, it first returns the pages of a chunk.
//!
//! A thread that soon requests such bytes again raises its bound by them. So a load that swings
//! between two sizes pays the page faults of a few swings only. The bound halves with each second
//! that follows.

use ephemera_prim::pages;
use ephemera_prim::word::OwnerUsize;

/// The least bound.
const KEPT: usize = 4 << 20;

/// The bound rises by this number of bytes at most.
const LEARNED_MAX: usize = 64 << 20;

/// Bytes that are requested again within this number of milliseconds raise the bound. What they
/// raise it by halves after as long.
const SOON_MS: usize = 1_000;

/// The bytes of chunks that one owner freed. Only the owner uses these words.
#[derive(Debug)]
pub(super) struct FreedBytes {
    /// Bytes that the owner freed with their pages, and did not request again.
    kept: OwnerUsize,
    /// Bytes whose pages the owner returned, and did not request again.
    returned: OwnerUsize,
    /// The time at which it last returned pages.
    returned_at: OwnerUsize,
    /// The bytes by which the bound rose.
    learned: OwnerUsize,
    /// The time at which it last rose.
    learned_at: OwnerUsize,
}

impl FreedBytes {
    ephemera_prim::const_unless_loom! {
        pub(super) fn new() -> Self {
            Self {
                kept: OwnerUsize::new(0),
                returned: OwnerUsize::new(0),
                returned_at: OwnerUsize::new(0),
                learned: OwnerUsize::new(0),
                learned_at: OwnerUsize::new(0),
            }
        }
    }

    /// Notes that the owner requested a chunk of this number of bytes.
    pub(super) fn note_obtained(&self, bytes: usize) {
        self.kept.set(self.kept.get().saturating_sub(bytes));
        let again = self.returned.get().min(bytes);
        if again != 0 {
            self.returned.sub(again);
            self.learn(again, pages::now_ms());
        }
    }

    /// Raises the bound by bytes that the owner needs again, if it returned them not long ago.
    fn learn(&self, bytes: usize, now: usize) {
        let is_soon = now.wrapping_sub(self.returned_at.get()) < SOON_MS;
        if is_soon && !cfg!(ephemera_weaken = "ring_freed_bound_stays") {
            self.learned.set((self.learned_by(now) + bytes).min(LEARNED_MAX));
            self.learned_at.set(now);
        }
    }

    /// Notes that the owner frees a chunk of this number of bytes. Returns whether it first returns
    /// the chunk's pages.
    pub(super) fn note_freed(&self, bytes: usize) -> bool {
        self.note_freed_at(bytes, pages::now_ms)
    }

    fn note_freed_at(&self, bytes: usize, now: impl Fn() -> usize) -> bool {
        let kept = self.kept.get() + bytes;
        if kept <= KEPT || kept <= KEPT + self.learned_by(now()) {
            self.kept.set(kept);
            return false;
        }
        self.returned.add(bytes);
        self.returned_at.set(now());
        !cfg!(ephemera_weaken = "ring_freed_chunks_keep_pages")
    }

    /// Returns the number of bytes by which the bound is raised at this time.
    fn learned_by(&self, now: usize) -> usize {
        let halvings = now.wrapping_sub(self.learned_at.get()) / SOON_MS;
        self.learned.get().checked_shr(u32::try_from(halvings).unwrap_or(u32::MAX)).unwrap_or(0)
    }
}
