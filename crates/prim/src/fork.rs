//! The generation of the process, by which a forked child recognises locks of its parent's threads.
//!
//! A forked child has one thread. A lock that another thread of the parent held stays locked in the
//! child. So a lock stores the generation of the process that took it. A child has a generation of
//! its own: it sees that the holder is not in its process and takes the lock over.
//!
//! A child created without the C library's `fork` (by a bare `clone`) keeps the generation of its
//! parent.

use crate::sync::Ordering;

// Not loom's atomic: a model has one process, and loom has no statics.
static GENERATION: core::sync::atomic::AtomicUsize = core::sync::atomic::AtomicUsize::new(0);

/// Returns the number of forks since the first process that called this function.
#[inline]
#[must_use]
pub fn generation() -> usize {
    watch();
    GENERATION.load(Ordering::Relaxed)
}

/// Registers a handler that runs in every forked child. Later calls do nothing.
#[cfg(all(unix, feature = "std", not(any(miri, ephemera_loom))))]
fn watch() {
    use core::sync::atomic::AtomicBool;

    static WATCHED: AtomicBool = AtomicBool::new(false);

    type Handler = Option<unsafe extern "C" fn()>;

    unsafe extern "C" {
        /// POSIX: calls the third handler in the child of each `fork`, before `fork` returns there.
        fn pthread_atfork(before: Handler, parent: Handler, child: Handler) -> core::ffi::c_int;
    }

    unsafe extern "C" fn forked() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
    }

    // Set the flag first: the C library may allocate in here, through an allocator that calls
    // `generation`.
    if !WATCHED.load(Ordering::Relaxed) && !WATCHED.swap(true, Ordering::Relaxed) {
        // SAFETY: the handler is a function of this program that only writes an atomic, which a
        // forked child may do. If the C library refuses for lack of memory, a child keeps its
        // parent's generation.
        unsafe { pthread_atfork(None, None, Some(forked)) };
    }
}

/// On this target no process forks, or no handler can run when one does.
#[cfg(not(all(unix, feature = "std", not(any(miri, ephemera_loom)))))]
#[inline]
fn watch() {}
