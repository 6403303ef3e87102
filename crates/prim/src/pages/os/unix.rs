//! The system calls of Unix-like systems.

use core::ptr::{self, NonNull};

use libc::{MAP_ANON, MAP_FAILED, MAP_PRIVATE, PROT_READ, PROT_WRITE};

/// The flags of every mapping. With `MAP_NORESERVE`, the system does not reserve memory for pages
/// that nothing has touched yet.
#[cfg(any(target_os = "linux", target_os = "android"))]
const FLAGS: libc::c_int = MAP_PRIVATE | MAP_ANON | libc::MAP_NORESERVE;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const FLAGS: libc::c_int = MAP_PRIVATE | MAP_ANON;

pub(super) fn map(len: usize, align: usize) -> Option<NonNull<u8>> {
    // Mappings of one length are usually adjacent, so the first attempt is usually aligned.
    let block = map_anywhere(len)?;
    if block.addr().get() % align == 0 {
        return Some(block);
    }
    // SAFETY: the mapping is new, and nothing uses it.
    unsafe { give_up(block, len) };
    let longer = len.checked_add(align)?;
    let block = map_anywhere(longer)?;
    let head = block.addr().get().next_multiple_of(align) - block.addr().get();
    // SAFETY: the mapping has `len + align` bytes, and the head is shorter than `align`.
    let aligned = unsafe { block.add(head) };
    // SAFETY: the aligned block ends within the mapping.
    let tail = unsafe { aligned.add(len) };
    // SAFETY: the new mapping contains the bytes in front of the aligned block; nothing uses them.
    unsafe { give_up(block, head) };
    // SAFETY: the new mapping contains the bytes after the aligned block; nothing uses them.
    unsafe { give_up(tail, longer - head - len) };
    Some(aligned)
}

fn map_anywhere(len: usize) -> Option<NonNull<u8>> {
    // SAFETY: the call creates an anonymous mapping at an address that the system chooses.
    let block =
        keeping_errno(|| unsafe { libc::mmap(ptr::null_mut(), len, PROT_READ | PROT_WRITE, FLAGS, -1, 0) });
    if block == MAP_FAILED { None } else { NonNull::new(block.cast()) }
}

/// Unmaps bytes that nothing has touched. If the system refuses, only their addresses are lost.
///
/// # Safety
/// The bytes are part of a mapping, and nothing uses them.
unsafe fn give_up(block: NonNull<u8>, len: usize) {
    if len != 0 {
        // SAFETY: the bytes are part of a mapping, and nothing uses them.
        let _ = unsafe { unmap(block, len) };
    }
}

pub(super) unsafe fn unmap(block: NonNull<u8>, len: usize) -> bool {
    // SAFETY: the caller owns these mapped bytes and gives them up.
    keeping_errno(|| unsafe { libc::munmap(block.as_ptr().cast(), len) == 0 })
}

/// Makes a system call, and on Linux, Apple's systems and FreeBSD restores `errno` afterwards. A
/// program may free memory between a failed call and its read of `errno`, and that free may make a
/// system call.
fn keeping_errno<T>(call: impl FnOnce() -> T) -> T {
    #[cfg(any(target_os = "linux", target_vendor = "apple", target_os = "freebsd"))]
    {
        #[cfg(target_os = "linux")]
        use libc::__errno_location as errno;
        #[cfg(not(target_os = "linux"))]
        use libc::__error as errno;
        // SAFETY: the C library returns the address of this thread's word.
        let word = unsafe { errno() };
        // SAFETY: the word is valid and belongs to this thread.
        let before = unsafe { word.read() };
        let answer = call();
        // SAFETY: the word is valid and belongs to this thread.
        unsafe { word.write(before) };
        answer
    }
    #[cfg(not(any(target_os = "linux", target_vendor = "apple", target_os = "freebsd")))]
    call()
}

pub(super) const PURGED_IS_ZERO: bool = true;

