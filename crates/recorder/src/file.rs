//! The trace's file: how it begins, how it grows, and which parts of it are mapped.
//!
//! After the beginning, nothing here needs a descriptor. Another thread may close every descriptor
//! that it does not know and open a file of its own under the same number; a call by descriptor
//! would then change that file.
//!
//! * The file grows by its path, while a lock is held: `truncate` may shorten a file, so the calls
//!   must not overtake one another.
//! * A new part is mapped from the *anchor*, the file's last mapped page. `mremap` with an old size
//!   of zero maps the same page again, and behind it as much of the file as it is told.
//! * A chunk gets its space on the disk before it is used, by `MADV_POPULATE_WRITE`. That call
//!   reports a full disk, where a plain write to the mapping raises `SIGBUS`. Kernels before 5.14
//!   do not know it; there the file is opened once for each chunk.

use core::ffi::CStr;
use core::ptr::null_mut;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicPtr, AtomicU64};

use crate::error::StartError;
use crate::format::{CHUNK, HEAD, Stop};
use crate::os::{self, errno, failed};

/// How the file grows: by as much as it has, between these.
const LEAST_STEP: u64 = 128 << 10;
const MOST_STEP: u64 = 4 << 20;
/// How often a call is repeated that a signal interrupted.
const REPEATS: usize = 100;

/// The file of a process. All zeros is none: what a fork leaves to the child (I3). Its fields
/// change under the process's lock alone.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct File {
    /// Offset of the next chunk.
    next: AtomicU64,
    /// Where that offset is mapped, if it lies below `length`.
    window: AtomicPtr<u8>,
    /// The file's length as far as it was mapped: whole chunks behind the head.
    length: AtomicU64,
    /// A mapped page of the file, and its offset.
    anchor: AtomicPtr<u8>,
    anchor_at: AtomicU64,
    /// Device and number of the file.
    id: [AtomicU64; 2],
}

impl File {
    /// Creates a file that did not exist, with room for the head and a chunk. Returns where the
    /// head is mapped.
    pub(crate) fn make(&self, path: &CStr) -> Result<*mut u8, StartError> {
        let flags = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR | libc::O_CLOEXEC;
        // SAFETY: the path ends with a zero.
        let fd = unsafe { libc::open(path.as_ptr(), flags, 0o644) };
        if fd < 0 {
            return Err(failed("open"));
        }
        let made = self.map_first(path, fd);
        if self.is_id_of(of_descriptor(fd)) {
            close(fd);
        }
        if made.is_err() {
            // SAFETY: as above. An empty file is no trace, and nobody else knows it.
            unsafe { libc::unlink(path.as_ptr()) };
        }
        made
    }

