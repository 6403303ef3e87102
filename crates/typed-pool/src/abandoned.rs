//! Counts the pools that were dropped with live slots.

// Loom's atomics cannot be created in a static, and no model depends on these counts.
#[cfg(ephemera_loom)]
use core::sync::atomic::{AtomicUsize, Ordering};
#[cfg(not(ephemera_loom))]
use ephemera_prim::sync::{AtomicUsize, Ordering};

/// The pools of this process that were dropped with live slots, and the memory that they left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Abandoned {
    /// The number of pools that were dropped with live slots.
    pub pools: usize,
    /// The number of live slots in these pools when they were dropped. A value without a unit
    /// counts as a slot.
    pub slots: usize,
    /// The bytes that these pools left, in units and in blocks without a unit. This memory is never
    /// freed.
    pub bytes: usize,
}

static TOTAL: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

/// Counts a pool that is dropped with `slots` live slots and leaves `bytes` bytes that are never
/// freed.
#[cold]
pub(crate) fn add(slots: usize, bytes: usize) {
    for (total, more) in TOTAL.iter().zip([1, slots, bytes]) {
        total.fetch_add(more, Ordering::Relaxed);
    }
}

/// Panics with the message `words`, or prints it to standard error if a panic might end the
/// process.
#[cfg(all(feature = "std", debug_assertions))]
#[cold]
pub(crate) fn complain(words: core::fmt::Arguments<'_>) {
    use std::io::Write;

    if std::thread::panicking() || thread_may_be_ending() {
        // There is no way to report a failed write.
        let _ = writeln!(std::io::stderr(), "{words}");
    } else {
        panic!("{words}");
    }
}

/// Returns whether the caller may be running in the destructor of a thread-local, where a panic
/// ends the process.
///
/// The standard library has no function for this question. A destroyed thread-local would prove
/// that destructors are running, but a live one proves nothing, because destructors run in the
/// reverse order of first use. This function therefore searches the backtrace for functions of the
/// standard library's module of thread-locals. It also returns `true` during the first use of a
/// thread-local, and in a stripped program, where the backtrace has no function names. It returns
/// `false` under Miri, and would do so if a future version of the standard library renamed that
/// module. In these two cases, a panic in a destructor ends the process.
#[cfg(all(feature = "std", debug_assertions))]
#[inline(never)]
fn thread_may_be_ending() -> bool {
    // A backtrace reads the current directory, which Miri's isolation forbids.
    if cfg!(miri) {
        return false;
    }
    let callers = std::format!("{}", std::backtrace::Backtrace::force_capture());
    callers.contains("sys::thread_local::") || !callers.contains("thread_may_be_ending")
}

/// Returns the number of pools that were dropped with live slots, the number of these slots, and
/// the size in bytes of the memory that the pools left. This memory is never freed.
///
/// # Examples
///
/// ```
/// use typed_pool::{TypedPool, abandoned};
///
/// let pool = TypedPool::new();
/// drop(pool.alloc(1_u64));
/// drop(pool);
/// assert_eq!(abandoned().pools, 0, "the pool had no live slot");
/// ```
#[must_use]
pub fn abandoned() -> Abandoned {
    let [pools, slots, bytes] = TOTAL.each_ref().map(|total| total.load(Ordering::Relaxed));
    Abandoned { pools, slots, bytes }
}
