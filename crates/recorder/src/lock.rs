//! The recorder's lock, and the protection of its holder from interruption.
//!
//! A thread takes the lock to get a packet, about once in 4,000 events, and to start the recording
//! of a child. The lock is a futex with priority inheritance: the kernel runs the holder at the
//! priority of the most urgent waiter. A spinning waiter could keep a holder of lower real-time
//! priority from running.

use core::ffi::c_int;
use core::ptr::null_mut;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::os;

/// The lock, held until it is dropped. No signal handler and no cancellation interrupts the
/// holder.
#[derive(Debug)]
pub(crate) struct Lock<'a> {
    word: &'a AtomicU32,
    /// The kernel's number of the holder.
    thread: u32,
    /// Dropped after the word is released.
    _quiet: Uninterrupted,
}

impl<'a> Lock<'a> {
    /// Waits for the lock. Its word is 0 while no thread holds it. Returns `None` if the kernel
    /// refuses to wait.
    pub(crate) fn take(word: &'a AtomicU32) -> Option<Self> {
        let quiet = Uninterrupted::begin();
        let thread = os::thread();
        // ORDERING: Acquire. Pairs with the Release in `Lock::drop`. Publishes: the file's length
        // and its window.
        if word.compare_exchange(0, thread, Acquire, Relaxed).is_err() {
            if cfg!(ephemera_weaken = "recorder_lock_spins") {
                spin(word, thread);
            } else {
                os::futex(word, libc::FUTEX_LOCK_PI)?;
            }
            // ORDERING: Acquire. Pairs with the Release in `Lock::drop`. Publishes: the file's
            // length and its window, if the kernel passed the lock on.
            word.load(Acquire);
        }
        Some(Self { word, thread, _quiet: quiet })
    }
}

/// Waits by spinning, for a negative control.
fn spin(word: &AtomicU32, thread: u32) {
    while word.compare_exchange(0, thread, Relaxed, Relaxed).is_err() {
        std::thread::yield_now();
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // ORDERING: Release. Pairs with the Acquire in `Lock::take`. Publishes: the changes of the
        // holder.
        if self.word.compare_exchange(self.thread, 0, Release, Relaxed).is_err() {
            // Other threads wait. The kernel chooses the next holder, and cannot refuse the
            // present one.
            os::futex(self.word, libc::FUTEX_UNLOCK_PI);
        }
    }
}

/// Keeps cancellation and asynchronous signals from the calling thread until it is dropped.
///
/// A handler may leave by `longjmp`, and a cancelled thread unwinds. Either would keep the lock
/// for the rest of the process. Signals of a faulting instruction stay unblocked, since blocking
/// them would end the program.
pub(crate) struct Uninterrupted {
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

impl core::fmt::Debug for Uninterrupted {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Quiet").field("cancel", &self.cancel).finish_non_exhaustive()
    }
}

impl Uninterrupted {
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

impl Drop for Uninterrupted {
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
