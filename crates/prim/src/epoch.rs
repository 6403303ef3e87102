//! The trim epoch, by which one thread asks all others to free their unused memory.
//!
//! The asking thread raises the epoch. In its slow path, every other thread compares the epoch with
//! the last value that it saw, and trims if the two differ. A thread that does not take another
//! slow path trims at its exit.

use crate::sync::{AtomicUsize, Ordering};
use crate::word::OwnerUsize;

// ORDERING: Acquire. Pairs with the Release in `Epoch::raise` and `Epoch::raise_for_others`: a
// thread that sees a request also sees the earlier remote frees of the asking thread. Its trim thus
// does not miss these frees.
ordering!(see_order = Acquire, Relaxed if "turned_relaxed");

/// The trim epoch of one kind of pool, shared by all threads.
#[derive(Debug)]
pub struct Epoch(AtomicUsize);

impl Epoch {
    crate::const_unless_loom! {
        /// Creates an epoch that no thread has raised.
        pub fn new() -> Self {
            Self(AtomicUsize::new(0))
        }
    }

    /// Asks every thread to trim.
    pub fn raise(&self) {
        // ORDERING: Release. Pairs with the Acquire in `Epoch::turned`. Publishes: the frees of
        // this thread before its request.
        self.0.fetch_add(1, Ordering::Release);
    }

    /// Asks every other thread to trim. `seen` is the last value that this thread saw. If another
    /// thread has raised the epoch since then, this thread must still obey that request, so `seen`
    /// stays unchanged.
    pub fn raise_for_others(&self, seen: &OwnerUsize) {
        // ORDERING: Release. Pairs with the Acquire in `Epoch::turned`. Publishes: the frees of
        // this thread before its request.
        let before = self.0.fetch_add(1, Ordering::Release);
        if before == seen.get() {
            seen.set(before.wrapping_add(1));
        }
    }

    /// Returns whether the epoch has been raised since `seen` was last updated, and updates `seen`.
    #[inline]
    pub fn turned(&self, seen: &OwnerUsize) -> bool {
        // ORDERING: `see_order`. Pairs with `Epoch::raise` and `Epoch::raise_for_others`.
        let now = self.0.load(see_order());
        let turned = now != seen.get();
        if turned {
            seen.set(now);
        }
        turned
    }
}

#[cfg(all(test, not(ephemera_loom)))]
mod tests {
    use super::Epoch;
    use crate::word::OwnerUsize;

    #[test]
    fn each_reader_sees_a_raise_once() {
        let epoch = Epoch::new();
        let seen = [OwnerUsize::new(0), OwnerUsize::new(0)];
        assert!(!epoch.turned(&seen[0]));
        epoch.raise();
        assert!(epoch.turned(&seen[0]) && !epoch.turned(&seen[0]));
        epoch.raise();
        epoch.raise();
        assert!(epoch.turned(&seen[0]) && !epoch.turned(&seen[0]), "two raises are one request");
        assert!(epoch.turned(&seen[1]) && !epoch.turned(&seen[1]));
    }

    #[test]
    fn a_thread_that_asks_the_others_still_obeys_their_requests() {
        let epoch = Epoch::new();
        let seen = [OwnerUsize::new(0), OwnerUsize::new(0)];
        epoch.raise_for_others(&seen[0]);
        assert!(!epoch.turned(&seen[0]), "its own request");
        epoch.raise_for_others(&seen[1]);
        epoch.raise_for_others(&seen[0]);
        assert!(epoch.turned(&seen[0]), "the request of the other thread");
        assert!(epoch.turned(&seen[1]) && !epoch.turned(&seen[1]));
    }
}
