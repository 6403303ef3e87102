//! Creates the file of a trace, extends it, and maps the parts that threads write to.
//!
//! The recorder does not keep a descriptor of the file open, because a program may close
//! descriptors that it did not open. The program's next file then gets the same number, and a
//! recorder that kept the descriptor would change that file.
//!
//! * The recorder extends the file with `truncate`, which takes the file's path. `truncate` can
//!   also shorten a file, so the process's lock keeps two calls from overlapping.
//! * The recorder maps a new part from the *anchor*, a mapping of one page, usually the last one of
//!   the file. `mremap` with an old size of zero maps this page again, together with the requested
//!   part of the file after it.
//! * Before a packet is used, `MADV_POPULATE_WRITE` reserves the packet's space on the disk. That
//!   call reports a full disk, whereas a plain write to the mapping would raise `SIGBUS`. Kernels
//!   before 5.14 lack the call, so there the recorder opens the file once for each packet.

use core::ffi::CStr;
use core::ptr::null_mut;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicPtr, AtomicU64};

use crate::error::StartError;
use crate::format::{FILE_HEADER, PACKET, Stop};
use crate::os::{self, errno, failed};

/// The smallest step by which the file grows, in bytes, unless the limit or the disk allows only a
/// smaller step. A larger file grows by about its own size, at most by [`MOST_STEP`].
const LEAST_STEP: u64 = 128 << 10;
/// The largest step by which the file grows, in bytes.
const MOST_STEP: u64 = 4 << 20;
/// The maximum number of attempts at a system call ([`repeated`]).
const REPEATS: usize = 100;

/// The trace file of a process. In the child of a fork, all fields are zero, which means that there
/// is no file yet (I3). After the start of the recording, the fields change only under the
/// process's lock.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct TraceFile {
    /// The offset of the next packet in the file.
    next: AtomicU64,
    /// The address at which the next packet is mapped, if `next` is below `length`.
    window: AtomicPtr<u8>,
    /// The length of the part of the file that was mapped, in bytes: the header and whole packets.
    length: AtomicU64,
    /// The address of the anchor.
    anchor: AtomicPtr<u8>,
    /// The offset of the anchor in the file.
    anchor_at: AtomicU64,
    /// The device and the inode of the file.
    id: [AtomicU64; 2],
}

impl TraceFile {
    /// Creates the file, which must not exist, with space for the header and one packet. Returns
    /// the address of the header.
    pub(crate) fn make(&self, path: &CStr) -> Result<*mut u8, StartError> {
        let flags = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR | libc::O_CLOEXEC;
        // SAFETY: the path is NUL-terminated.
        let fd = unsafe { libc::open(path.as_ptr(), flags, 0o644) };
        if fd < 0 {
            return Err(failed("open"));
        }
        let made = self.map_first(path, fd);
        if self.is_id_of(of_descriptor(fd)) {
            close(fd);
        }
        if made.is_err() {
            // SAFETY: the path is NUL-terminated. Best effort: if the call fails, a file without a
            // header remains.
            unsafe { libc::unlink(path.as_ptr()) };
        }
        made
    }

