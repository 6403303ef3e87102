//! Processor times, and the calls that the recorder measures.
//!
//! A thread notes its own processor time and the process's whenever it begins a chunk and when it
//! ends; the process notes its own when it exits. Of some [`GAP`](crate::stream) calls, the
//! recorder measures one: how long the allocator took, and how long the recorder took to write the
//! event. So a reader knows what the allocator cost *in this program*, with its caches and its page
//! faults, and what the recorder added to the processor time.

use core::ptr::null_mut;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use core::sync::atomic::{AtomicU32, AtomicU64};

use super::{CLOCK, ENTERING, PROCESS, Process, RECORDING};
use crate::format::{Clocks, TICK_LOG2, head};
use crate::lock::Lock;
use crate::os;
use crate::stream::Stream;
use crate::tls::{self, BUSY, Words};

/// The cost of reading the clock, in picoseconds; 0 before it was measured. A child of a fork runs on the
/// same machine.
static COST: AtomicU32 = AtomicU32::new(0);
/// Processor time of the process at the start of the recording.
static START: AtomicU64 = AtomicU64::new(0);

/// Pairs of readings that the cost is the mean of, and how many of them, the shortest, count.
const PAIRS: usize = 128;
const COUNTED: usize = 96;

/// Returns what two readings of the clock add to the interval between them, in picoseconds.
///
/// The slowest quarter of the readings is left out: an interrupt is not the clock's cost.
pub(super) fn cost() -> u32 {
    let known = COST.load(Relaxed);
    if known > 0 {
        return known;
    }
    let mut pairs = [0; PAIRS];
    for pair in &mut pairs {
        let begin = os::clock();
        *pair = os::clock().saturating_sub(begin);
    }
    pairs.sort_unstable();
    let mean = pairs[..COUNTED].iter().sum::<u64>() * 1000 / COUNTED as u64;
    let cost = u32::try_from(mean).unwrap_or(u32::MAX).max(1);
    COST.store(cost, Relaxed);
    cost
}

/// Begins to count the process's processor time, and returns what it had before.
pub(super) fn start() -> u64 {
    let start = os::process_processor();
    START.store(start, Relaxed);
    start
}

impl Process {
    /// Whether the recorder may read processor times, which are system calls: no thread is in a
    /// sandbox or about to enter one, and the holder of the lock keeps it that way.
    pub(super) fn may_call(&self, _lock: &Lock<'_>) -> bool {
        self.state.load(Relaxed) == RECORDING && ENTERING.load(Relaxed) == 0
    }

    /// Notes the clocks of the calling thread in its stream. The thread entered the slow path at
    /// `since` of its processor time, if it did.
    pub(super) fn note_clocks(&self, stream: &Stream, number: usize, since: Option<u64>, lock: &Lock<'_>) {
        if !self.may_call(lock) && !cfg!(ephemera_weaken = "recorder_clocks_in_a_sandbox") {
            return;
        }
        let process = os::process_processor();
        let time = os::ticks_since(CLOCK.load(Relaxed)) << TICK_LOG2;
        let thread = os::thread_processor();
        let recorder = since.map_or(0, |since| thread.saturating_sub(since));
        stream.note_clocks(number, &Clocks { time, thread, process, recorder });
    }

    /// As [`Self::note_clocks`], for a thread that does not hold the lock.
    pub(super) fn note_clocks_now(&self, stream: &Stream, number: usize) {
        if let Some(lock) = Lock::take(&self.locked) {
            self.note_clocks(stream, number, None, &lock);
        }
    }
}

/// Has [`exits`] called when the program exits. Where that is refused, the trace has no end and
/// says so.
pub(super) fn see_the_exit() {
    // SAFETY: the function takes nothing, never unwinds, and stays loaded: the C library drops it
    // with this library.
    unsafe { libc::atexit(exits) };
}

