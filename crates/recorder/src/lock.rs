//! The recorder's own lock: it allocates nothing, so that it can be taken in the midst of `malloc`.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A lock that is held for some instructions, or while the file grows.
pub(crate) struct Lock<'a>(&'a AtomicBool);

impl<'a> Lock<'a> {
    /// Waits for it, and lets others run meanwhile.
    pub(crate) fn take(word: &'a AtomicBool) -> Self {
        // ORDERING: Acquire. Pairs with the Release in `drop`. Publishes: the streams' list and the file's length.
        while word.compare_exchange_weak(false, true, Acquire, Relaxed).is_err() {
            // SAFETY: sched_yield takes no pointer and has no precondition.
            unsafe { libc::sched_yield() };
        }
        Self(word)
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // ORDERING: Release. Pairs with the Acquire in `Lock::take`. Publishes: what was changed under the lock.
        self.0.store(false, Release);
    }
}
