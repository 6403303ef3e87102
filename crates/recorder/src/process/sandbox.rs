//! Ends the recording when the program enters a sandbox, because a later system call of the
//! recorder could end the program.
//!
//! A seccomp filter allows the system calls that the program makes, but often not the system calls
//! of the recorder. The preloaded library therefore replaces `prctl` and `syscall`, the two
//! functions by which programs install a filter. The library does not see a filter that was
//! installed before the program started, or that a program installs by its own `syscall`
//! instruction.

use core::arch::{asm, naked_asm};
use core::ffi::{c_int, c_long, c_ulong};
use core::ptr::null_mut;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::PROCESS;
use crate::format::Stop;
use crate::lock::Lock;
use crate::os;

/// Calls `enter`, which puts the calling thread into a sandbox, and returns the result. `flags` are
/// the flags of the call to `seccomp`, or 0. If `enter` succeeds, stops the recording, unless the
/// caller is the child of a `vfork`.
///
/// Unless the caller is such a child, no thread extends the file while `enter` runs or after it has
/// succeeded. The recorder does not record calls that begin after this function has returned a
/// success. A call that another thread began earlier may still take and release the lock, and read
/// the clock.
fn into_sandbox(flags: c_ulong, enter: impl FnOnce() -> c_long) -> c_long {
    // ORDERING: Acquire. Pairs with the Release in `prepare`: this thread sees the recording and
    // its settings.
    let process = PROCESS.load(Acquire);
    if process.is_null() || weakened!("recorder_in_a_sandbox") {
        return enter();
    }
    // SAFETY: a published recording is never unmapped (I1).
    let process = unsafe { &*process };
    if ![0, os::pids().0].contains(&process.pid.load(Relaxed)) {
        // The calling process is the child of a `vfork`. It runs in the memory of its parent,
        // which does not enter the sandbox.
        return enter();
    }
    process.entering.fetch_add(1, Relaxed);
    // The current holder of the lock may not see the new count, so wait until it releases the
    // lock. Every later holder sees the count.
    drop(Lock::take(&process.locked));
    let returned = enter();
    // A positive result is the descriptor of a listener, if the program has asked for one.
    // Otherwise, it is the ID of a thread that cannot get the filter, and the kernel has installed
    // no filter.
    let is_listener =
        flags & libc::SECCOMP_FILTER_FLAG_NEW_LISTENER != 0 || weakened!("recorder_unsynchronised");
    if returned == 0 || returned > 0 && is_listener {
        process.stop(Stop::Sandbox);
        // ORDERING: Release. Pairs with the Acquire in `record`. Publishes: that `stop` has read
        // the sequence number from which on events may be missing.
        PROCESS.store(null_mut(), Release);
    }
    // The count is zero already if a signal handler has forked since, and this is the child.
    let _ = process.entering.fetch_update(Relaxed, Relaxed, |count| count.checked_sub(1));
    returned
}

/// Makes a system call. Returns its result, or a negative error number.
///
/// # Safety
///
/// The arguments must fulfil the contract of the system call.
unsafe fn system(number: c_long, arguments: [c_ulong; 5]) -> c_long {
    let [first, second, third, fourth, fifth] = arguments;
    let returned;
    // SAFETY: the caller guarantees that the arguments fulfil the contract of the call. The kernel
    // changes only the registers that are declared here.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => returned,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") fourth,
            in("r8") fifth,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    returned
}

/// Converts the result of a system call into that of a C function: for a negative error number,
/// sets `errno` and returns -1.
fn answered(returned: c_long) -> c_long {
    if returned < 0 {
        os::set_errno(-returned as c_int);
        return -1;
    }
    returned
}

/// Passes a call to `prctl` to the kernel. The option `PR_SET_SECCOMP` enters a sandbox.
///
/// # Safety
///
/// The arguments must fulfil the contract of `option`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn prctl(
    option: c_int,
    second: c_ulong,
    third: c_ulong,
    fourth: c_ulong,
    fifth: c_ulong,
) -> c_int {
    let arguments = [c_long::from(option).cast_unsigned(), second, third, fourth, fifth];
    // SAFETY: the system call has the contract of `option`. The caller's arguments fulfil it, and
    // they are passed on unchanged.
    let enter = || unsafe { system(libc::SYS_prctl, arguments) };
    let returned = if option == libc::PR_SET_SECCOMP { into_sandbox(0, enter) } else { enter() };
    answered(returned) as c_int
}

/// Calls `seccomp`, which the C library offers only through `syscall`.
///
/// # Safety
///
/// `number` must be the number of `seccomp`, and the other arguments must fulfil the contract of
/// `operation`.
unsafe extern "C" fn seccomp(number: c_long, operation: c_ulong, flags: c_ulong, place: c_ulong) -> c_long {
    // SAFETY: `number` is the number of `seccomp`, which reads only the first three arguments. The
    // caller guarantees that they fulfil the contract of `operation`.
    let enter = || unsafe { system(number, [operation, flags, place, 0, 0]) };
    let enters = [libc::SECCOMP_SET_MODE_STRICT, libc::SECCOMP_SET_MODE_FILTER];
    let enters = enters.into_iter().any(|mode| c_ulong::from(mode) == operation);
    answered(if enters { into_sandbox(flags, enter) } else { enter() })
}

/// Passes a call to `syscall` to the kernel. Like the C library's function, it has no stack
/// frame, because a call may return twice or on another stack.
///
/// # Safety
///
/// The arguments must fulfil the contract of the system call.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn syscall() {
    naked_asm!(
        "cmp rdi, {seccomp_number}",
        "je {seccomp}",
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, qword ptr [rsp + 8]",
        "syscall",
        "cmp rax, -4095",
        "jae 2f",
        "ret",
        "2:",
        "mov rdi, rax",
        "jmp {answered}",
        seccomp_number = const libc::SYS_seccomp,
        seccomp = sym seccomp,
        answered = sym answered_in_c,
    )
}

/// Calls [`answered`]. The assembly of [`syscall`] jumps to this function.
extern "C" fn answered_in_c(returned: c_long) -> c_long {
    answered(returned)
}
