//! The recording of a process: its file, and what happens at a fork and at the limit.
//!
//! `lease` has what happens at a thread's beginning and end, `clocks` the processor times and the measured calls.

use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

use crate::error::StartError;
use crate::format::{self, CHUNK, HEAD, Origin, Stop, head};
use crate::lock::Lock;
use crate::os;
use crate::stream::{Call, Stream};
use crate::tls::{self, BUSY, Words};

use self::lease::leave;

pub(crate) mod clocks;
mod lease;

/// Threads that can write at a time.
const STREAMS: usize = 4096;
/// How the file grows: by as much as it has, between these.
const LEAST_STEP: u64 = 128 << 10;
const MOST_STEP: u64 = 4 << 20;
/// Bytes of a path, with its suffix and the zero at its end.
const PATH: usize = 2048;
/// Bytes that a suffix may take.
const SUFFIX: usize = 24;
/// Programs that one process may execute one after another.
const IMAGES: u32 = 10_000;

/// States of a [`Process`]: zero is what a fork leaves.
const WIPED: u32 = 0;
const RECORDING: u32 = 1;
const STOPPED: u32 = 2;

/// What a fork must not hand down: the kernel zeroes it in the child (I3).
#[repr(C)]
struct Process {
    state: AtomicU32,
    /// Held while streams change hands and while the file grows.
    locked: AtomicBool,
    /// The mapped file.
    base: AtomicPtr<u8>,
    /// Where the next chunk is.
    next: AtomicU64,
    /// How long the file is.
    length: AtomicU64,
    /// Head of the list of streams that nobody holds, by index plus one.
    free: AtomicU32,
    /// Streams that were ever held.
    made: AtomicU32,
    streams: [Stream; STREAMS],
}

static PROCESS: AtomicPtr<Process> = AtomicPtr::new(core::ptr::null_mut());
static STARTED: AtomicBool = AtomicBool::new(false);
/// The number of the next event.
static SEQUENCE: AtomicU64 = AtomicU64::new(0);
/// Threads counted so far.
static THREADS: AtomicUsize = AtomicUsize::new(0);
/// The monotonic clock at the start.
static CLOCK: AtomicU64 = AtomicU64::new(0);
/// Bytes that are mapped, most of them beyond the file's end.
static LIMIT: AtomicUsize = AtomicUsize::new(0);
/// The key whose destructor gives a thread's stream back.
static KEY: AtomicU32 = AtomicU32::new(0);
/// The mapping once more: a child gives the parent's back.
static MAPPED: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
/// The path that was asked for.
static ASKED: Text = Text(UnsafeCell::new([0; PATH]));
/// The path of this process's file.
static FILE: Text = Text(UnsafeCell::new([0; PATH]));

/// A path, ended by zero.
struct Text(UnsafeCell<[u8; PATH]>);

// SAFETY: written by `start` before `PROCESS` is published, and by the one thread of a forked child (I3); read otherwise.
unsafe impl Sync for Text {}

impl Text {
    fn get(&self) -> &CStr {
        // SAFETY: nobody writes now, as said at the `Sync`.
        let bytes = unsafe { &*self.0.get() };
        CStr::from_bytes_until_nul(bytes).unwrap_or_default()
    }

    /// Sets the text to `path` and `suffix`, which fit.
    ///
    /// # Safety
    ///
    /// Nobody else reads or writes it.
    unsafe fn set(&self, path: &[u8], suffix: &[u8]) {
        // SAFETY: the caller says so.
        let bytes = unsafe { &mut *self.0.get() };
        let ends = [path, suffix, &[0]].into_iter().flatten();
        bytes.iter_mut().zip(ends).for_each(|(to, from)| *to = *from);
    }
}

/// Records one call, where this process records.
#[inline]
pub(crate) fn record(call: &Call) {
    // ORDERING: Acquire. Pairs with the Release in `launch`. Publishes: the zeroed process and its settings.
    let process = PROCESS.load(Acquire);
    if process.is_null() {
        return;
    }
    let words = tls::get();
    if words.stream > BUSY {
        // SAFETY: what lies above the words for none is a stream of the process, which is never unmapped (I1).
        let stream = unsafe { &*words.stream };
        if stream.write(words.number, CLOCK.load(Relaxed), &SEQUENCE, call) {
            return;
        }
    }
    // SAFETY: as above; all fields of a process are atomics.
    record_slow(unsafe { &*process }, words, call);
}

