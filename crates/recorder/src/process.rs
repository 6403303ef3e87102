//! The recording of a process: its state, how it records one call, and what a fork does to it.
//!
//! `launch` starts a recording, and `lease` leases streams to threads. `clocks` writes processor
//! times and measures calls. `sandbox` ends the recording when the program restricts its system
//! calls.

use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

use crate::file::TraceFile;
use crate::format::{MOST_THREADS, Origin, Stop, header};
use crate::list::StreamList;
use crate::lock::Lock;
use crate::os;
use crate::stream::{Call, Stream};
use crate::tls::{self, BUSY};

pub use self::launch::start;

pub(crate) mod clocks;
pub(crate) mod launch;
mod lease;
#[cfg(all(feature = "preload", target_arch = "x86_64"))]
mod sandbox;

/// The maximum number of threads that can hold a stream at one time.
const STREAMS: usize = 4096;
/// The size of a [`PathText`] in bytes, with the suffix and the NUL at its end.
const PATH: usize = 2048;

/// The states of a [`Recording`]. In the child of a fork, the kernel sets the state to zero.
const WIPED: u32 = 0;
const RECORDING: u32 = 1;
const STOPPED: u32 = 2;

/// The state of a recording. In the child of a fork, the kernel sets all of it to zero (I3).
#[repr(C)]
struct Recording {
    state: AtomicU32,
    /// The word of the process's [`Lock`].
    locked: AtomicU32,
    /// The number of threads that are about to enter a sandbox. The file grows only while there is
    /// none. The child of a fork lacks these threads, and starts with zero.
    entering: AtomicU32,
    file: TraceFile,
    /// The address of the file's header; null until the file exists.
    base: AtomicPtr<u8>,
    /// The ID of the process that the file belongs to. The child of a `vfork` finds its parent's ID
    /// here.
    pid: AtomicU32,
    /// The number of calls that the recorder dropped.
    dropped: AtomicU64,
    /// The streams that threads have returned.
    free: StreamList,
    /// The number of streams that have been leased at least once.
    made: AtomicU32,
    streams: [Stream; STREAMS],
}

static PROCESS: AtomicPtr<Recording> = AtomicPtr::new(core::ptr::null_mut());
/// The sequence number of the next event.
static SEQUENCE: AtomicU64 = AtomicU64::new(0);
/// The number of threads that the recorder has numbered so far.
static THREADS: AtomicUsize = AtomicUsize::new(0);
/// The monotonic clock at the start of the recording, in nanoseconds.
static CLOCK: AtomicU64 = AtomicU64::new(0);
/// The maximum size of the file, in bytes.
static LIMIT: AtomicUsize = AtomicUsize::new(0);
/// The key whose destructor returns a thread's stream.
static KEY: AtomicU32 = AtomicU32::new(0);
/// The requested path, without the suffix.
static ASKED: PathText = PathText(UnsafeCell::new([0; PATH]));
/// The path of this process's file.
static FILE: PathText = PathText(UnsafeCell::new([0; PATH]));

/// A NUL-terminated path.
struct PathText(UnsafeCell<[u8; PATH]>);

// SAFETY: `prepare` writes the text before it publishes `PROCESS`. Afterwards, only the holder of
// the process's lock reads or writes the text.
unsafe impl Sync for PathText {}

impl PathText {
    fn get(&self) -> &CStr {
        // SAFETY: the caller holds the process's lock or has not published the process, so no
        // other thread writes.
        let bytes = unsafe { &*self.0.get() };
        CStr::from_bytes_until_nul(bytes).unwrap_or_default()
    }

    /// Sets the text to `path` followed by `suffix`, which must fit together with a NUL.
    ///
    /// # Safety
    ///
    /// No other thread reads or writes the text during the call.
    unsafe fn set(&self, path: &[u8], suffix: &[u8]) {
        // SAFETY: the caller guarantees that no other thread reads or writes the text.
        let bytes = unsafe { &mut *self.0.get() };
        let ends = [path, suffix, &[0]].into_iter().flatten();
        bytes.iter_mut().zip(ends).for_each(|(to, from)| *to = *from);
    }
}

/// Records one call if this process is recording.
#[inline]
pub(crate) fn record(call: &Call) {
    // ORDERING: Acquire. Pairs with the Release in `prepare`: this thread sees the zeroed recording
    // and its settings. Also pairs with the Release in `into_sandbox`: every event that happens
    // after a missed call has a sequence number beyond the end of the trace.
    let process = PROCESS.load(Acquire);
    if process.is_null() {
        return;
    }
    let words = tls::get();
    if words.stream > BUSY {
        // From here on, a signal handler that calls the allocator finds the thread busy, and
        // leaves the stream alone (I6).
        if !weakened!("recorder_reentered") {
            tls::set_stream(BUSY);
        }
        // SAFETY: every value above `BUSY` is the address of a stream, and streams are never
        // unmapped (I1).
        let stream = unsafe { &*words.stream };
        let written = stream.write(words.number, CLOCK.load(Relaxed), &SEQUENCE, call);
        tls::set_stream(words.stream);
        if written {
            return;
        }
    }
    // SAFETY: a published recording is never unmapped (I1), and all its fields are atomics.
    record_slow(unsafe { &*process }, call);
}

