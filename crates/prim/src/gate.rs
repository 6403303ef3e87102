//! A lock with a bounded wait: a thread gives up after a fixed number of tries.
//!
//! Allocators run in forked children and while other threads are suspended, so a path that must
//! succeed cannot wait for a lock. Instead, such a path tries to enter a gate, and continues
//! without the gate if all tries fail. A gate stores the generation of the process that shut it
//! (see [`fork`](crate::fork)). In a forked child, a thread may enter a gate that another thread of
//! the parent had shut. The data that a gate protects must therefore be usable even if the last
//! holder stopped in the middle of an update.

use crate::fork::generation;
use crate::sync::{AtomicUsize, Ordering, try_briefly};

/// The word of an open gate. A shut gate stores one more than the generation of the process that
/// shut it.
const OPEN_WORD: usize = 0;

// ORDERING: Acquire. Pairs with the Release in `Pass::drop`: this thread sees everything that the
// last holder wrote while it held the gate.
ordering!(enter_order = Acquire, Relaxed if "enter_relaxed");
// ORDERING: Release. Pairs with the Acquire in `Gate::try_enter` and `Gate::is_shut`.
// Publishes: everything that this thread wrote while it held the gate.
ordering!(open_order = Release, Relaxed if "open_relaxed");

/// A lock that a thread tries a bounded number of times.
#[derive(Debug)]
pub struct Gate(AtomicUsize);

/// The right to use the data that a [`Gate`] protects. Dropping the pass opens the gate, even
/// during a panic. If a pass is forgotten, the gate stays shut, and every caller continues without
/// a pass.
#[derive(Debug)]
#[must_use = "the gate opens again as soon as this is dropped"]
pub struct Pass<'a>(&'a Gate);

impl Gate {
    crate::const_unless_loom! {
        /// Creates an open gate.
        pub fn new() -> Self {
            Self(AtomicUsize::new(OPEN_WORD))
        }
    }

    /// Makes one attempt to enter the gate. Returns `None` if a thread of this process holds it.
    #[inline]
    pub fn try_enter(&self) -> Option<Pass<'_>> {
        let shut = generation().wrapping_add(1);
        // ORDERING: `enter_order`. Pairs with `Pass::drop`.
        let enter = |word| self.0.compare_exchange(word, shut, enter_order(), Ordering::Relaxed);
        let entered = match enter(OPEN_WORD) {
            // The holder was a thread of the parent, and the fork copied everything that the holder
            // wrote.
            Err(left) if left != shut => enter(left),
            entered => entered,
        };
        entered.is_ok().then(|| Pass(self))
    }

    /// Returns whether a thread of this process holds the gate. If the result is `false`, this
    /// thread sees the writes of the last holder.
    #[inline]
    pub fn is_shut(&self) -> bool {
        // ORDERING: Acquire. Pairs with the Release in `Pass::drop`.
        self.0.load(Ordering::Acquire) == generation().wrapping_add(1)
    }

    /// Enters the gate. Tries a bounded number of times, with a pause after each failure. Together,
    /// the pauses take about as long as a thousand spin hints. Returns `None` if all tries fail.
    pub fn enter(&self) -> Option<Pass<'_>> {
        try_briefly(|| self.try_enter())
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        // ORDERING: `open_order`. Pairs with `Gate::try_enter` and `Gate::is_shut`.
        self.0.0.store(OPEN_WORD, open_order());
    }
}

#[cfg(all(test, not(ephemera_loom)))]
mod tests {
    use super::Gate;

    #[test]
    fn gate_admits_one_holder_at_a_time() {
        let gate = Gate::new();
        let first = gate.try_enter();
        assert!(first.is_some());
        assert!(gate.try_enter().is_none());
        assert!(gate.enter().is_none(), "`enter` entered a held gate");
        drop(first);
        assert!(gate.enter().is_some());
    }

    #[test]
    #[cfg(feature = "std")]
    fn panic_while_the_gate_is_held_opens_it() {
        let gate = Gate::new();
        let caught = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
            let _pass = gate.try_enter();
            std::panic::resume_unwind(alloc::boxed::Box::new(()));
        }));
        assert!(caught.is_err());
        assert!(gate.try_enter().is_some());
    }
}
