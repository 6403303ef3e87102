//! Runs the recorded program, and survives the signals that end the program.
//!
//! A terminal sends Ctrl-C to the tool and to the program alike, unless the program has its own
//! process group. The tool blocks the signal and waits, so that it can keep the trace when the
//! program has ended. A signal from another process may reach the tool alone, so the tool passes
//! it on. If the program itself sent the signal, the tool does not pass it on.

use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::ptr::{null, null_mut};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::processes;

/// The signals by which a user, a supervisor or a timer ends a program, or sends it a message.
const CAUGHT: [c_int; 7] =
    [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2, libc::SIGALRM, libc::SIGTERM];

/// The signals that the tool's only thread blocks and waits for: the signals in [`CAUGHT`] that
/// were not ignored at the start, and the signal that reports a child's end. Dropping this value
/// discards pending signals and restores the previous state.
pub(super) struct BlockedSignals {
    waited: libc::sigset_t,
    /// The signals that were blocked before.
    before: libc::sigset_t,
}

impl BlockedSignals {
    /// Blocks the signals, except signals that were ignored when xtask was started. The program
    /// also starts with those signals ignored.
    pub(super) fn block() -> Self {
        let mut waited = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: the set is writable.
        unsafe { libc::sigemptyset(waited.as_mut_ptr()) };
        let caught = CAUGHT.into_iter().filter(|signal| !is_ignored(*signal));
        for signal in caught.chain([libc::SIGCHLD]) {
            // SAFETY: the set is initialised, and the signals are valid.
            unsafe { libc::sigaddset(waited.as_mut_ptr(), signal) };
        }
        // SAFETY: `sigemptyset` has initialised the set.
        let waited = unsafe { waited.assume_init() };
        let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: `waited` is a valid set, and `before` is writable.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const waited, before.as_mut_ptr()) };
        // SAFETY: zeros are a valid set, and the call replaced them with another valid set.
        let before = unsafe { before.assume_init() };
        Self { waited, before }
    }

    /// Waits for the next signal. Returns its number, and its sender if a process sent it.
    fn wait(&self) -> io::Result<(c_int, Option<u32>)> {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        loop {
            // SAFETY: the set is valid, and `info` is writable.
            let signal = unsafe { libc::sigwaitinfo(&raw const self.waited, info.as_mut_ptr()) };
            if signal > 0 {
                // SAFETY: zeros are a valid structure, and the call replaced them with another
                // valid one.
                let info = unsafe { info.assume_init() };
                // SAFETY: the structure is initialised, and every number is valid for this field.
                // If a process sent the signal, the kernel has set the field to its ID.
                let sender = || unsafe { info.si_pid() }.cast_unsigned();
                return Ok((signal, (info.si_code <= 0).then(sender)));
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // A signal that is still pending was meant for the program, and would end the tool.
        // SAFETY: the set and the time are valid, and the pointer between them may be null.
        while unsafe { libc::sigtimedwait(&raw const self.waited, null_mut(), &raw const now) } > 0 {}
        set_blocked(&self.before);
    }
}

/// Blocks these signals and no others.
fn set_blocked(signals: &libc::sigset_t) {
    // SAFETY: the first pointer refers to a valid set, and the second one may be null.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const *signals, null_mut()) };
}

fn is_ignored(signal: c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the first pointer is null, so the action does not change. `action` is writable.
    unsafe { libc::sigaction(signal, null(), action.as_mut_ptr()) };
    // SAFETY: zeros are a valid structure, and the call replaced them with another valid one.
    unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Returns whether the kernel sent a signal to this process only, and not to its child `pid`.
fn is_for_this_process_alone(signal: c_int, pid: u32) -> bool {
    // SAFETY: the function takes a number and accesses no memory.
    let group = |pid| unsafe { libc::getpgid(pid) };
    // SAFETY: the function takes a number and accesses no memory.
    let session = unsafe { libc::getsid(0) };
    match signal {
        // An alarm is for the process that requested it, possibly before that process executed the
        // tool.
        libc::SIGALRM => true,
        // When a terminal is closed, only the leader of its session gets the signal.
        libc::SIGHUP if session.cast_unsigned() == std::process::id() => true,
        // A terminal sends its other signals to one process group. The child therefore got this
        // signal too if it is in the tool's group.
        _ => group(pid.cast_signed()) != group(0),
    }
}

/// Runs the program to its end and returns its status. `parts` is the directory of its traces.
pub(super) fn run(command: &mut Command, parts: &Path, signals: &BlockedSignals) -> io::Result<ExitStatus> {
    let before = signals.before;
    let restore = move || {
        set_blocked(&before);
        Ok(())
    };
    // With this closure, `spawn` uses `execvp`, which runs a script that lacks `#!` in `/bin/sh`,
    // as a shell does. `posix_spawnp` would refuse it.
    // SAFETY: the closure makes one system call and does not allocate.
    unsafe { command.pre_exec(restore) };
    let mut child = command.spawn()?;
    while !has_ended(&child)? {
        let (signal, sender) = signals.wait()?;
        let passed_on = match sender {
            _ if signal == libc::SIGCHLD => false,
            Some(sender) => !processes::belongs_to(sender, parts),
            None => is_for_this_process_alone(signal, child.id()),
        };
        if passed_on {
            // SAFETY: `kill` takes numbers and accesses no memory. The child is not reaped yet, so
            // its ID is not reused.
            unsafe { libc::kill(child.id().cast_signed(), signal) };
        }
    }
    child.wait()
}

/// Returns whether a child has ended. Does not reap the child.
fn has_ended(child: &Child) -> io::Result<bool> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    Ok(waitid(WaitId::Pid(Pid::from_child(child)), options)?.is_some())
}

/// Returns the exit status as a shell reports it. For a signal, this is 128 plus the number of the
/// signal.
pub(super) fn code(status: ExitStatus) -> u8 {
    let signal = status.signal().map(|signal| 128 + signal);
    status.code().or(signal).and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(script: &str) -> u8 {
        code(Command::new("sh").args(["-c", script]).status().expect("there is a shell"))
    }

    #[test]
    fn the_exit_status_follows_the_convention_of_shells() {
        assert_eq!((ended("exit 0"), ended("exit 3"), ended("exit 255")), (0, 3, 255));
        assert_eq!((ended("kill -TERM $$"), ended("kill -SEGV $$")), (143, 139));
    }
}
