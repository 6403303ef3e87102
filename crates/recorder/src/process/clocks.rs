//! Writes processor times to the trace, and measures a sample of the calls.
//!
//! A thread writes its own processor time and the processor time of the process when it begins a
//! packet, when it leases a stream for more than one call, and when it ends. The thread that calls
//! `exit` also writes the processor time of the process into the header. The recorder also measures
//! one call in 32, on average: the time in the allocator, and the time that the recorder took to
//! write the event. From these times, a reader learns the allocator's cost *in this program*, with
//! its caches and page faults, and the recorder's part of the processor time.

use core::ptr::null_mut;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use core::sync::atomic::{AtomicU32, AtomicU64};

use super::{CLOCK, PROCESS, RECORDING, Recording};
use crate::format::{Clocks, TICK_LOG2, header};
use crate::lock::Lock;
use crate::os;
use crate::stream::Stream;
use crate::tls::{self, BUSY, ThreadWords};

/// The cost of two clock readings in picoseconds, as [`cost`] measured it; 0 before the
/// measurement. The child of a fork keeps the value, because it runs on the same machine.
static COST: AtomicU32 = AtomicU32::new(0);
/// The process's processor time at the start of the recording, in nanoseconds.
static START: AtomicU64 = AtomicU64::new(0);

/// The number of pairs of clock readings that [`cost`] takes.
const PAIRS: usize = 128;
/// The number of pairs that [`cost`] averages: those with the shortest intervals.
const COUNTED: usize = 96;

/// Returns how many picoseconds two readings of the clock add to the interval between them.
///
/// The mean leaves out the slowest quarter of the pairs, because interrupts may have delayed them.
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

/// Stores the process's processor time as the start of the recording, and returns it in
/// nanoseconds.
pub(super) fn start() -> u64 {
    let start = os::process_processor();
    START.store(start, Relaxed);
    start
}

impl Recording {
    /// Returns whether the recorder may make the system calls that read processor times. If so,
    /// no thread is in a sandbox, and none enters one while the lock is held.
    pub(super) fn may_call(&self, _lock: &Lock<'_>) -> bool {
        self.state.load(Relaxed) == RECORDING && self.entering.load(Relaxed) == 0
    }

    /// Writes a note of the calling thread's clocks if [`Self::may_call`] allows it. `since` is the
    /// thread's processor time when it began to get its packet. If `since` is `None`, the note's
    /// recorder time is 0.
    pub(super) fn note_clocks(&self, stream: &Stream, number: usize, since: Option<u64>, lock: &Lock<'_>) {
        if !self.may_call(lock) && !weakened!("recorder_clocks_in_a_sandbox") {
            return;
        }
        let process = os::process_processor();
        let time = os::ticks_since(CLOCK.load(Relaxed)) << TICK_LOG2;
        let thread = os::thread_processor();
        let recorder = since.map_or(0, |since| thread.saturating_sub(since));
        stream.note_clocks(number, &Clocks { time, thread, process, recorder });
    }

    /// Takes the lock and calls [`Self::note_clocks`] without `since`. Does nothing if the kernel
    /// refuses the lock.
    pub(super) fn note_clocks_now(&self, stream: &Stream, number: usize) {
        if let Some(lock) = Lock::take(&self.locked) {
            self.note_clocks(stream, number, None, &lock);
        }
    }
}

/// Registers [`exits`] to run when the program exits. If the C library refuses, the trace lacks
/// the end of the run.
pub(super) fn register_exits() {
    // SAFETY: `exits` takes no argument and never unwinds. If the C library unloads this library,
    // it calls `exits` first.
    unsafe { libc::atexit(exits) };
}

/// Writes the end of the run and its processor time into the header, and a note of the exiting
/// thread's clocks if the thread has a stream. Writes nothing if the recording does not run, if a
/// signal handler that interrupted the recorder calls `exit`, if the kernel refuses the lock, or if
/// [`Recording::may_call`] forbids the system calls.
extern "C" fn exits() {
    // ORDERING: Acquire. Pairs with the Release in `prepare`: this thread sees the recording and
    // its settings.
    let process = PROCESS.load(Acquire);
    if process.is_null() {
        return;
    }
    // SAFETY: a published recording is never unmapped (I1).
    let process = unsafe { &*process };
    // ORDERING: Acquire. Pairs with the Release in `restart`: this thread sees the file of a child.
    if process.state.load(Acquire) != RECORDING {
        return;
    }
    let errno = os::errno();
    // From here on, a signal handler that calls the allocator leaves the stream alone (I6).
    let words = tls::take();
    if words.stream == BUSY {
        return;
    }
    if let Some(lock) = Lock::take(&process.locked)
        && process.may_call(&lock)
    {
        if words.stream > BUSY {
            // SAFETY: every value above `BUSY` is the address of a stream, and streams are never
            // unmapped (I1).
            process.note_clocks(unsafe { &*words.stream }, words.number, None, &lock);
        }
        process.tell_end();
    }
    tls::set_stream(words.stream);
    os::set_errno(errno);
}