    fn map_first(&self, path: &CStr, fd: i32) -> Result<*mut u8, StartError> {
        let first = (HEAD + CHUNK) as u64;
        let (id, _) = of_path(path).ok_or_else(|| failed("stat"))?;
        self.id.iter().zip(id).for_each(|(to, from)| to.store(from, Relaxed));
        self.grow(path, first).map_err(|why| match why {
            Stop::FileSize => StartError::System { call: "truncate", errno: libc::EFBIG },
            _ => failed("truncate"),
        })?;
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping at no particular address touches nothing that exists.
        let base = unsafe { libc::mmap(null_mut(), first as usize, access, kind, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(failed("mmap"));
        }
        let base: *mut u8 = base.cast();
        self.next.store(HEAD as u64, Relaxed);
        // SAFETY: the head lies within the mapping.
        self.window.store(unsafe { base.add(HEAD) }, Relaxed);
        self.length.store(first, Relaxed);
        // Asked after the mapping: until then, the descriptor may have become another file's.
        let usable = if self.is_id_of(of_descriptor(fd)) {
            self.reserve(path, base, 0, first as usize).and_then(|()| self.cast_anchor(base, 0))
        } else {
            Err(Stop::Path)
        };
        usable.map(|()| base).map_err(|why| {
            os::unmap(base, first as usize);
            match why {
                Stop::Disk => StartError::System { call: "madvise", errno: libc::ENOSPC },
                Stop::Memory => StartError::System { call: "mremap", errno: libc::ENOMEM },
                _ => StartError::System { call: "mmap", errno: libc::EBADF },
            }
        })
    }

    /// Returns the next chunk, zeroed and with space on the disk, or why the recording ends there.
    pub(crate) fn chunk(&self, path: &CStr, limit: u64) -> Result<*mut u8, Stop> {
        let at = self.next.load(Relaxed);
        let end = at + CHUNK as u64;
        if end > limit && !cfg!(ephemera_weaken = "recorder_no_limit") {
            return Err(Stop::Limit);
        }
        if end > self.length.load(Relaxed) {
            let longer = (at + at.clamp(LEAST_STEP, MOST_STEP)).min(limit);
            let whole = longer - (longer - HEAD as u64) % CHUNK as u64;
            // Where a large step is refused, there may be room for a chunk.
            self.extend(path, whole.max(end)).or_else(|_| self.extend(path, end))?;
        }
        let chunk = self.window.load(Relaxed);
        self.reserve(path, chunk, at, CHUNK)?;
        self.next.store(end, Relaxed);
        // SAFETY: the chunk lies within the window, which may end there.
        self.window.store(unsafe { chunk.add(CHUNK) }, Relaxed);
        Ok(chunk)
    }

    /// Makes the file `to` bytes long and maps the new part.
    fn extend(&self, path: &CStr, to: u64) -> Result<(), Stop> {
        self.grow(path, to)?;
        let (from, anchor_at) = (self.length.load(Relaxed), self.anchor_at.load(Relaxed));
        let at = duplicate(self.anchor.load(Relaxed), (to - anchor_at) as usize).ok_or(Stop::Memory)?;
        // What the anchor has, other mappings have too.
        let known = (from - anchor_at) as usize;
        // SAFETY: the new mapping reaches beyond what was known.
        self.window.store(unsafe { at.add(known) }, Relaxed);
        self.length.store(to, Relaxed);
        // The old anchor serves on where there is no new one.
        let _ = self.cast_anchor(at, anchor_at);
        if page() == HEAD {
            os::unmap(at, known);
        }
        Ok(())
    }

    /// Maps the last page once more, which `at` maps from offset `from` on, and unmaps the anchor
    /// before.
    fn cast_anchor(&self, at: *mut u8, from: u64) -> Result<(), Stop> {
        let last = (self.length.load(Relaxed) - 1) / page() as u64 * page() as u64;
        // SAFETY: the mapping reaches to the file's end.
        let page_of = unsafe { at.add((last - from) as usize) };
        let anchor = duplicate(page_of, page()).ok_or(Stop::Memory)?;
        let before = self.anchor.swap(anchor, Relaxed);
        self.anchor_at.store(last, Relaxed);
        if !before.is_null() {
            os::unmap(before, page());
        }
        Ok(())
    }

    /// Makes the file at `path` at least `to` bytes long, if it is this file.
    fn grow(&self, path: &CStr, to: u64) -> Result<(), Stop> {
        // Beyond this limit the kernel would send SIGXFSZ, which ends the program.
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
        // SAFETY: the path ends with a zero.
        match repeated(|| i64::from(unsafe { libc::truncate(path.as_ptr(), to) })) {
            Ok(_) => Ok(()),
            Err(libc::EFBIG) => Err(Stop::FileSize),
            Err(libc::ENOSPC | libc::EDQUOT | libc::EIO) => Err(Stop::Disk),
            Err(_) => Err(Stop::Path),
        }
    }

    /// Has the disk reserve space for `size` bytes at `offset`, which are mapped at `at` and zero.
    fn reserve(&self, path: &CStr, at: *mut u8, offset: u64, size: usize) -> Result<(), Stop> {
        if cfg!(ephemera_weaken = "recorder_unreserved") {
            return Ok(());
        }
        let skip = at.addr() % page();
        let start = at.wrapping_sub(skip).cast();
        // SAFETY: the pages are mapped, and the call changes no byte of them.
        match repeated(|| i64::from(unsafe { libc::madvise(start, size + skip, libc::MADV_POPULATE_WRITE) }))
        {
            Ok(_) => Ok(()),
            Err(libc::EFAULT) => Err(Stop::Disk),
            Err(_) => self.reserve_by_descriptor(path, offset, size),
        }
    }

    /// The same for kernels that cannot do it through the mapping.
    #[cold]
    fn reserve_by_descriptor(&self, path: &CStr, offset: u64, size: usize) -> Result<(), Stop> {
        if offset + size as u64 > most_bytes_of_a_file() {
            return Err(Stop::FileSize);
        }
        // SAFETY: the path ends with a zero.
        let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
        if fd < 0 {
            return Err(Stop::Path);
        }
        // A descriptor of another file is left alone, also where the recorder opened it.
        if !self.is_id_of(of_descriptor(fd)) {
            return Err(Stop::Path);
        }
        let (offset, size) = (offset.cast_signed(), size as i64);
        // SAFETY: the call takes numbers alone.
        let reserved = repeated(|| i64::from(unsafe { libc::fallocate(fd, 0, offset, size) }));
        // Some file systems cannot reserve space. They give it to what is written.
        let reserved = reserved.or_else(|_| write_zeros(fd, offset, size));
        close(fd);
        reserved.map(|_| ()).map_err(|_| Stop::Disk)
    }

    fn is_id_of(&self, found: Option<Found>) -> bool {
        if cfg!(ephemera_weaken = "recorder_any_file") {
            return true;
        }
        found.is_some_and(|(id, _)| self.id.iter().zip(id).all(|(own, other)| own.load(Relaxed) == other))
    }
}

/// Unmaps a chunk that no stream writes to any more.
pub(crate) fn release(chunk: *mut u8) {
    if !chunk.is_null() && page() == HEAD {
        os::unmap(chunk, CHUNK);
    }
}

/// Device and number of a file, and its length.
type Found = ([u64; 2], i64);

fn of_path(path: &CStr) -> Option<Found> {
    // SAFETY: the path ends with a zero, the place is valid.
    stat_with(|place| unsafe { libc::stat(path.as_ptr(), place) })
}

fn of_descriptor(fd: i32) -> Option<Found> {
    // SAFETY: the place is valid.
    stat_with(|place| unsafe { libc::fstat(fd, place) })
}

fn stat_with(call: impl FnOnce(*mut libc::stat) -> i32) -> Option<Found> {
    let mut found = core::mem::MaybeUninit::<libc::stat>::zeroed();
    if call(found.as_mut_ptr()) != 0 {
        return None;
    }
    // SAFETY: the structure consists of numbers, which were zero before the call filled them.
    let found = unsafe { found.assume_init() };
    Some(([found.st_dev, found.st_ino], found.st_size))
}

/// Repeats a call that a signal interrupts. Returns what it returned, or its error number.
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
    static ZEROS: [u8; HEAD] = [0; HEAD];
    let mut done = 0;
    while done < size {
        let length = (size - done).min(HEAD as i64) as usize;
        // SAFETY: the zeros are as long as that.
        done +=
            repeated(|| unsafe { libc::pwrite(fd, ZEROS.as_ptr().cast(), length, offset + done) } as i64)?;
    }
    Ok(done)
}

/// Maps `size` bytes of the file that has a page at `page`, from that page on.
fn duplicate(page: *mut u8, size: usize) -> Option<*mut u8> {
    // SAFETY: the page belongs to a shared mapping. An old size of zero leaves it where it is and
    // makes a new mapping.
    let at = unsafe { libc::mremap(page.cast(), 0, size, libc::MREMAP_MAYMOVE) };
    (at != libc::MAP_FAILED).then_some(at.cast())
}

/// Bytes of a page.
fn page() -> usize {
    // SAFETY: the call takes a number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(HEAD)
}

/// How large this process may make a file.
fn most_bytes_of_a_file() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the pointer is to a structure of the right type. Where the call fails, the structure
    // stays as it is.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    limit.rlim_cur
}

fn close(fd: i32) {
    // SAFETY: the descriptor is one that the caller opened.
    unsafe { libc::close(fd) };
}