    fn map_first(&self, path: &CStr, fd: i32) -> Result<*mut u8, StartError> {
        let first = (FILE_HEADER + PACKET) as u64;
        let (id, _) = of_path(path).ok_or_else(|| failed("stat"))?;
        self.id.iter().zip(id).for_each(|(to, from)| to.store(from, Relaxed));
        self.grow(path, first).map_err(|why| match why {
            Stop::FileSize => StartError::System { call: "truncate", errno: libc::EFBIG },
            _ => failed("truncate"),
        })?;
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: the kernel chooses the address, so the new mapping does not replace an existing
        // one.
        let base = unsafe { libc::mmap(null_mut(), first as usize, access, kind, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(failed("mmap"));
        }
        let base: *mut u8 = base.cast();
        self.next.store(FILE_HEADER as u64, Relaxed);
        // SAFETY: the header lies within the mapping.
        self.window.store(unsafe { base.add(FILE_HEADER) }, Relaxed);
        self.length.store(first, Relaxed);
        // By now, the descriptor may refer to another thread's file, and `mmap` may have mapped
        // that file.
        let usable = if self.is_id_of(of_descriptor(fd)) {
            self.reserve(path, base, 0, first as usize).and_then(|()| self.cast_anchor(base, 0))
        } else {
            Err(Stop::Path)
        };
        usable.map(|()| base).map_err(|why| {
            // SAFETY: this is the mapping from above. The recording does not start, so nothing uses
            // it.
            unsafe { os::unmap(base, first as usize) };
            match why {
                Stop::Disk => StartError::System { call: "madvise", errno: libc::ENOSPC },
                Stop::Memory => StartError::System { call: "mremap", errno: libc::ENOMEM },
                _ => StartError::System { call: "mmap", errno: libc::EBADF },
            }
        })
    }

    /// Returns the next packet, zeroed and with space on the disk, or the reason why the recording
    /// ends.
    pub(crate) fn packet(&self, path: &CStr, limit: u64) -> Result<*mut u8, Stop> {
        let at = self.next.load(Relaxed);
        let end = at + PACKET as u64;
        if end > limit && !weakened!("recorder_no_limit") {
            return Err(Stop::Limit);
        }
        if end > self.length.load(Relaxed) {
            let longer = (at + at.clamp(LEAST_STEP, MOST_STEP)).min(limit);
            let whole = longer - (longer - FILE_HEADER as u64) % PACKET as u64;
            // If a large step fails, the disk may still have space for one packet.
            self.extend(path, whole.max(end)).or_else(|_| self.extend(path, end))?;
        }
        let packet = self.window.load(Relaxed);
        self.reserve(path, packet, at, PACKET)?;
        self.next.store(end, Relaxed);
        // SAFETY: the packet lies within the window. Its end may be the window's end.
        self.window.store(unsafe { packet.add(PACKET) }, Relaxed);
        Ok(packet)
    }

    /// Extends the file to `to` bytes and maps the new part.
    fn extend(&self, path: &CStr, to: u64) -> Result<(), Stop> {
        self.grow(path, to)?;
        let (from, anchor_at) = (self.length.load(Relaxed), self.anchor_at.load(Relaxed));
        let at = duplicate(self.anchor.load(Relaxed), (to - anchor_at) as usize).ok_or(Stop::Memory)?;
        // The new mapping begins with the anchor's page, which also has another mapping.
        let known = (from - anchor_at) as usize;
        // SAFETY: the new mapping extends beyond the previous end of the file.
        self.window.store(unsafe { at.add(known) }, Relaxed);
        self.length.store(to, Relaxed);
        // If the page cannot be mapped again, the old anchor stays in use.
        let _ = self.cast_anchor(at, anchor_at);
        if page() == FILE_HEADER {
            // SAFETY: no stream uses these pages of the new mapping, which precede `window`.
            unsafe { os::unmap(at, known) };
        }
        Ok(())
    }

    /// Makes the last page of the file the anchor: maps that page again and unmaps the previous
    /// anchor. The file is mapped at `at` from offset `from` to its end.
    fn cast_anchor(&self, at: *mut u8, from: u64) -> Result<(), Stop> {
        let last = (self.length.load(Relaxed) - 1) / page() as u64 * page() as u64;
        // SAFETY: the mapping extends to the end of the file.
        let page_of = unsafe { at.add((last - from) as usize) };
        let anchor = duplicate(page_of, page()).ok_or(Stop::Memory)?;
        let before = self.anchor.swap(anchor, Relaxed);
        self.anchor_at.store(last, Relaxed);
        if !before.is_null() {
            // SAFETY: the new anchor has replaced this one, and no stream uses an anchor.
            unsafe { os::unmap(before, page()) };
        }
        Ok(())
    }

    /// Extends the file to at least `to` bytes, if `path` still names it. Otherwise, or if the
    /// system refuses, returns the reason why the recording ends.
    fn grow(&self, path: &CStr, to: u64) -> Result<(), Stop> {
        // Above this limit, the kernel would send `SIGXFSZ`, which ends the program.
        if to > most_bytes_of_a_file() {
            return Err(Stop::FileSize);
        }
        let Some((_, size)) = of_path(path).filter(|found| self.is_id_of(Some(*found))) else {
            return Err(Stop::Path);
        };
        let Ok(to) = libc::off_t::try_from(to) else { return Err(Stop::Disk) };
        if size >= to {
            return Ok(());
        }
        // SAFETY: the path is NUL-terminated.
        match repeated(|| i64::from(unsafe { libc::truncate(path.as_ptr(), to) })) {
            Ok(_) => Ok(()),
            Err(libc::EFBIG) => Err(Stop::FileSize),
            Err(libc::ENOSPC | libc::EDQUOT | libc::EIO) => Err(Stop::Disk),
            Err(_) => Err(Stop::Path),
        }
    }

    /// Reserves disk space for `size` zero bytes at `offset`, which are mapped at `at`.
    fn reserve(&self, path: &CStr, at: *mut u8, offset: u64, size: usize) -> Result<(), Stop> {
        if weakened!("recorder_unreserved") {
            return Ok(());
        }
        let skip = at.addr() % page();
        let start = at.wrapping_sub(skip).cast();
        // SAFETY: the pages are mapped, and the call does not change their bytes.
        match repeated(|| i64::from(unsafe { libc::madvise(start, size + skip, libc::MADV_POPULATE_WRITE) }))
        {
            Ok(_) => Ok(()),
            Err(libc::EFAULT) => Err(Stop::Disk),
            Err(_) => self.reserve_by_descriptor(path, offset, size),
        }
    }

    /// Reserves disk space through a descriptor, if the kernel cannot reserve it through a mapping.
    #[cold]
    fn reserve_by_descriptor(&self, path: &CStr, offset: u64, size: usize) -> Result<(), Stop> {
        if offset + size as u64 > most_bytes_of_a_file() {
            return Err(Stop::FileSize);
        }
        // SAFETY: the path is NUL-terminated.
        let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
        if fd < 0 {
            return Err(Stop::Path);
        }
        // If the descriptor now refers to another file, the recorder does not close it.
        if !self.is_id_of(of_descriptor(fd)) {
            return Err(Stop::Path);
        }
        let (offset, size) = (offset.cast_signed(), size as i64);
        // SAFETY: the call takes no pointer.
        let reserved = repeated(|| i64::from(unsafe { libc::fallocate(fd, 0, offset, size) }));
        // Some file systems cannot reserve space. They allocate space when bytes are written.
        let reserved = reserved.or_else(|_| write_zeros(fd, offset, size));
        close(fd);
        reserved.map(|_| ()).map_err(|_| Stop::Disk)
    }

    fn is_id_of(&self, found: Option<FileIdentity>) -> bool {
        if weakened!("recorder_any_file") {
            return true;
        }
        found.is_some_and(|(id, _)| self.id.iter().zip(id).all(|(own, other)| own.load(Relaxed) == other))
    }
}

/// Unmaps a packet. Does nothing if `packet` is null, or if pages are larger than 4 KiB.
///
/// # Safety
/// No stream uses `packet`, which is null or a packet of the trace, any more.
pub(crate) unsafe fn release(packet: *mut u8) {
    if !packet.is_null() && page() == FILE_HEADER {
        // SAFETY: a packet is whole pages of a mapping, and the caller guarantees that no stream
        // uses it any more.
        unsafe { os::unmap(packet, PACKET) };
    }
}

/// The device and the inode of a file, and its length.
type FileIdentity = ([u64; 2], i64);

fn of_path(path: &CStr) -> Option<FileIdentity> {
    // SAFETY: the path is NUL-terminated, and `stat_with` passes a valid pointer.
    stat_with(|place| unsafe { libc::stat(path.as_ptr(), place) })
}

fn of_descriptor(fd: i32) -> Option<FileIdentity> {
    // SAFETY: `stat_with` passes a valid pointer.
    stat_with(|place| unsafe { libc::fstat(fd, place) })
}

fn stat_with(call: impl FnOnce(*mut libc::stat) -> i32) -> Option<FileIdentity> {
    let mut found = core::mem::MaybeUninit::<libc::stat>::zeroed();
    if call(found.as_mut_ptr()) != 0 {
        return None;
    }
    // SAFETY: the structure has only numbers, which were zero before the call filled them.
    let found = unsafe { found.assume_init() };
    Some(([found.st_dev, found.st_ino], found.st_size))
}

/// Repeats a call while it fails with `EINTR` or `EAGAIN`, up to [`REPEATS`] times. Returns the
/// result of the last call, or its error number.
fn repeated(call: impl Fn() -> i64) -> Result<i64, i32> {
    for _ in 0..REPEATS {
        let returned = call();
        if returned >= 0 {
            return Ok(returned);
        }
        if !matches!(errno(), libc::EINTR | libc::EAGAIN) {
            break;
        }
    }
    Err(errno())
}

fn write_zeros(fd: i32, offset: i64, size: i64) -> Result<i64, i32> {
    static ZEROS: [u8; FILE_HEADER] = [0; FILE_HEADER];
    let mut done = 0;
    while done < size {
        let length = (size - done).min(FILE_HEADER as i64) as usize;
        // SAFETY: `ZEROS` is valid for reads of `length` bytes.
        done +=
            repeated(|| unsafe { libc::pwrite(fd, ZEROS.as_ptr().cast(), length, offset + done) } as i64)?;
    }
    Ok(done)
}

/// Maps `size` bytes of a file again, beginning with the page that is mapped at `page`. Returns the
/// new address, or `None` if the kernel refuses.
fn duplicate(page: *mut u8, size: usize) -> Option<*mut u8> {
    // SAFETY: the page belongs to a shared mapping. An old size of zero keeps that mapping and
    // creates a new one.
    let at = unsafe { libc::mremap(page.cast(), 0, size, libc::MREMAP_MAYMOVE) };
    (at != libc::MAP_FAILED).then_some(at.cast())
}

/// Returns the size of a page of the operating system, in bytes.
fn page() -> usize {
    // SAFETY: the call takes no pointer.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(FILE_HEADER)
}

/// Returns the maximum size in bytes of a file that this process may write.
fn most_bytes_of_a_file() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the pointer refers to a structure of the right type. If the call fails, the
    // structure keeps its contents.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    limit.rlim_cur
}

fn close(fd: i32) {
    // SAFETY: the descriptor is one that the caller opened.
    unsafe { libc::close(fd) };
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::{REPEATS, repeated};
    use crate::os::set_errno;

    /// Repeats a call that fails with each of these error numbers in turn, and then returns 7.
    /// Returns the result and the number of calls.
    fn after(errors: &[i32]) -> (Result<i64, i32>, usize) {
        let calls = Cell::new(0);
        let result = repeated(|| {
            let call = calls.replace(calls.get() + 1);
            errors.get(call).map_or(7, |error| {
                set_errno(*error);
                -1
            })
        });
        (result, calls.get())
    }

    #[test]
    fn an_interrupted_call_is_repeated() {
        assert_eq!(after(&[libc::EINTR, libc::EAGAIN, libc::EINTR]), (Ok(7), 4));
        assert_eq!(after(&[libc::EINTR, libc::ENOSPC]), (Err(libc::ENOSPC), 2));
        assert_eq!(after(&[libc::EINTR; REPEATS]), (Err(libc::EINTR), REPEATS));
    }
}