impl Recording {
    /// Writes the end of the run and its processor time into the header.
    fn tell_end(&self) {
        let end = os::clock().saturating_sub(CLOCK.load(Relaxed));
        let processor = os::process_processor().saturating_sub(START.load(Relaxed));
        let base = self.base.load(Relaxed);
        for (at, value) in [(header::END_PROCESSOR, processor), (header::END, end)] {
            // SAFETY: the fields lie within the header, which stays mapped.
            let to = unsafe { base.add(at) };
            // SAFETY: the field is valid and aligned, and every access to it is atomic.
            unsafe { AtomicU64::from_ptr(to.cast()) }.store(value.to_le(), Relaxed);
        }
    }
}

/// Returns the calling thread's stream and number, if it has a stream.
#[inline]
fn own_stream() -> Option<(&'static Stream, usize)> {
    let ThreadWords { stream, number } = tls::get();
    // SAFETY: every value above `BUSY` is the address of a stream, and streams are never unmapped
    // (I1).
    (stream > BUSY).then(|| (unsafe { &*stream }, number))
}

/// Returns whether a recording was started and the program has not entered a sandbox since.
/// Otherwise, the recorder must not read a clock, because a reading may be a system call that a
/// sandbox forbids.
fn records() -> bool {
    !PROCESS.load(Relaxed).is_null()
}

/// The clock readings of one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallTimer {
    /// The time at which the call began, in nanoseconds, or 0 if the call is not measured.
    begin: u64,
    middle: u64,
    /// The packet and the offset of the thread's stream when the call began.
    place: (*mut u8, usize),
}

impl CallTimer {
    /// Starts the measurement if this call is due to be measured.
    #[inline]
    pub(crate) fn start() -> Self {
        match own_stream().filter(|(stream, number)| stream.is_due(*number) && records()) {
            Some((stream, _)) => Self { place: stream.place(), middle: 0, begin: os::clock() },
            None => Self { begin: 0, middle: 0, place: (null_mut(), 0) },
        }
    }

    /// Marks the moment between the allocator's part of the call and the recorder's part.
    #[inline]
    pub(crate) fn lap(&mut self) {
        if self.begin > 0 {
            self.middle = os::clock();
        }
    }

    /// Ends the measurement of a call that entered the allocator first.
    #[inline]
    pub(crate) fn end_recorder(self) {
        if self.begin > 0 {
            self.took(|first, second| (first, second));
        }
    }

    /// Ends the measurement of a call that entered the recorder first.
    #[inline]
    pub(crate) fn end_allocator(self) {
        if self.begin > 0 {
            self.took(|first, second| (second, first));
        }
    }

    /// Writes a note of the allocator's and the recorder's time after the call's event. Writes
    /// nothing if the call wrote no event or began a packet.
    #[cold]
    fn took(self, order: fn(u64, u64) -> (u64, u64)) {
        let end = os::clock();
        let first = self.middle.saturating_sub(self.begin);
        let (allocator, recorder) = order(first, end.saturating_sub(self.middle));
        // From here on, a signal handler that calls the allocator leaves the stream alone (I6).
        let words = if weakened!("recorder_note_reentered") { tls::get() } else { tls::take() };
        if words.stream == BUSY {
            return;
        }
        if words.stream > BUSY {
            // SAFETY: every value above `BUSY` is the address of a stream, and streams are never
            // unmapped (I1).
            let stream = unsafe { &*words.stream };
            let (packet, at) = stream.place();
            if packet == self.place.0 && at > self.place.1 {
                stream.note_took(words.number, allocator, recorder);
            }
        }
        tls::set_stream(words.stream);
    }
}

#[cfg(all(test, target_arch = "x86_64", not(miri)))]
mod tests;
