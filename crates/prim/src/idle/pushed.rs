//! Decides from the number of bytes that other threads push whether an owner is idle.
//!
//! If another thread frees a burst of blocks in less than [`IDLE_MS`](super::IDLE_MS), that thread
//! may finish before the owner counts as idle. If every thread then sleeps, no later operation
//! purges the units of those blocks. An owner therefore also counts as idle when the bytes that
//! other threads have pushed since its last visit to the slow path exceed a *bound*. From then on,
//! other threads purge or free the owner's units after some of their pushes.
//!
//! If the owner soon reuses purged memory, it pays for the purge with page faults. The bound then
//! doubles, so that a program with repeated bursts keeps its pages after the first few bursts. A
//! raised bound halves after each second in which no burst needed the raise.
//!
//! Threads count pushed bytes atomically. Otherwise, a thread that the system had preempted during
//! the count could erase the bytes of a whole burst that another thread pushed in the meantime. The
//! words about purges and about the bound change by a load and a store, so an update may be lost.
//! That is harmless, because these words only decide how much a thread purges early.

use crate::sync::{AtomicUsize, Ordering};

/// The least bound, in bytes. An owner is idle if other threads have pushed more bytes than the
/// bound since its last slow path. A steady hand-over between threads has fewer bytes in flight.
pub const IDLE_BYTES: usize = if cfg!(miri) { 1 << 10 } else { 4 << 20 };

/// [`IDLE_BYTES`], unless a control weakens it.
fn least_bound() -> usize {
    if weakened!("idle_after_any_push") { 0 } else { IDLE_BYTES }
}

/// The number of bytes that threads push to one heap before one of them adds the bytes to the
/// [`PushedBytes`] of the heap's owner.
pub(super) const STEP: usize = if cfg!(miri) { 512 } else { 64 << 10 };

/// The time, in milliseconds, within which the owner must reuse purged memory for the bound to
/// double. A raised bound halves after the same time if no burst needed the raise.
const SOON_MS: usize = 1_000;

/// The maximum number of doublings of the bound, which is then 2 GiB.
const DOUBLINGS: usize = 9;

/// The bytes that other threads pushed to the heaps of an owner. Every thread that pushes may write
/// these words, so keep the value on its own cache line.
#[derive(Debug)]
pub struct PushedBytes {
    /// The number of the owner's visits to the slow path, as of the last call to [`Self::add`].
    visits: AtomicUsize,
    /// The number of bytes that other threads have pushed since `visits` last changed.
    bytes: AtomicUsize,
    /// The number of units that threads have purged or freed because the pushed bytes exceeded the
    /// bound, since this count was last reset.
    purged: AtomicUsize,
    /// The number of the owner's visits to the slow path at the first purge that `purged` counts.
    visits_at_purge: AtomicUsize,
    /// The time of the last purge that `purged` counts, in milliseconds.
    purged_at: AtomicUsize,
    /// The number of doublings of the bound at the time `doubled_at`.
    doublings: AtomicUsize,
    /// The time at which the bound last doubled, or at which a burst last needed the raise, in
    /// milliseconds.
    doubled_at: AtomicUsize,
}

impl PushedBytes {
    crate::const_unless_loom! {
        /// Creates the words of an owner to which no thread has pushed.
        pub fn new() -> Self {
            Self {
                visits: AtomicUsize::new(0),
                bytes: AtomicUsize::new(0),
                purged: AtomicUsize::new(0),
                visits_at_purge: AtomicUsize::new(0),
                purged_at: AtomicUsize::new(0),
                doublings: AtomicUsize::new(0),
                doubled_at: AtomicUsize::new(0),
            }
        }
    }

    /// Resets the bound to [`IDLE_BYTES`], and the counts of pushed bytes and purged units to zero,
    /// for the next holder of the record.
    pub fn forget(&self) {
        self.bytes.store(0, Ordering::Relaxed);
        self.purged.store(0, Ordering::Relaxed);
        self.doublings.store(0, Ordering::Relaxed);
    }

