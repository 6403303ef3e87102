//! What the recorder asks of the kernel: mappings, the file, the clock. Nothing here allocates.

use core::ffi::CStr;
use core::ptr::null_mut;

use crate::error::StartError;
use crate::format::{Stop, TICK_LOG2};

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
    // SAFETY: the pointer is to a structure of the right type. Where a clock is refused, the structure stays zero.
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

/// Maps the first `size` bytes of a file that may still be shorter.
fn map_file(fd: i32, size: usize) -> Result<*mut u8, StartError> {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_NORESERVE);
    // SAFETY: as in `map_wiped`.
    let at = unsafe { libc::mmap(null_mut(), size, access, kind, fd, 0) };
    if at == libc::MAP_FAILED { Err(failed("mmap")) } else { Ok(at.cast()) }
}

/// Gives a mapping back.
pub(crate) fn unmap(at: *mut u8, size: usize) {
    // SAFETY: the callers hand a whole mapping of ours over, which nothing uses any more.
    unsafe { libc::munmap(at.cast(), size) };
}

/// Creates a file that did not exist, `first` bytes long, and maps `size` bytes of it.
pub(crate) fn create(path: &CStr, first: u64, size: usize) -> Result<*mut u8, StartError> {
    let flags = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR | libc::O_CLOEXEC;
    // SAFETY: the path ends with a zero.
    let fd = unsafe { libc::open(path.as_ptr(), flags, 0o644) };
    if fd < 0 {
        return Err(failed("open"));
    }
    let made = match extend_fd(fd, first) {
        Ok(()) => map_file(fd, size),
        Err(Stop::FileSize) => Err(StartError::System { call: "fallocate", errno: libc::EFBIG }),
        Err(_) => Err(failed("fallocate")),
    };
    close(fd);
    if made.is_err() {
        // SAFETY: as above. An empty file is no trace, and nobody else knows it.
        unsafe { libc::unlink(path.as_ptr()) };
    }
    made
}

/// Makes the file at `path` `length` bytes long, with all of them on the disk, so that a write to the mapping cannot fail. The
/// file is opened anew each time: a program may close every descriptor that it does not know, and open its own there.
pub(crate) fn extend(path: &CStr, length: u64) -> Result<(), Stop> {
    // SAFETY: the path ends with a zero.
    let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    if fd < 0 {
        return Err(Stop::Path);
    }
    let done = extend_fd(fd, length);
    close(fd);
    done
}

fn extend_fd(fd: i32, length: u64) -> Result<(), Stop> {
    // Beyond this limit the kernel would send SIGXFSZ, which ends the program.
    if length > most_bytes_of_a_file() {
        return Err(Stop::FileSize);
    }
    let Ok(length) = libc::off_t::try_from(length) else { return Err(Stop::Disk) };
    // SAFETY: the call takes numbers alone.
    if unsafe { libc::fallocate(fd, 0, 0, length) } == 0 {
        return Ok(());
    }
    // Some file systems cannot reserve space; there the file only gets its length.
    // SAFETY: the call takes numbers alone.
    if errno() == libc::EOPNOTSUPP && unsafe { libc::ftruncate(fd, length) } == 0 {
        return Ok(());
    }
    Err(Stop::Disk)
}

/// How large this process may make a file.
fn most_bytes_of_a_file() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the pointer is to a structure of the right type. Where the call fails, the structure stays as it is.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    limit.rlim_cur
}

fn close(fd: i32) {
    // SAFETY: the descriptor is one that the caller opened.
    unsafe { libc::close(fd) };
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
    close(fd);
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