/// Purges by `MADV_DONTNEED`: Linux drops the pages at once, and the next access finds zeros.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) unsafe fn purge(block: NonNull<u8>, len: usize) -> bool {
    // SAFETY: the caller owns these accessible pages and does not need their content.
    keeping_errno(|| unsafe { libc::madvise(block.as_ptr().cast(), len, libc::MADV_DONTNEED) == 0 })
}

/// Purges by mapping new pages over the old ones, because other systems promise zeros only for a
/// new mapping.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) unsafe fn purge(block: NonNull<u8>, len: usize) -> bool {
    let (at, flags) = (block.as_ptr().cast(), FLAGS | libc::MAP_FIXED);
    // SAFETY: the caller owns these accessible pages and does not need their content.
    keeping_errno(|| unsafe { libc::mmap(at, len, PROT_READ | PROT_WRITE, flags, -1, 0) != MAP_FAILED })
}

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) unsafe fn remap(
    block: NonNull<u8>,
    (old, new): (usize, usize),
    may_move: bool,
) -> Option<NonNull<u8>> {
    let flags = if may_move { libc::MREMAP_MAYMOVE } else { 0 };
    // SAFETY: the caller owns the whole mapping.
    let moved = keeping_errno(|| unsafe { libc::mremap(block.as_ptr().cast(), old, new, flags) });
    if moved == MAP_FAILED { None } else { NonNull::new(moved.cast()) }
}

/// Shrinks a mapping by unmapping its tail. Returns `None` if the new length is larger or the
/// system refuses.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) unsafe fn remap(
    block: NonNull<u8>,
    (old, new): (usize, usize),
    _may_move: bool,
) -> Option<NonNull<u8>> {
    if new > old {
        return None;
    }
    // SAFETY: `new <= old`, so the tail starts inside the mapping or at its end.
    let tail = unsafe { block.add(new) };
    // SAFETY: the caller gives up the tail.
    unsafe { unmap(tail, old - new) }.then_some(block)
}

pub(super) fn advise_huge_pages(block: NonNull<u8>, len: usize, wanted: bool) {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        let advice = if wanted { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
        // SAFETY: the call advises the system about a mapping and does not change its content. On a
        // system without huge pages, the call fails without effect.
        let _ = keeping_errno(|| unsafe { libc::madvise(block.as_ptr().cast(), len, advice) });
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _ = (block, len, wanted);
}

pub(super) fn page_size() -> usize {
    // SAFETY: the call has no preconditions.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(super::GRAIN)
}

/// The clock of [`now_ms`]. The kernel updates this clock at each tick, and a thread reads the
/// clock with a few loads.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC_COARSE;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC;

/// Returns the time of a monotonic clock in milliseconds. The time wraps, and may lag by a tick of
/// the system's clock.
pub(crate) fn now_ms() -> usize {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writes. If the system refuses, the time stays zero.
    unsafe { libc::clock_gettime(CLOCK, &raw mut time) };
    (time.tv_sec as usize).wrapping_mul(1_000).wrapping_add(time.tv_nsec as usize / 1_000_000)
}

/// The numbers of `membarrier`'s commands. The crate `libc` does not define them for every C
/// library.
#[cfg(target_os = "linux")]
const PRIVATE_EXPEDITED: libc::c_long = 1 << 3;
#[cfg(target_os = "linux")]
const REGISTER_PRIVATE_EXPEDITED: libc::c_long = 1 << 4;

#[cfg(target_os = "linux")]
pub(super) fn fence_all_threads() -> bool {
    // Only the first call in a process registers the process. A forked child is registered too, or
    // registers here.
    membarrier(PRIVATE_EXPEDITED) || membarrier(REGISTER_PRIVATE_EXPEDITED) && membarrier(PRIVATE_EXPEDITED)
}

#[cfg(target_os = "linux")]
fn membarrier(command: libc::c_long) -> bool {
    keeping_errno(|| {
        // SAFETY: the call takes only numbers, and does not write the process's memory.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    })
}
