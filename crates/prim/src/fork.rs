//! The generation of the process: how a child of a fork knows what its parent's threads have left behind.
//!
//! A forked child has one thread, and a lock that another thread of the parent held stays locked in it. What a lock
//! stores here is the generation of the process that took it. A child has another one, so it sees that the holder is not
//! in its process, and takes the lock over.
//!
//! A child that was made without the C library's `fork` (a bare `clone`) keeps the generation of its parent.

use crate::sync::Ordering;

// Not loom's: there is one process in a model, and loom has no statics.
static GENERATION: core::sync::atomic::AtomicUsize = core::sync::atomic::AtomicUsize::new(0);

/// How many forks lie between this process and the first that watched for them.
#[inline]
#[must_use]
pub fn generation() -> usize {
    watch();
    GENERATION.load(Ordering::Relaxed)
}

/// Registers, once, a handler that runs in every forked child.
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

    // The flag comes first: the C library may allocate in here, through an allocator that asks for the generation.
    if !WATCHED.load(Ordering::Relaxed) && !WATCHED.swap(true, Ordering::Relaxed) {
        // SAFETY: the handler is a function of this program that only writes an atomic, which a forked child may do. A refusal,
        // for want of memory, leaves a child with its parent's generation.
        unsafe { pthread_atfork(None, None, Some(forked)) };
    }
}

/// Here no process forks, or nothing can be called when it does.
#[cfg(not(all(unix, feature = "std", not(any(miri, ephemera_loom)))))]
#[inline]
fn watch() {}