/// Records a call of a thread that does not hold a stream, or whose stream has no room. Finds a
/// stream with room and writes the call to that stream, or drops the call and counts it. Does
/// nothing if the recording has ended.
#[cold]
#[inline(never)]
fn record_slow(process: &Recording, call: &Call) {
    // ORDERING: Acquire. Pairs with the Release in `restart`: this thread sees the child's file.
    // Pairs also with the Release in `stop`: this thread's later events are beyond the end of the
    // trace.
    if process.state.load(Acquire) == STOPPED {
        return;
    }
    let words = tls::take();
    if words.stream == BUSY {
        // A signal handler interrupted the recorder on this thread.
        process.drop_call();
        return;
    }
    let errno = os::errno();
    let number = match words.number {
        0 => THREADS.fetch_add(1, Relaxed) + 1,
        number => number,
    };
    tls::set_number(number);
    let stream = if number as u64 > MOST_THREADS && !weakened!("recorder_endless_threads") {
        process.stop(Stop::Threads);
        words.stream
    } else {
        process.write(words.stream, number, call)
    };
    tls::set_stream(stream);
    os::set_errno(errno);
}

impl Recording {
    /// Returns the next packet of the file, or `None` if the recording is not running or a thread
    /// is about to enter a sandbox. If the file cannot grow, ends the recording and returns `None`.
    fn claim(&self, _lock: &Lock<'_>) -> Option<*mut u8> {
        // The recording may have stopped, or the process may have forked, since the caller
        // checked.
        // ORDERING: Acquire. Pairs with the Release in `stop`: this thread's later events are
        // beyond the end of the trace.
        if self.state.load(Acquire) != RECORDING || self.entering.load(Relaxed) > 0 {
            return None;
        }
        let packet = self.file.packet(FILE.get(), LIMIT.load(Relaxed) as u64);
        packet.map_err(|why| self.stop(why)).ok()
    }

    /// Counts a call that the recorder drops.
    #[cold]
    fn drop_call(&self) {
        self.dropped.fetch_add(1, Relaxed);
        self.tell_dropped();
    }

    /// Writes the number of dropped calls into the header, if the file exists.
    fn tell_dropped(&self) {
        // ORDERING: Acquire. Pairs with the Release in `open`: this thread sees the mapped header.
        let base = self.base.load(Acquire);
        if base.is_null() {
            return;
        }
        // SAFETY: the field lies within the header.
        let place = unsafe { base.add(header::DROPPED) };
        // SAFETY: the field is valid and aligned, and every access to it is atomic.
        let place = unsafe { AtomicU64::from_ptr(place.cast()) };
        place.fetch_max(self.dropped.load(Relaxed).to_le(), Relaxed);
    }

    /// Ends the recording. Writes into the header the reason and the *end of the trace*: the
    /// sequence number from which on events may be missing.
    ///
    /// A thread that finds the recording stopped does not record its call. The end is read before
    /// the state changes, so every event that the program orders after that call is beyond the end.
    fn stop(&self, why: Stop) {
        let end = SEQUENCE.load(Relaxed);
        // ORDERING: AcqRel. The Acquire pairs with the Release in `restart`: this thread sees the
        // child's file. It also pairs with the Release of an earlier `stop`: this thread's later
        // events are beyond the end that the earlier call read. The Release pairs with the Acquire
        // in `record_slow`, `write`, `claim` and `stop`. Publishes: the read of `end`.
        if self.state.swap(STOPPED, AcqRel) != RECORDING {
            return;
        }
        let base = self.base.load(Relaxed);
        if base.is_null() {
            // A signal handler has just forked, and the child does not have a file yet.
            return;
        }
        let put = |at: usize, bytes: &[u8]| {
            // SAFETY: the fields lie within the header.
            let to = unsafe { base.add(at) };
            // SAFETY: the field lies within the header. Only the thread that changed the state
            // writes it.
            unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        };
        put(header::STOP_SEQUENCE, &end.to_le_bytes());
        put(header::STOP, &(why as u32).to_le_bytes());
    }

    /// Gives the child of a fork its own file, unless another thread of the child has already done
    /// so. If the file cannot be created, the child does not record.
    ///
    /// The parent's mappings stay: a signal handler may have forked while its thread wrote to a
    /// packet. When the handler returns, the thread continues to write to that packet.
    #[cold]
    fn restart(&self) {
        let Some(_lock) = Lock::take(&self.locked) else { return };
        if self.state.load(Relaxed) != WIPED && !weakened!("recorder_restarts_twice") {
            return;
        }
        // If a signal handler forked while its thread returned a stream, the list may not be
        // empty.
        self.free.clear();
        self.made.store(0, Relaxed);
        let opened = self.open(Origin::Fork, LIMIT.load(Relaxed)).is_ok();
        let state = if opened { RECORDING } else { STOPPED };
        // ORDERING: Release. Pairs with the Acquire in `record_slow`, `write`, `stop` and `exits`.
        // Publishes: the file, to the other threads. The exchange fails if the recording was
        // stopped.
        let _ = self.state.compare_exchange(WIPED, state, Release, Relaxed);
    }
}

#[cfg(test)]
mod tests;