/// Finds the thread a stream with room, and writes to it.
#[cold]
#[inline(never)]
fn record_slow(process: &Process, words: Words, call: &Call) {
    // ORDERING: Acquire. Pairs with the Release in `restart`. Publishes: the child's file.
    if words.stream == BUSY || process.state.load(Acquire) == STOPPED {
        return;
    }
    let errno = os::errno();
    let number = match words.number {
        0 => THREADS.fetch_add(1, Relaxed) + 1,
        number => number,
    };
    tls::set(Words { stream: BUSY, number });
    let stream = process.write(words.stream, number, call);
    tls::set(Words { stream, number });
    os::set_errno(errno);
}

impl Process {
    /// The next chunk of the file.
    fn claim(&self) -> Option<*mut u8> {
        let at = self.next.fetch_add(CHUNK as u64, Relaxed);
        let end = at + CHUNK as u64;
        if end > LIMIT.load(Relaxed) as u64 && !cfg!(ephemera_weaken = "recorder_no_limit") {
            self.stop(Stop::Limit);
            return None;
        }
        let lock = Lock::take(&self.locked);
        let length = self.length.load(Relaxed);
        if end > length {
            let step = length.clamp(LEAST_STEP, MOST_STEP);
            let longer = end.max(length + step).min(LIMIT.load(Relaxed) as u64);
            // Where there is no space for a large step, there may be for a chunk.
            let extend = |longer| os::extend(FILE.get(), longer).map(|()| longer);
            match extend(longer).or_else(|_| extend(end)) {
                Ok(length) => self.length.store(length, Relaxed),
                Err(why) => {
                    self.stop(why);
                    return None;
                }
            }
        }
        drop(lock);
        // SAFETY: the chunk ends within the limit, which is how much is mapped.
        Some(unsafe { self.base.load(Relaxed).add(at as usize) })
    }

    /// Ends the recording; the head says why and from where on.
    fn stop(&self, why: Stop) {
        if self.state.swap(STOPPED, Relaxed) != RECORDING {
            return;
        }
        let base = self.base.load(Relaxed);
        let put = |at: usize, bytes: &[u8]| {
            // SAFETY: the fields lie within the head.
            let to = unsafe { base.add(at) };
            // SAFETY: as above; only who stopped first writes here.
            unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        };
        put(head::STOP_SEQUENCE, &SEQUENCE.load(Relaxed).to_le_bytes());
        put(head::STOP, &(why as u32).to_le_bytes());
    }

    /// Gives a child of a fork a file of its own. There is one thread: a fork takes no others along.
    #[cold]
    fn restart(&self) {
        let limit = LIMIT.load(Relaxed);
        os::unmap(MAPPED.load(Relaxed), limit);
        MAPPED.store(core::ptr::null_mut(), Relaxed);
        let opened = self.open(Origin::Fork, limit).is_ok();
        // ORDERING: Release. Pairs with the Acquire in `record_slow` and in `exits`. Publishes: the file, for threads to come.
        self.state.store(if opened { RECORDING } else { STOPPED }, Release);
    }

