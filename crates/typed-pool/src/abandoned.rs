//! What pools left behind that were dropped with slots out.

#[cfg(all(target_has_atomic = "ptr", not(ephemera_loom)))]
use ephemera_prim::sync::{AtomicUsize, Ordering};

/// What the pools of this process left behind, all together, that were dropped with slots out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Abandoned {
    /// Such pools.
    pub pools: usize,
    /// Slots that were out.
    pub slots: usize,
    /// Bytes of the units that hold them, and of blocks without a unit. They are kept for ever.
    pub bytes: usize,
}

#[cfg(all(target_has_atomic = "ptr", not(ephemera_loom)))]
static TOTAL: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

/// Counts a pool that is dropped with `slots` out, and the `bytes` that it leaves.
#[cold]
pub(crate) fn add(slots: usize, bytes: usize) {
    #[cfg(all(target_has_atomic = "ptr", not(ephemera_loom)))]
    for (total, more) in TOTAL.iter().zip([1, slots, bytes]) {
        total.fetch_add(more, Ordering::Relaxed);
    }
    #[cfg(not(all(target_has_atomic = "ptr", not(ephemera_loom))))]
    let _ = (slots, bytes);
}

/// Panics with these words; where that would end the process, they go to standard error.
#[cfg(all(feature = "std", debug_assertions))]
#[cold]
pub(crate) fn complain(words: core::fmt::Arguments<'_>) {
    use std::io::Write;

    if std::thread::panicking() || thread_may_be_ending() {
        // There is nobody to tell that not even this can be said.
        let _ = writeln!(std::io::stderr(), "{words}");
    } else {
        panic!("{words}");
    }
}

/// Whether the caller may run in the destructor of a thread-local, out of which no panic gets.
///
/// Nothing in the standard library says that. A thread-local of our own that is gone would prove it, but one that is there proves nothing,
/// since destructors run in the reverse order of first use. So this asks who called: `true` if a function of the standard library's
/// thread-locals did, as their first use does too, or if functions have no names here (a program that is stripped). Should these
/// functions be renamed one day, the panic ends the process, as it does under Miri.
#[cfg(all(feature = "std", debug_assertions))]
#[inline(never)]
fn thread_may_be_ending() -> bool {
    // To name its callers a program asks for its directory, which Miri's isolation forbids.
    if cfg!(miri) {
        return false;
    }
    let callers = std::format!("{}", std::backtrace::Backtrace::force_capture());
    callers.contains("sys::thread_local::") || !callers.contains("thread_may_be_ending")
}

/// What pools left behind that were dropped with slots out: a [`TypedPool`](crate::TypedPool) keeps the units of such slots for ever.
///
/// All zero on targets without atomic read-modify-writes.
#[must_use]
pub fn abandoned() -> Abandoned {
    #[cfg(all(target_has_atomic = "ptr", not(ephemera_loom)))]
    {
        let [pools, slots, bytes] = [0, 1, 2].map(|word: usize| TOTAL[word].load(Ordering::Relaxed));
        Abandoned { pools, slots, bytes }
    }
    #[cfg(not(all(target_has_atomic = "ptr", not(ephemera_loom))))]
    Abandoned::default()
}
