//! A lock that a thread tries a bounded number of times, and never waits for without end.
//!
//! Allocators run in forked children, in signal handlers and while other threads are suspended, so no path that must
//! succeed waits for a lock: it tries, and does without. A gate stores the generation of the process that shut it
//! (see [`fork`](crate::fork)). In a child of a fork, a gate that another thread of the parent had shut opens again: what
//! stands behind it must be fit for use wherever its last holder stopped.

use crate::fork::generation;
use crate::sync::{AtomicUsize, Ordering, spin_hint};

/// The word of an open gate. That of a shut one is the generation of its process, plus one.
const OPEN_WORD: usize = 0;

// ORDERING: Acquire. Pairs with the Release in `Pass::drop`: what the last holder did behind the gate is seen.
#[cfg(any(ephemera_loom, target_has_atomic = "ptr"))]
const ENTER: Ordering =
    if cfg!(ephemera_weaken = "enter_relaxed") { Ordering::Relaxed } else { Ordering::Acquire };
// ORDERING: Release. Pairs with the Acquire in `Gate::take`. Publishes: what was done behind the gate.
const OPEN: Ordering =
    if cfg!(ephemera_weaken = "open_relaxed") { Ordering::Relaxed } else { Ordering::Release };

/// How often [`Gate::enter`] tries before it gives up.
pub const TRIES: usize = if cfg!(ephemera_loom) { 2 } else { 1_000 };

/// A lock that is only tried.
#[derive(Debug)]
pub struct Gate {
    word: AtomicUsize,
}

/// The right to be behind a [`Gate`]. Dropping it opens the gate, also while a panic unwinds. If it is forgotten, the gate
/// stays shut, which every caller is prepared for.
#[derive(Debug)]
#[must_use = "the gate opens again as soon as this is dropped"]
pub struct Pass<'a> {
    gate: &'a Gate,
}

impl Gate {
    crate::const_unless_loom! {
        /// An open gate.
        #[must_use]
        pub fn new() -> Self {
            Self { word: AtomicUsize::new(OPEN_WORD) }
        }
    }

    /// Enters the gate if it is open.
    #[inline]
    pub fn try_enter(&self) -> Option<Pass<'_>> {
        self.take().then(|| Pass { gate: self })
    }

    /// Whether a thread of this process is behind the gate. If not, this thread sees what the last one did there.
    #[inline]
    pub fn is_shut(&self) -> bool {
        // ORDERING: Acquire. Pairs with the Release in `Pass::drop`.
        self.word.load(Ordering::Acquire) == generation().wrapping_add(1)
    }

    /// Enters the gate; while it is shut, tries again [`TRIES`] times at most.
    pub fn enter(&self) -> Option<Pass<'_>> {
        for _ in 0..TRIES {
            if let Some(pass) = self.try_enter() {
                return Some(pass);
            }
            spin_hint();
        }
        None
    }

    #[cfg(any(ephemera_loom, target_has_atomic = "ptr"))]
    fn take(&self) -> bool {
        let shut = generation().wrapping_add(1);
        // ORDERING: `ENTER`. Pairs with `Pass::drop`.
        match self.word.compare_exchange(OPEN_WORD, shut, ENTER, Ordering::Relaxed) {
            Ok(_) => true,
            Err(held) if held == shut => false,
            // The holder was a thread of the parent. Its writes are in this process's memory since the fork.
            Err(left) => {
                // ORDERING: `ENTER`. Pairs with `Pass::drop`.
                self.word.compare_exchange(left, shut, ENTER, Ordering::Relaxed).is_ok()
            }
        }
    }

    /// Without compare-and-swap there are only types for one thread.
    #[cfg(not(any(ephemera_loom, target_has_atomic = "ptr")))]
    fn take(&self) -> bool {
        let open = self.word.load(Ordering::Relaxed) == OPEN_WORD;
        self.word.store(generation().wrapping_add(1), Ordering::Relaxed);
        open
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        // ORDERING: `OPEN`. Pairs with `Gate::take`.
        self.gate.word.store(OPEN_WORD, OPEN);
    }
}

#[cfg(all(test, not(ephemera_loom)))]
mod tests {
    use super::Gate;

    #[test]
    fn one_at_a_time() {
        let gate = Gate::new();
        let first = gate.try_enter();
        assert!(first.is_some());
        assert!(gate.try_enter().is_none());
        assert!(gate.enter().is_none(), "a held gate is given up on, not waited for");
        drop(first);
        assert!(gate.enter().is_some());
    }

    #[test]
    #[cfg(feature = "std")]
    fn a_panic_behind_it_opens_the_gate() {
        let gate = Gate::new();
        let caught = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
            let _pass = gate.try_enter();
            std::panic::resume_unwind(alloc::boxed::Box::new(()));
        }));
        assert!(caught.is_err());
        assert!(gate.try_enter().is_some());
    }
}
