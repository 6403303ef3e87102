//! What the recorder asks of the kernel: memory, the clock, the lock's futex. Nothing here
//! allocates.
//!
//! `file` has what concerns the trace's file.

use core::ffi::c_int;
use core::ptr::{null, null_mut};
use core::sync::atomic::AtomicU32;

use crate::error::StartError;
use crate::format::TICK_LOG2;

/// The error number of the last call that failed.
pub(crate) fn errno() -> i32 {
    // SAFETY: the call takes nothing.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: the place is the calling thread's own and always valid.
    unsafe { *place }
}

/// Sets the error number back to what the program last saw.
pub(crate) fn set_errno(value: i32) {
    // SAFETY: the call takes nothing.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as in `errno`.
    unsafe { *place = value }
}

/// A call that failed just now.
pub(crate) fn failed(call: &'static str) -> StartError {
    StartError::System { call, errno: errno() }
}

/// The monotonic clock in nanoseconds.
#[inline]
pub(crate) fn clock() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC)
}

/// Processor time of the calling thread in nanoseconds: a system call.
pub(crate) fn thread_processor() -> u64 {
    read_clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Processor time of the process in nanoseconds: a system call.
pub(crate) fn process_processor() -> u64 {
    read_clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

#[inline]
fn read_clock(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a structure of the right type. Where a clock is refused, the
    // structure stays zero.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// The same in ticks since `start`, which is in nanoseconds.
#[inline]
pub(crate) fn ticks_since(start: u64) -> u64 {
    clock().saturating_sub(start) >> TICK_LOG2
}

/// Zeroed memory that a child of a fork finds zeroed again.
pub(crate) fn map_wiped(size: usize) -> Result<*mut u8, StartError> {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at no particular address touches nothing that exists.
    let at = unsafe { libc::mmap(null_mut(), size, access, kind, -1, 0) };
    if at == libc::MAP_FAILED {
        return Err(failed("mmap"));
    }
    if cfg!(ephemera_weaken = "recorder_fork_inherits") {
        return Ok(at.cast());
    }
    // SAFETY: the mapping is ours, and of this size.
    if unsafe { libc::madvise(at, size, libc::MADV_WIPEONFORK) } != 0 {
        let error = failed("madvise(MADV_WIPEONFORK)");
        unmap(at.cast(), size);
        return Err(error);
    }
    Ok(at.cast())
}

/// Unmaps memory.
pub(crate) fn unmap(at: *mut u8, size: usize) {
    // SAFETY: the callers pass mappings of the recorder that no thread uses any more.
    unsafe { libc::munmap(at.cast(), size) };
}

/// The kernel's number of the calling thread. It is read on every call: the child of a fork has
/// another.
pub(crate) fn thread() -> u32 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::gettid() }.cast_unsigned()
}

/// Takes or releases a futex with priority inheritance. Returns `None` where the kernel refuses.
pub(crate) fn futex(word: &AtomicU32, operation: c_int) -> Option<()> {
    loop {
        let operation = operation | libc::FUTEX_PRIVATE_FLAG;
        let no_limit: *const libc::timespec = null();
        // SAFETY: the word is valid for as long as the call, and both operations ignore or accept
        // the other arguments.
        let done = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, 0, no_limit) };
        if done == 0 {
            return Some(());
        }
        if !matches!(errno(), libc::EINTR | libc::EAGAIN) {
            return None;
        }
    }
}

/// Reads the command of this process into `out`; how many bytes that were.
pub(crate) fn command(out: &mut [u8]) -> usize {
    // SAFETY: the path ends with a zero.
    let fd = unsafe { libc::open(c"/proc/self/cmdline".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if fd < 0 {
        return 0;
    }
    // SAFETY: the slice is valid for writes of its length.
    let read = unsafe { libc::read(fd, out.as_mut_ptr().cast(), out.len()) };
    // SAFETY: the descriptor was opened above.
    unsafe { libc::close(fd) };
    usize::try_from(read).unwrap_or(0)
}

/// This process and its parent.
pub(crate) fn pids() -> (u32, u32) {
    // SAFETY: the call takes nothing and cannot fail.
    let own = unsafe { libc::getpid() };
    // SAFETY: as above.
    let parent = unsafe { libc::getppid() };
    (own.cast_unsigned(), parent.cast_unsigned())
}
