//! The generation of the process, by which a forked child recognises locks of its parent's threads.
//!
//! A forked child has one thread, so nothing in the child unlocks a lock that another thread of the
//! parent held. A lock therefore stores the generation of the process that took it. A child has a
//! new generation, so it recognises that the holder belongs to another process, and takes over the
//! lock.
//!
//! A child created without the C library's `fork` (by a bare `clone`) keeps the generation of its
//! parent.

use crate::sync::Ordering;

// This is not loom's atomic, because a model has one process, and a static cannot hold loom's
// atomics.
static GENERATION: core::sync::atomic::AtomicUsize = core::sync::atomic::AtomicUsize::new(0);

/// Returns the number of forks that lead from the process that registered the fork handler to the
/// current one. The number stays zero in builds without this handler, and if the C library refuses
/// to register it.
#[inline]
pub fn generation() -> usize {
    watch();
    GENERATION.load(Ordering::Relaxed)
}

#[cfg(all(unix, feature = "std", not(any(miri, ephemera_loom))))]
pub(crate) use handler::watch;

/// Does nothing, because in this build processes do not fork, or no handler can run at a fork.
#[cfg(not(all(unix, feature = "std", not(any(miri, ephemera_loom)))))]
#[inline]
pub(crate) fn watch() {}

/// The handler that the C library calls in every forked child.
#[cfg(all(unix, feature = "std", not(any(miri, ephemera_loom))))]
mod handler {
    use core::ffi::c_int;
    use core::sync::atomic::AtomicU8;

    use super::{GENERATION, Ordering};

    /// The value of `STATE` before the first call to [`watch`].
    const UNWATCHED: u8 = 0;
    /// The value of `STATE` while a thread registers the handler.
    const REGISTERING: u8 = 1;
    /// The value of `STATE` after the C library registered the handler or refused to, or after a
    /// thread stopped waiting for the registration.
    const WATCHED: u8 = 2;

    /// The number of times that a thread yields while it waits for another thread to register the
    /// handler.
    const WAITS: usize = 100;

    static STATE: AtomicU8 = AtomicU8::new(UNWATCHED);

    type Handler = Option<unsafe extern "C" fn()>;

    unsafe extern "C" {
        /// POSIX: registers handlers. The C library calls `child` in the child of each `fork`,
        /// before `fork` returns there.
        fn pthread_atfork(before: Handler, parent: Handler, child: Handler) -> c_int;
    }

    unsafe extern "C" fn forked() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
    }

    /// Registers the handler if it is not registered yet.
    #[inline]
    pub(crate) fn watch() {
        // ORDERING: Acquire. Pairs with the Release in `register`: the handler is registered.
        if STATE.load(Ordering::Acquire) != WATCHED {
            register();
        }
    }

    /// Registers the handler, or waits a bounded time while another thread does so: a thread that
    /// returned at once could fork before the handler is registered.
    #[cold]
    fn register() {
        let relaxed = Ordering::Relaxed;
        if STATE.compare_exchange(UNWATCHED, REGISTERING, relaxed, relaxed).is_ok() {
            // SAFETY: the handler is a function of this program that only writes an atomic, which a
            // forked child may do. If the C library refuses for lack of memory, a child keeps its
            // parent's generation.
            unsafe { pthread_atfork(None, None, Some(forked)) };
            // ORDERING: Release. Pairs with the Acquire in `watch`. Publishes: the registration.
            STATE.store(WATCHED, Ordering::Release);
            return;
        }
        // The C library may allocate for the registration, through an allocator that calls `watch`
        // again. The registering thread itself may therefore arrive here, so the wait is bounded.
        for _ in 0..WAITS {
            // ORDERING: Acquire. Pairs with the Release in `register`.
            if STATE.load(Ordering::Acquire) == WATCHED {
                return;
            }
            std::thread::yield_now();
        }
        // This store makes later calls return at once. In a child that was forked during the
        // registration, no thread ever completes it, so without the store each call would wait the
        // full bounded time.
        STATE.store(WATCHED, Ordering::Relaxed);
    }
}
