//! The recorder's lock, which shields its holder from asynchronous signals and cancellation.
//!
//! A thread takes the lock to get a packet (about once in 4,000 events), to note its processor
//! time, to start the recording of a child, and before it enters a sandbox. The lock is a futex
//! with priority inheritance: the kernel runs the holder at the priority of the most urgent waiter.
//! With a spinlock, a waiter of high real-time priority could keep the holder from running.

use core::ffi::c_int;
use core::ptr::null_mut;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::os;

/// The held lock. Dropping this value releases the lock.
#[derive(Debug)]
pub(crate) struct Lock<'a> {
    word: &'a AtomicU32,
    /// The holder's thread ID in the kernel.
    thread: u32,
    /// The guard that restores the signal mask and the cancellation state. It is dropped after
    /// `drop` has released `word`.
    _quiet: Uninterrupted,
}

impl<'a> Lock<'a> {
    /// Takes the lock, and waits while another thread holds it. `word` is the lock's futex, which
    /// is 0 while the lock is free. Returns `None` if the kernel does not let the thread wait.
    pub(crate) fn take(word: &'a AtomicU32) -> Option<Self> {
        let quiet = Uninterrupted::begin();
        let thread = os::thread();
        // ORDERING: Acquire. Pairs with the Release in `Lock::drop`: this thread sees the file's
        // length and its window.
        if word.compare_exchange(0, thread, Acquire, Relaxed).is_err() {
            if weakened!("recorder_lock_spins") {
                spin(word, thread);
            } else {
                os::futex(word, libc::FUTEX_LOCK_PI)?;
            }
            // ORDERING: Acquire. Pairs with the Release in `Lock::drop`: if the kernel passed the
            // lock on, this thread sees the file's length and its window.
            word.load(Acquire);
        }
        Some(Self { word, thread, _quiet: quiet })
    }
}

/// Waits for the lock by spinning. Only the weakening `recorder_lock_spins` calls this function.
fn spin(word: &AtomicU32, thread: u32) {
    while word.compare_exchange(0, thread, Relaxed, Relaxed).is_err() {
        std::thread::yield_now();
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // ORDERING: Release. Pairs with the Acquire in `Lock::take`. Publishes: the holder's
        // changes.
        if self.word.compare_exchange(self.thread, 0, Release, Relaxed).is_err() {
            // Other threads wait, so the kernel chooses the next holder. The kernel cannot refuse
            // this call, because this thread holds the lock.
            os::futex(self.word, libc::FUTEX_UNLOCK_PI);
        }
    }
}

/// A guard that keeps asynchronous signals blocked and cancellation disabled in the calling thread
/// until it is dropped.
///
/// A handler may leave by `longjmp`, and a cancelled thread unwinds. Either would leave the lock
/// held until the process ends. Signals that a faulting instruction raises stay unblocked, because
/// the kernel ends a program that raises one while it is blocked.
pub(crate) struct Uninterrupted {
    signals: libc::sigset_t,
    cancel: c_int,
}

/// The value of `PTHREAD_CANCEL_DISABLE` in glibc and musl.
const CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

const FAULTS: [c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

impl core::fmt::Debug for Uninterrupted {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Uninterrupted").field("cancel", &self.cancel).finish_non_exhaustive()
    }
}

impl Uninterrupted {
    fn begin() -> Self {
        let mut cancel = 0;
        if !weakened!("recorder_cancellable") {
            // SAFETY: `cancel` is valid for writes, and `CANCEL_DISABLE` is a valid state.
            unsafe { pthread_setcancelstate(CANCEL_DISABLE, &raw mut cancel) };
        }
        let mut blocked = no_signals();
        // SAFETY: `blocked` is a signal set that is valid for writes.
        unsafe { libc::sigfillset(&raw mut blocked) };
        for signal in FAULTS {
            // SAFETY: `blocked` is an initialised signal set, and `signal` is a valid signal
            // number.
            unsafe { libc::sigdelset(&raw mut blocked, signal) };
        }
        let mut signals = no_signals();
        // SAFETY: both pointers refer to initialised signal sets.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const blocked, &raw mut signals) };
        Self { signals, cancel }
    }
}

impl Drop for Uninterrupted {
    fn drop(&mut self) {
        // SAFETY: `begin` initialised the set, and a null pointer is allowed for the old one.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.signals, null_mut()) };
        // SAFETY: `begin` got this state from the same function. glibc and musl accept a null
        // pointer for the old state.
        unsafe { pthread_setcancelstate(self.cancel, null_mut()) };
    }
}

fn no_signals() -> libc::sigset_t {
    let mut set = core::mem::MaybeUninit::uninit();
    // SAFETY: the pointer is valid for writing a signal set.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: the call initialised the set.
    unsafe { set.assume_init() }
}