    /// Adds pushed bytes, and returns whether the owner is idle by bytes. `visits` is the number of
    /// the owner's visits to the slow path, and `now` is the time in milliseconds. The first call
    /// after a visit restarts the sum and returns `false`.
    pub(super) fn add(&self, bytes: usize, visits: usize, now: usize) -> bool {
        let (last, before) = (self.visits.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed));
        let exchange = |new| self.visits.compare_exchange(last, new, Ordering::Relaxed, Ordering::Relaxed);
        // A thread that was preempted may pass an older number of visits than the previous caller
        // did.
        let is_newer = visits.wrapping_sub(last).wrapping_sub(1) < usize::MAX / 2;
        // If the exchange fails, another thread has restarted the sum. Bytes that other threads
        // have added since this thread read the sum stay in it.
        if is_newer && exchange(visits).is_ok() {
            self.bytes.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
            if before > least_bound() || self.purged.load(Ordering::Relaxed) != 0 {
                self.learn(visits, now);
            }
            return false;
        }
        // The sum is approximate. It does not overflow, because it is about the size of blocks that
        // were all in memory at the same time.
        let sum = self.bytes.fetch_add(bytes, Ordering::Relaxed).wrapping_add(bytes);
        sum > least_bound() << self.doublings_at(now)
    }

    /// Records that this thread purged or freed `units` units because the pushed bytes exceeded the
    /// bound. `visits` and `now` have the same meaning as in [`Self::add`].
    pub(super) fn note_purge(&self, units: usize, visits: usize, now: usize) {
        if units == 0 {
            return;
        }
        let before = self.purged.load(Ordering::Relaxed);
        if before == 0 {
            self.visits_at_purge.store(visits, Ordering::Relaxed);
        }
        self.purged.store(before + units, Ordering::Relaxed);
        self.purged_at.store(now, Ordering::Relaxed);
    }

    /// Doubles the bound if the owner has reused at least half of the purged units within
    /// [`SOON_MS`]. Each visit of the owner to the slow path counts as the use of one unit. If no
    /// unit was purged, although the burst exceeded the least bound, the burst needed the raised
    /// bound. The bound then keeps the doublings that it has at `now`, and their expiry starts
    /// again.
    fn learn(&self, visits: usize, now: usize) {
        let purged = self.purged.load(Ordering::Relaxed);
        if purged == 0 {
            self.doublings.store(self.doublings_at(now), Ordering::Relaxed);
            self.doubled_at.store(now, Ordering::Relaxed);
            return;
        }
        let is_soon = now.wrapping_sub(self.purged_at.load(Ordering::Relaxed)) < SOON_MS;
        let used = visits.wrapping_sub(self.visits_at_purge.load(Ordering::Relaxed));
        let needed = used >= purged.div_ceil(2);
        if is_soon && needed && !weakened!("idle_bound_stays") {
            let doublings = self.doublings_at(now);
            self.doublings.store((doublings + 1).min(DOUBLINGS), Ordering::Relaxed);
            self.doubled_at.store(now, Ordering::Relaxed);
        }
        if needed || !is_soon {
            self.purged.store(0, Ordering::Relaxed);
        }
    }

    /// Returns the number of doublings of the bound at the time `now` (in milliseconds). One
    /// doubling expires for each [`SOON_MS`] that has passed since `doubled_at`.
    fn doublings_at(&self, now: usize) -> usize {
        let halvings = now.wrapping_sub(self.doubled_at.load(Ordering::Relaxed)) / SOON_MS;
        self.doublings.load(Ordering::Relaxed).saturating_sub(halvings)
    }
}

#[cfg(all(test, not(ephemera_loom)))]
mod tests {
    use super::{IDLE_BYTES, PushedBytes, SOON_MS, STEP};

    /// The number of steps after which an owner with the least bound is idle.
    const STEPS: usize = IDLE_BYTES / STEP + 1;

    /// Pushes a burst of `steps` times [`STEP`] bytes, during which the owner does not visit the
    /// slow path. Purges a unit for each step at which the owner is idle. Returns the number of
    /// purges.
    fn burst(pushed: &PushedBytes, steps: usize, visits: usize, now: usize) -> usize {
        let purges = (0..steps).filter(|_| pushed.add(STEP, visits, now)).count();
        pushed.note_purge(purges, visits, now);
        purges
    }

    #[test]
    fn owner_is_idle_after_pushes_beyond_the_bound_without_a_visit() {
        let pushed = PushedBytes::new();
        assert_eq!(burst(&pushed, STEPS - 1, 1, 5), 0);
        assert!(pushed.add(STEP, 1, 5));
        assert!(!pushed.add(STEP, 2, 5), "the owner took a slow path");
        for visits in 3..100 {
            assert_eq!(burst(&pushed, STEPS / 2, visits, 5), 0, "a steady hand-over");
        }
    }

    #[test]
    fn a_thread_that_knows_an_older_visit_does_not_restart_the_sum() {
        let pushed = PushedBytes::new();
        assert_eq!(burst(&pushed, STEPS - 1, 6, 10), 0);
        assert!(pushed.add(STEP, 5, 10), "the sum of visit 6 exceeds the bound");
        assert!(pushed.add(STEP, 6, 10));
    }

    #[test]
    fn one_purged_unit_does_not_raise_the_bound_if_the_owner_sleeps() {
        let pushed = PushedBytes::new();
        pushed.note_purge(1, 5, 10);
        pushed.learn(5, 10);
        assert_eq!(pushed.doublings_at(10), 0, "the owner has used no unit");
        pushed.learn(6, 10);
        assert_eq!(pushed.doublings_at(10), 1);
    }

    #[test]
    fn bursts_that_need_purged_units_again_are_purged_a_few_times_only() {
        let pushed = PushedBytes::new();
        let (steps, mut visits) = (16 * STEPS, 0);
        let mut purges = [0; 8];
        for (round, purges) in purges.iter_mut().enumerate() {
            // The owner uses as many units as the burst has.
            visits += steps;
            *purges = burst(&pushed, steps, visits, 100 * round);
        }
        assert!(purges[0] > steps * 3 / 4, "{purges:?}");
        assert_eq!(purges[6..], [0, 0], "{purges:?}");
        // The bound stays raised while bursts follow each other.
        for round in 1..8 {
            visits += steps;
            assert_eq!(burst(&pushed, steps, visits, 700 + round * (SOON_MS - 1)), 0);
        }
        // After some seconds, a burst is purged again.
        assert!(burst(&pushed, 1, visits + 1, 20 * SOON_MS) == 0);
        assert!(burst(&pushed, steps, visits + steps, 20 * SOON_MS) > steps * 3 / 4);
    }

    #[test]
    fn owner_that_takes_few_slow_paths_after_a_purge_does_not_raise_the_bound() {
        let pushed = PushedBytes::new();
        let steps = 16 * STEPS;
        let first = burst(&pushed, steps, 1, 0);
        for visits in 2..10 {
            assert_eq!(burst(&pushed, steps, visits, 100), first);
        }
    }
}
