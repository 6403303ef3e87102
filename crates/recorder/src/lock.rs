//! The recorder's own lock, and what must not interrupt the thread that holds it.
//!
//! A thread takes the lock to get a chunk, about once in 4,000 events, and to start the recording
//! of a child. It is a futex with priority inheritance: the kernel runs the holder at the priority
//! of the most urgent waiter. A waiter that spins would never let a holder of a lower real-time
//! priority run.

use core::ffi::c_int;
use core::ptr::null_mut;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::os;

/// The lock, held until it is dropped. The holder meets no signal handler and no cancellation.
#[derive(Debug)]
pub(crate) struct Lock<'a> {
    word: &'a AtomicU32,
    /// The holder's number, as the kernel knows it.
    thread: u32,
    /// Dropped after the word is released.
    _quiet: Quiet,
}

impl<'a> Lock<'a> {
    /// Waits for the lock, whose word is 0 while nobody holds it. Returns `None` where the kernel
    /// refuses to wait.
    pub(crate) fn take(word: &'a AtomicU32) -> Option<Self> {
        let quiet = Quiet::begin();
        let thread = os::thread();
        // ORDERING: Acquire. Pairs with the Release in `Lock::drop`. Publishes: the file's length
        // and its window.
        if word.compare_exchange(0, thread, Acquire, Relaxed).is_err() {
            if cfg!(ephemera_weaken = "recorder_lock_spins") {
                spin(word, thread);
            } else {
                os::futex(word, libc::FUTEX_LOCK_PI)?;
            }
            // ORDERING: Acquire. Pairs with the Release in `Lock::drop`. Publishes: the same, where
            // the kernel passed it on.
            word.load(Acquire);
        }
        Some(Self { word, thread, _quiet: quiet })
    }
}

/// The wrong way to wait, for a negative control.
fn spin(word: &AtomicU32, thread: u32) {
    while word.compare_exchange(0, thread, Relaxed, Relaxed).is_err() {
        std::thread::yield_now();
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // ORDERING: Release. Pairs with the Acquire in `Lock::take`. Publishes: what the holder
        // changed.
        if self.word.compare_exchange(self.thread, 0, Release, Relaxed).is_err() {
            // Threads wait: the kernel chooses the next holder. It cannot refuse the holder.
            os::futex(self.word, libc::FUTEX_UNLOCK_PI);
        }
    }
}

/// No cancellation and no asynchronous signal reaches the calling thread until this is dropped.
///
/// A handler may leave by `longjmp`, and a cancelled thread unwinds; either would keep the lock for
/// the rest of the process. Signals that stand for a fault of the instruction itself stay
/// unblocked, since blocking them would end the program.
pub(crate) struct Quiet {
    signals: libc::sigset_t,
    cancel: c_int,
}

/// `PTHREAD_CANCEL_DISABLE` of glibc and musl.
const CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

const FAULTS: [c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

impl core::fmt::Debug for Quiet {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Quiet").field("cancel", &self.cancel).finish_non_exhaustive()
    }
}

impl Quiet {
    fn begin() -> Self {
        let mut cancel = 0;
        if !cfg!(ephemera_weaken = "recorder_cancellable") {
            // SAFETY: the place is valid, and the state is one of the two that exist.
            unsafe { pthread_setcancelstate(CANCEL_DISABLE, &raw mut cancel) };
        }
        let mut blocked = no_signals();
        // SAFETY: the place is a set of signals.
        unsafe { libc::sigfillset(&raw mut blocked) };
        for signal in FAULTS {
            // SAFETY: the place is a set of signals, and the number is a signal's.
            unsafe { libc::sigdelset(&raw mut blocked, signal) };
        }
        let mut signals = no_signals();
        // SAFETY: both places are sets of signals.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const blocked, &raw mut signals) };
        Self { signals, cancel }
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // SAFETY: `begin` filled the set.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.signals, null_mut()) };
        // SAFETY: `begin` got this state from the same function; the old state may be dropped.
        unsafe { pthread_setcancelstate(self.cancel, null_mut()) };
    }
}

fn no_signals() -> libc::sigset_t {
    let mut set = core::mem::MaybeUninit::uninit();
    // SAFETY: the place is as large as a set of signals.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: the call initialised the set.
    unsafe { set.assume_init() }
}
