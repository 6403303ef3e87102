//! An asymmetric pair of fences. On Linux, the fence that runs more often compiles to no
//! instruction.
//!
//! Suppose that two threads each store a word and then load the other's word. If at least one
//! thread must see the other's store, each thread needs a full fence between its store and its
//! load. If one thread runs its fence far more often than the other, the other thread should bear
//! the cost. The *light* fence is for the thread that runs its fence often: on Linux, it only keeps
//! the compiler from moving the load. The *heavy* fence is for the other thread: it makes the
//! kernel run a full fence on all threads of the process (`membarrier`).
//!
//! Elsewhere, under Miri and loom, and without 64-bit atomics, both fences are ordinary
//! sequentially consistent fences.

use crate::sync::{Ordering, fence};

/// Orders an earlier store of this thread before its later loads, as seen by a thread that runs
/// [`heavy`].
#[inline]
pub fn light() {
    if weakened!("light_without_fence") {
        return;
    }
    // ORDERING: SeqCst fence of the compiler only. Pairs with `heavy`, in which the kernel runs a
    // full fence on this thread.
    #[cfg(all(ephemera_pages, target_os = "linux"))]
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
    // ORDERING: SeqCst fence. Pairs with the one in `heavy`.
    #[cfg(not(all(ephemera_pages, target_os = "linux")))]
    fence(Ordering::SeqCst);
}

/// Prepares the process for [`heavy`]. The first heavy fence of a process with several threads may
/// take several milliseconds, because the kernel registers the process. A thread calls this
/// function before it locks or borrows state that other threads may need.
pub fn prepare() {
    #[cfg(all(ephemera_pages, target_os = "linux"))]
    {
        use core::sync::atomic::AtomicBool;

        static IS_PREPARED: AtomicBool = AtomicBool::new(false);
        if !IS_PREPARED.load(Ordering::Relaxed) {
            let _ = crate::pages::fence_all_threads();
            IS_PREPARED.store(true, Ordering::Relaxed);
        }
    }
}

/// Orders the earlier stores of this thread before its later loads, and does the same for every
/// thread that runs [`light`]. Returns `false` if the kernel refuses to fence the other threads.
/// The call then guarantees no order on those threads.
#[must_use]
pub fn heavy() -> bool {
    if weakened!("heavy_without_fence") {
        return true;
    }
    // ORDERING: SeqCst fence. Pairs with the one in `light`: either this thread sees the other
    // thread's store, or the other thread sees this thread's store.
    fence(Ordering::SeqCst);
    #[cfg(all(ephemera_pages, target_os = "linux"))]
    return crate::pages::fence_all_threads();
    #[cfg(not(all(ephemera_pages, target_os = "linux")))]
    true
}

#[cfg(all(test, feature = "std", not(ephemera_loom)))]
mod tests {
    use core::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::Barrier;

    use super::{heavy, light};

    #[test]
    fn conc_one_of_two_threads_sees_the_store_of_the_other() {
        const ROUNDS: usize = if cfg!(miri) { 5 } else { 2_000 };
        for _ in 0..ROUNDS {
            let (rare, frequent, start) = (AtomicUsize::new(0), AtomicUsize::new(0), Barrier::new(2));
            let (saw_frequent, saw_rare) = std::thread::scope(|threads| {
                let other = threads.spawn(|| {
                    start.wait();
                    frequent.store(1, Ordering::Relaxed);
                    light();
                    rare.load(Ordering::Relaxed)
                });
                start.wait();
                rare.store(1, Ordering::Relaxed);
                // If the kernel refuses the call, there is no order to check.
                let ordered = heavy();
                let saw = if ordered { frequent.load(Ordering::Relaxed) } else { 1 };
                (saw, other.join().unwrap())
            });
            assert!(saw_frequent + saw_rare > 0, "neither thread saw the other's store");
        }
    }
}
