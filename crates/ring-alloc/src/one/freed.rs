//! Decides when a thread returns the pages of an empty chunk to the operating system, before it
//! frees the chunk to the global allocator.
//!
//! General allocators keep freed chunks, and few of them return pages while other blocks are live
//! at higher addresses. After a thread frees a burst of its own blocks, the process would therefore
//! keep all of that memory. Threads count the bytes of freed chunks that kept their pages and were
//! not requested again. If the count would exceed a *bound*, a thread returns the pages of the next
//! chunk before it frees that chunk.
//!
//! Returned bytes that the process soon requests again raise the bound, so a load that swings
//! between two sizes pays for page faults only in its first few swings. The raise halves with each
//! second in which no thread uses it.
//!
//! Each word is atomic, but one decision may read the words at different moments. That is harmless,
//! because the words decide only whether pages stay. No loom model covers them.

use core::sync::atomic::{AtomicUsize, Ordering};

use ephemera_prim::pages;
use ephemera_prim::sync::change_if;

/// The lowest bound, in bytes.
const KEPT: usize = 4 << 20;

/// The largest number of bytes by which the bound can be raised.
const LEARNED_MAX: usize = 64 << 20;

/// The number of milliseconds after the last return of pages during which requests for the returned
/// bytes raise the bound. The raise halves after the same time without use.
const SOON_MS: usize = 1_000;

/// The counts of the bytes of chunks that the threads of a process freed.
#[derive(Debug)]
pub(super) struct FreedBytes {
    /// Bytes of freed chunks that kept their pages, and that have not been requested again.
    kept: AtomicUsize,
    /// Bytes of freed chunks whose pages a thread returned, and that have not been requested again.
    returned: AtomicUsize,
    /// The time at which a thread last returned pages, by `pages::now_ms`.
    returned_at: AtomicUsize,
    /// The number of bytes by which the bound was raised at the time `learned_at`.
    learned: AtomicUsize,
    /// The time at which a thread last raised the bound or used the raise, by `pages::now_ms`.
    learned_at: AtomicUsize,
}

impl FreedBytes {
    pub(super) const fn new() -> Self {
        Self {
            kept: AtomicUsize::new(0),
            returned: AtomicUsize::new(0),
            returned_at: AtomicUsize::new(0),
            learned: AtomicUsize::new(0),
            learned_at: AtomicUsize::new(0),
        }
    }

    /// Notes that a thread requested a chunk of `bytes` bytes. Subtracts them from both sums,
    /// because the global allocator may serve the chunk from bytes of either.
    pub(super) fn note_obtained(&self, bytes: usize) {
        let (before, _) = take(&self.kept, bytes);
        let (_, again) = take(&self.returned, bytes);
        // Bytes above the lowest bound kept their pages only because of the raise, so the raise is
        // in use.
        if before > KEPT || again != 0 {
            self.learn(again, pages::now_ms());
        }
    }

    /// Raises the bound by `bytes`, the number of returned bytes that the process has requested
    /// again, but by at most [`LEARNED_MAX`] in total, if a thread returned pages less than
    /// [`SOON_MS`] ago. If `bytes` is zero, the raise keeps its present value, and its expiry
    /// starts again.
    fn learn(&self, bytes: usize, now: usize) {
        let is_soon = now.wrapping_sub(self.returned_at.load(Ordering::Relaxed)) < SOON_MS;
        if (is_soon || bytes == 0) && !weakened!("ring_freed_bound_stays") {
            let learned = (self.learned_by(now) + bytes).min(LEARNED_MAX);
            self.learned.store(learned, Ordering::Relaxed);
            self.learned_at.store(now, Ordering::Relaxed);
        }
    }

    /// Notes that a thread frees a chunk of `bytes` bytes. Returns whether the thread must first
    /// return the chunk's pages.
    pub(super) fn note_freed(&self, bytes: usize) -> bool {
        let kept = self.kept.load(Ordering::Relaxed) + bytes;
        if kept <= KEPT {
            self.kept.fetch_add(bytes, Ordering::Relaxed);
            return false;
        }
        let now = pages::now_ms();
        if kept <= KEPT + self.learned_by(now) || weakened!("ring_freed_chunks_keep_pages") {
            self.kept.fetch_add(bytes, Ordering::Relaxed);
            return false;
        }
        self.returned.fetch_add(bytes, Ordering::Relaxed);
        self.returned_at.store(now, Ordering::Relaxed);
        true
    }

    /// Returns the number of bytes by which the bound is raised at the time `now`.
    fn learned_by(&self, now: usize) -> usize {
        let halvings = now.wrapping_sub(self.learned_at.load(Ordering::Relaxed)) / SOON_MS;
        let halvings = u32::try_from(halvings).unwrap_or(u32::MAX);
        self.learned.load(Ordering::Relaxed).checked_shr(halvings).unwrap_or(0)
    }
}

/// Subtracts `bytes` from `sum`, or less if `sum` is smaller. Returns the previous sum, and the
/// number of bytes subtracted.
fn take(sum: &AtomicUsize, bytes: usize) -> (usize, usize) {
    let exchange = |old, new| sum.compare_exchange_weak(old, new, Ordering::Relaxed, Ordering::Relaxed);
    // Skip the exchange if it would subtract nothing: it would move the cache line between the
    // threads that request chunks.
    let less = |sum: usize| (sum.min(bytes) != 0).then(|| sum - sum.min(bytes));
    let (Ok(before) | Err(before)) = change_if(sum.load(Ordering::Relaxed), exchange, less);
    (before, before.min(bytes))
}

#[cfg(all(test, not(ephemera_loom)))]
mod tests {
    use super::{FreedBytes, KEPT, LEARNED_MAX, Ordering, SOON_MS};

    #[test]
    fn the_raise_is_bounded_and_halves_with_each_second_without_use() {
        const NOW: usize = 1 << 20;
        let freed = FreedBytes::new();
        freed.returned_at.store(NOW, Ordering::Relaxed);
        freed.learn(KEPT, NOW);
        assert_eq!(freed.learned_by(NOW), KEPT);
        let last = NOW + SOON_MS - 1;
        freed.learn(2 * LEARNED_MAX, last);
        for (seconds, left) in [(0, LEARNED_MAX), (1, LEARNED_MAX / 2), (3, LEARNED_MAX / 8), (100, 0)] {
            assert_eq!(freed.learned_by(last + seconds * SOON_MS), left, "after {seconds} seconds");
        }
        // A second after the return of pages, requests for them no longer raise the bound.
        freed.learn(KEPT, NOW + SOON_MS);
        assert_eq!(freed.learned_by(NOW + SOON_MS), LEARNED_MAX);
    }
}
