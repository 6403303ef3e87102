//! Runs the recorded program, and survives the signals that end the program.
//!
//! A terminal sends Ctrl-C to the tool and to the program alike. The tool catches the signal and
//! waits, so that it can keep the trace when the program has ended. A signal from another process
//! reaches the tool alone, so the handler passes it on.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::null;
use core::sync::atomic::AtomicI32;
use core::sync::atomic::Ordering::Relaxed;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

/// The signals by which a user or a supervisor ends a program.
const CAUGHT: [c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// The id of the process that runs the program; 0 before the process is started and after it has
/// ended.
static PROGRAM: AtomicI32 = AtomicI32::new(0);
/// A signal that arrived before the program was started; 0 for none.
static EARLY: AtomicI32 = AtomicI32::new(0);

/// Passes a signal from another process on to the program. The program receives a terminal's signal
/// from the kernel.
extern "C" fn caught(signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: the handler is installed with `SA_SIGINFO`, so the kernel passes a valid structure in
    // `info`.
    let sender = unsafe { (*info).si_code };
    if sender > 0 {
        return;
    }
    match PROGRAM.load(Relaxed) {
        0 => EARLY.store(signal, Relaxed),
        program => send(program, signal),
    }
}

/// Sends a signal to the program.
fn send(program: c_int, signal: c_int) {
    // SAFETY: `kill` takes numbers and accesses no memory. `PROGRAM` names a process only until it
    // is reaped, so the number is not reused.
    unsafe { libc::kill(program, signal) };
}

/// The previous signal handlers. Dropping this value restores them.
struct Handlers(Vec<(c_int, libc::sigaction)>);

impl Handlers {
    /// Installs the handler [`caught`] for each signal in [`CAUGHT`], except those that were
    /// ignored when xtask was started. The program inherits the ignored signals.
    fn install() -> Self {
        let mut before = Vec::new();
        for signal in CAUGHT {
            let old = action(signal, null());
            if old.sa_sigaction == libc::SIG_IGN {
                continue;
            }
            let mut ours = old;
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = caught;
            ours.sa_sigaction = handler as *const () as libc::sighandler_t;
            ours.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            action(signal, &raw const ours);
            before.push((signal, old));
        }
        Self(before)
    }
}

impl Drop for Handlers {
    fn drop(&mut self) {
        for (signal, old) in &self.0 {
            action(*signal, &raw const *old);
        }
    }
}

/// Sets the handler of a signal, unless `new` is null. Returns the previous handler.
fn action(signal: c_int, new: *const libc::sigaction) -> libc::sigaction {
    let mut old = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: `new` is null or a whole structure, and `old` is writable. The handler that this
    // module installs uses only atomics and `kill`, which are safe in a handler.
    unsafe { libc::sigaction(signal, new, old.as_mut_ptr()) };
    // SAFETY: zeros are a valid structure, and the kernel replaced them by a valid one.
    unsafe { old.assume_init() }
}

/// Runs the program to its end.
pub(super) fn run(command: &mut Command) -> io::Result<ExitStatus> {
    let _handlers = Handlers::install();
    let mut child = command.spawn()?;
    let pid = child.id().cast_signed();
    PROGRAM.store(pid, Relaxed);
    match EARLY.swap(0, Relaxed) {
        0 => {}
        signal => send(pid, signal),
    }
    // The process remains a zombie here, so its number is not reused while a handler may send to
    // it.
    let waited = wait_unreaped(child.id());
    PROGRAM.store(0, Relaxed);
    waited?;
    child.wait()
}

/// Waits for the end of a child without reaping it.
fn wait_unreaped(pid: u32) -> io::Result<()> {
    loop {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: `info` is valid for the structure that the call writes.
        let status =
            unsafe { libc::waitid(libc::P_PID, pid, info.as_mut_ptr(), libc::WEXITED | libc::WNOWAIT) };
        if status == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
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
    fn a_status_is_that_of_a_shell() {
        assert_eq!((ended("exit 0"), ended("exit 3"), ended("exit 255")), (0, 3, 255));
        assert_eq!((ended("kill -TERM $$"), ended("kill -SEGV $$")), (143, 139));
    }
}
