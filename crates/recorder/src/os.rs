//! The recorder's calls to the kernel: memory, clocks, IDs, the command line, and the futex of the
//! lock. No function here allocates.
//!
//! The module `file` has the calls for the trace's file.

use core::ffi::c_int;
use core::ptr::{null, null_mut};
use core::sync::atomic::AtomicU32;

use crate::error::StartError;
use crate::format::TICK_LOG2;

/// Returns the calling thread's error number (`errno`).
pub(crate) fn errno() -> i32 {
    // SAFETY: the function has no preconditions.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: the pointer refers to a word of the calling thread, which is always valid.
    unsafe { *place }
}

/// Sets the calling thread's error number (`errno`).
pub(crate) fn set_errno(value: i32) {
    // SAFETY: the function has no preconditions.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: the pointer refers to a word of the calling thread, which is always valid.
    unsafe { *place = value }
}

/// Returns the error of the system call `call`, which has just failed.
pub(crate) fn failed(call: &'static str) -> StartError {
    StartError::System { call, errno: errno() }
}

/// Returns the monotonic clock in nanoseconds.
#[inline]
pub(crate) fn clock() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC)
}

/// Returns the processor time of the calling thread in nanoseconds. Makes a system call.
pub(crate) fn thread_processor() -> u64 {
    read_clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns the processor time of the process in nanoseconds. Makes a system call.
pub(crate) fn process_processor() -> u64 {
    read_clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

#[inline]
fn read_clock(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer refers to a structure of the right type. If the kernel refuses the
    // clock, the structure stays zero.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Returns the ticks of the monotonic clock since `start`, which is in nanoseconds.
#[inline]
pub(crate) fn ticks_since(start: u64) -> u64 {
    clock().saturating_sub(start) >> TICK_LOG2
}

/// Maps `size` bytes of zeroed memory. The kernel zeroes this memory again in the child of a fork.
pub(crate) fn map_wiped(size: usize) -> Result<*mut u8, StartError> {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: the kernel chooses the address, so the new mapping does not replace an existing one.
    let at = unsafe { libc::mmap(null_mut(), size, access, kind, -1, 0) };
    if at == libc::MAP_FAILED {
        return Err(failed("mmap"));
    }
    if weakened!("recorder_fork_inherits") {
        return Ok(at.cast());
    }
    // SAFETY: the mapping was created above with this size.
    if unsafe { libc::madvise(at, size, libc::MADV_WIPEONFORK) } != 0 {
        let error = failed("madvise(MADV_WIPEONFORK)");
        // SAFETY: the mapping was created above, and nothing else uses it.
        unsafe { unmap(at.cast(), size) };
        return Err(error);
    }
    Ok(at.cast())
}

/// Unmaps memory.
///
/// # Safety
/// The `size` bytes from `at` on are a mapping of the recorder, or whole pages of one, which no
/// thread uses any more.
pub(crate) unsafe fn unmap(at: *mut u8, size: usize) {
    // SAFETY: the bytes are whole pages that the recorder mapped, and the caller guarantees that no
    // thread uses them any more.
    unsafe { libc::munmap(at.cast(), size) };
}

/// Returns the calling thread's ID in the kernel. Asks the kernel on each call, because the thread
/// has a different ID in the child of a fork.
pub(crate) fn thread() -> u32 {
    // SAFETY: the function has no preconditions and cannot fail.
    unsafe { libc::gettid() }.cast_unsigned()
}

/// Takes or releases a futex with priority inheritance. Returns `None` if the kernel refuses.
pub(crate) fn futex(word: &AtomicU32, operation: c_int) -> Option<()> {
    loop {
        let operation = operation | libc::FUTEX_PRIVATE_FLAG;
        let no_limit: *const libc::timespec = null();
        // SAFETY: the word outlives the call. Both operations accept or ignore the other
        // arguments.
        let done = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, 0, no_limit) };
        if done == 0 {
            return Some(());
        }
        if !matches!(errno(), libc::EINTR | libc::EAGAIN) {
            return None;
        }
    }
}

/// Reads the command line of this process into `out`. Returns the number of bytes read, or 0 if the
/// kernel refuses.
pub(crate) fn command(out: &mut [u8]) -> usize {
    // SAFETY: the path is NUL-terminated.
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

/// Returns the IDs of this process and of its parent.
pub(crate) fn pids() -> (u32, u32) {
    // SAFETY: the function has no preconditions and cannot fail.
    let own = unsafe { libc::getpid() };
    // SAFETY: the function has no preconditions and cannot fail.
    let parent = unsafe { libc::getppid() };
    (own.cast_unsigned(), parent.cast_unsigned())
}