    /// Makes a file for this process and maps it.
    fn open(&self, origin: Origin, limit: usize) -> Result<(), StartError> {
        let (pid, parent) = os::pids();
        let first = (HEAD + CHUNK) as u64;
        let mut made = Err(StartError::System { call: "open", errno: libc::EEXIST });
        for image in 0..IMAGES {
            let mut suffix = [0; SUFFIX];
            let length = write_suffix(&mut suffix, pid, image);
            // SAFETY: nobody else reads it: `start` has not published the process, or this is a child's only thread.
            unsafe { FILE.set(ASKED.get().to_bytes(), &suffix[..length]) };
            made = os::create(FILE.get(), first, limit);
            if !matches!(made, Err(StartError::System { errno: libc::EEXIST, .. })) {
                break;
            }
        }
        let base = made?;
        CLOCK.store(os::clock(), Relaxed);
        let mut bytes = [0; HEAD];
        let command = os::command(&mut bytes[head::COMMAND..head::START_PROCESSOR]) as u32;
        bytes[..8].copy_from_slice(&format::MAGIC);
        let words = [
            (head::VERSION, format::VERSION),
            (head::CHUNK, CHUNK as u32),
            (head::PID, pid),
            (head::PARENT, parent),
            (head::ORIGIN, origin as u32),
            (head::COMMAND_LENGTH, command),
        ];
        for (at, word) in words {
            bytes[at..][..4].copy_from_slice(&word.to_le_bytes());
        }
        bytes[head::CLOCK..][..8].copy_from_slice(&CLOCK.load(Relaxed).to_le_bytes());
        bytes[head::LIMIT..][..8].copy_from_slice(&(limit as u64).to_le_bytes());
        bytes[head::CLOCK_COST..][..4].copy_from_slice(&clocks::cost().to_le_bytes());
        bytes[head::START_PROCESSOR..][..8].copy_from_slice(&clocks::start().to_le_bytes());
        // SAFETY: the mapping begins with the head, which the file has room for, and is nobody else's yet.
        unsafe { base.copy_from_nonoverlapping(bytes.as_ptr(), HEAD) };
        MAPPED.store(base, Relaxed);
        self.base.store(base, Relaxed);
        self.length.store(first, Relaxed);
        self.next.store(HEAD as u64, Relaxed);
        Ok(())
    }
}

/// Writes `.pid`, and `.image` where the process had another image before; the length.
fn write_suffix(out: &mut [u8; SUFFIX], pid: u32, image: u32) -> usize {
    let mut at = 0;
    for (number, wanted) in [(pid, true), (image, image > 0)] {
        if !wanted {
            continue;
        }
        out[at] = b'.';
        let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
        let mut rest = number;
        for place in (1..=digits).rev() {
            out[at + place] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        at += 1 + digits;
    }
    at
}

/// Starts recording this process into `path`, a dot and the number of the process, in at most `limit` bytes.
///
/// # Errors
///
/// Where the process records already, where the path or the limit is no use, and where the system refuses the file or the
/// memory.
pub fn start(path: &CStr, limit: u64) -> Result<(), StartError> {
    launch(path.to_bytes(), limit, Origin::Call)
}

/// As [`start`].
pub(crate) fn launch(path: &[u8], limit: u64, origin: Origin) -> Result<(), StartError> {
    let least = (HEAD + CHUNK) as u64;
    let mapped = usize::try_from(limit).unwrap_or(usize::MAX >> 16).next_multiple_of(HEAD);
    if limit < least {
        return Err(StartError::Limit { least });
    }
    if path.is_empty() || path.len() + SUFFIX >= PATH {
        return Err(StartError::Path { length: path.len() });
    }
    if STARTED.swap(true, Relaxed) {
        return Err(StartError::Twice);
    }
    let started = prepare(path, mapped, origin);
    if started.is_err() {
        STARTED.store(false, Relaxed);
    }
    started
}

fn prepare(path: &[u8], mapped: usize, origin: Origin) -> Result<(), StartError> {
    let process: *mut Process = os::map_wiped(size_of::<Process>())?.cast();
    // SAFETY: the mapping is large enough, aligned to a page, and zeros are a process without a file; it is never given
    // back once published (I1).
    let known = unsafe { &*process };
    // SAFETY: `STARTED` was false: nobody else is here, and nobody reads before `PROCESS` is published.
    unsafe { ASKED.set(path, &[]) };
    let mut key = 0;
    // SAFETY: the place is valid, and `leave` takes whatever is set.
    let made = unsafe { libc::pthread_key_create(&raw mut key, Some(leave)) };
    let opened = if made == 0 {
        KEY.store(key, Relaxed);
        LIMIT.store(mapped, Relaxed);
        known.open(origin, mapped)
    } else {
        Err(StartError::System { call: "pthread_key_create", errno: made })
    };
    if opened.is_err() {
        os::unmap(process.cast(), size_of::<Process>());
        return opened;
    }
    known.state.store(RECORDING, Relaxed);
    clocks::see_the_exit();
    // ORDERING: Release. Pairs with the Acquire in `record` and in `exits`. Publishes: the process and its settings.
    PROCESS.store(process, Release);
    Ok(())
}

#[cfg(test)]
mod tests;