/// Writes the end of the run and its processor time into the head, and the clocks of the thread
/// that exits.
extern "C" fn exits() {
    // ORDERING: Acquire. Pairs with the Release in `launch`. Publishes: the process and its
    // settings.
    let process = PROCESS.load(Acquire);
    if process.is_null() {
        return;
    }
    // SAFETY: a published process is never unmapped (I1).
    let process = unsafe { &*process };
    // ORDERING: Acquire. Pairs with the Release in `restart`. Publishes: the file of a child.
    if process.state.load(Acquire) != RECORDING {
        return;
    }
    let errno = os::errno();
    // A signal handler that calls from here on leaves the stream alone (I6).
    let words = tls::take();
    if words.stream == BUSY {
        return;
    }
    if let Some(lock) = Lock::take(&process.locked)
        && process.may_call(&lock)
    {
        if words.stream > BUSY {
            // SAFETY: what lies above the words for none is a stream of the process, which is never
            // unmapped (I1).
            process.note_clocks(unsafe { &*words.stream }, words.number, None, &lock);
        }
        process.tell_end();
    }
    tls::set_stream(words.stream);
    os::set_errno(errno);
}

impl Process {
    /// Writes into the head when the run ended, and its processor time until then.
    fn tell_end(&self) {
        let end = os::clock().saturating_sub(CLOCK.load(Relaxed));
        let processor = os::process_processor().saturating_sub(START.load(Relaxed));
        let base = self.base.load(Relaxed);
        for (at, value) in [(head::END_PROCESSOR, processor), (head::END, end)] {
            // SAFETY: the fields lie within the head, which stays mapped.
            let to = unsafe { base.add(at) };
            // SAFETY: the place is valid and aligned, and every access to it is atomic.
            unsafe { AtomicU64::from_ptr(to.cast()) }.store(value.to_le(), Relaxed);
        }
    }
}

/// Returns the calling thread's stream and number, where it has a stream.
#[inline]
fn own_stream() -> Option<(&'static Stream, usize)> {
    let Words { stream, number } = tls::get();
    // SAFETY: what lies above the words for none is a stream of the process, which is never
    // unmapped (I1).
    (stream > BUSY).then(|| (unsafe { &*stream }, number))
}

/// Whether this process records. In a sandbox it does not, and reading a clock may be a system
/// call.
fn records() -> bool {
    !PROCESS.load(Relaxed).is_null()
}

/// Measures a call, if it is one of those that the recorder measures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch {
    /// When the call began; 0 where it is not measured.
    begin: u64,
    middle: u64,
    /// Where the thread's stream stood when the call began.
    place: (*mut u8, usize),
}

impl Watch {
    /// Starts to measure, where this call is due.
    #[inline]
    pub(crate) fn start() -> Self {
        match own_stream().filter(|(stream, number)| stream.is_due(*number) && records()) {
            Some((stream, _)) => Self { place: stream.place(), middle: 0, begin: os::clock() },
            None => Self { begin: 0, middle: 0, place: (null_mut(), 0) },
        }
    }

    /// Marks the moment between the allocator and the recorder.
    #[inline]
    pub(crate) fn lap(&mut self) {
        if self.begin > 0 {
            self.middle = os::clock();
        }
    }

    /// Ends the measurement of a call in which the allocator came first.
    #[inline]
    pub(crate) fn end_recorder(self) {
        if self.begin > 0 {
            self.took(|first, second| (first, second));
        }
    }

    /// Ends the measurement of a call in which the recorder came first.
    #[inline]
    pub(crate) fn end_allocator(self) {
        if self.begin > 0 {
            self.took(|first, second| (second, first));
        }
    }

    /// Notes both intervals behind the event that they are about. A call that wrote no event, or
    /// began a chunk, is left out.
    #[cold]
    fn took(self, order: fn(u64, u64) -> (u64, u64)) {
        let end = os::clock();
        let first = self.middle.saturating_sub(self.begin);
        let (allocator, recorder) = order(first, end.saturating_sub(self.middle));
        // A signal handler that calls from here on leaves the stream alone (I6).
        let words = if cfg!(ephemera_weaken = "recorder_note_reentered") { tls::get() } else { tls::take() };
        if words.stream == BUSY {
            return;
        }
        if words.stream > BUSY {
            // SAFETY: what lies above the words for none is a stream of the process, which is never
            // unmapped (I1).
            let stream = unsafe { &*words.stream };
            let (chunk, at) = stream.place();
            if chunk == self.place.0 && at > self.place.1 {
                stream.note_took(words.number, allocator, recorder);
            }
        }
        tls::set_stream(words.stream);
    }
}

#[cfg(all(test, target_arch = "x86_64", not(miri)))]
mod tests;
