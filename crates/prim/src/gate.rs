//! A lock that is tried, never waited for without end.
//!
//! A process that forks while another thread holds a lock has that lock held for ever in the child.
//! Allocators are called in such children, so no path that must succeed waits for a lock: it tries, a
//! bounded number of times, and does without.

use crate::sync::{AtomicBool, Ordering, spin_hint};

// ORDERING: Acquire. Pairs with the Release in `Pass::drop`: what the one before did behind the gate is seen.
#[cfg(any(ephemera_loom, target_has_atomic = "ptr"))]
const ENTER: Ordering =
    if cfg!(ephemera_weaken = "enter_relaxed") { Ordering::Relaxed } else { Ordering::Acquire };
// ORDERING: Release. Pairs with the Acquire in `Gate::take`. Publishes: what was done behind the gate.
const OPEN: Ordering =
    if cfg!(ephemera_weaken = "open_relaxed") { Ordering::Relaxed } else { Ordering::Release };

/// How often [`Gate::enter`] looks before it gives up.
pub const TRIES: usize = if cfg!(ephemera_loom) { 2 } else { 1_000 };

/// A lock that is only tried.
#[derive(Debug)]
pub struct Gate {
    closed: AtomicBool,
}

/// The right to be behind a [`Gate`]; opens it when dropped, also while a panic unwinds. One that is forgotten
/// keeps the gate shut for ever, which every caller is prepared for: a fork does the same.
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
            Self { closed: AtomicBool::new(false) }
        }
    }

    /// Goes in if nobody is there.
    #[inline]
    pub fn try_enter(&self) -> Option<Pass<'_>> {
        self.take().then(|| Pass { gate: self })
    }

    /// Goes in, looking again a bounded number of times while somebody is there.
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
        // ORDERING: `ENTER`. Pairs with `Pass::drop`.
        self.closed.compare_exchange(false, true, ENTER, Ordering::Relaxed).is_ok()
    }

    /// Without compare-and-swap there are only types for one thread.
    #[cfg(not(any(ephemera_loom, target_has_atomic = "ptr")))]
    fn take(&self) -> bool {
        let open = !self.closed.load(Ordering::Relaxed);
        self.closed.store(true, Ordering::Relaxed);
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
        self.gate.closed.store(false, OPEN);
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
