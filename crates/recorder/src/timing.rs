//! Collects the notes of a trace: processor times, the allocator's time, and the recorder's own.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use crate::format::{Clocks, op};

/// The minimum length of a *long* interval, in nanoseconds. In a long interval, the thread may have
/// waited for a processor, so the thread's processor time decides whether the interval counts.
const LONG: u64 = 10_000;

/// Sums over measured intervals, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TimeSample {
    /// The number of measured intervals.
    pub count: u64,
    /// The sum of the intervals.
    pub sum: f64,
    /// The sum of the squares of the intervals.
    pub squares: f64,
}

impl TimeSample {
    fn add(&mut self, ns: u64) {
        self.count += 1;
        self.sum += ns as f64;
        self.squares += ns as f64 * ns as f64;
    }

    /// Adds the intervals of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.squares += other.squares;
    }

    /// Returns the mean, or 0 if there are no intervals.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.sum / self.count.max(1) as f64
    }

    /// Returns the standard error of the mean.
    #[must_use]
    pub fn error(&self) -> f64 {
        let count = self.count.max(1) as f64;
        ((self.squares / count - self.mean().powi(2)).max(0.0) / count).sqrt()
    }
}

/// The number of events of one operation, and the times of the measured events.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OperationTimes {
    /// The number of events.
    pub events: u64,
    /// The measured times in the allocator.
    pub allocator: TimeSample,
    /// The measured times in the recorder.
    pub recorder: TimeSample,
}

/// The first and the last note of a thread's clocks, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThreadClocks {
    /// The first note.
    pub first: Clocks,
    /// The last note.
    pub last: Clocks,
    /// The long intervals since the last note: for each, the operation, whether the recorder and
    /// not the allocator took the time, and the length in nanoseconds.
    waiting: Vec<(u8, bool, u64)>,
}

/// The times in the part of a trace that has been read: processor times of threads and of the
/// process, and measured times in the allocator and in the recorder.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timing {
    kinds: [OperationTimes; 5],
    /// The clocks of threads, by the thread's number. They are zero if the thread has not noted
    /// them.
    pub threads: BTreeMap<u32, ThreadClocks>,
    /// The latest note of the process's processor time: its time and the processor time, in
    /// nanoseconds.
    pub process: Option<(u64, u64)>,
    /// Processor time that the threads spent on getting packets, in nanoseconds.
    pub slow: u64,
    /// The number of long intervals that are left out because the thread may have waited in them.
    pub left_out: u64,
}

impl Timing {
    /// Returns the operations that take time in the allocator: allocations, zeroed allocations,
    /// frees, and returns from `realloc`.
    pub fn kinds(&self) -> impl Iterator<Item = &OperationTimes> {
        [op::ALLOC, op::ZEROED, op::FREE, op::RESIZED].into_iter().map(|op| &self.kinds[slot(op)])
    }

    /// Returns the sums over all measured times in the recorder.
    #[must_use]
    pub fn recorder(&self) -> TimeSample {
        let mut sum = TimeSample::default();
        self.kinds.iter().for_each(|kind| sum.merge(&kind.recorder));
        sum
    }

    pub(crate) fn event(&mut self, op: u8) {
        self.kinds[slot(op)].events += 1;
    }

    /// Adds the nanoseconds of an event in the allocator and in the recorder, in this order. A long
    /// interval waits for the thread's next note of clocks.
    pub(crate) fn took(&mut self, thread: u32, op: u8, took: [u64; 2]) {
        for (recorder, ns) in [(false, took[0]), (true, took[1])] {
            if ns < LONG {
                self.sample(op, recorder).add(ns);
            } else {
                self.threads.entry(thread).or_default().waiting.push((op, recorder, ns));
            }
        }
    }

    /// Adds a note of a thread's clocks. Decides about the long intervals that were measured since
    /// the thread's previous note. An interval counts only if it is more than twice the total time
    /// for which the thread waited between the two notes.
    pub(crate) fn clocks(&mut self, thread: u32, clocks: &Clocks) {
        self.slow = self.slow.saturating_add(clocks.recorder);
        if self.process.is_none_or(|(time, _)| time <= clocks.time) {
            self.process = Some((clocks.time, clocks.process));
        }
        let known = self.threads.entry(thread).or_default();
        let passed = clocks.time.saturating_sub(known.last.time);
        let mut waited = passed.saturating_sub(clocks.thread.saturating_sub(known.last.thread));
        if known.first == Clocks::default() {
            known.first = *clocks;
            // For the first note of a thread, the earlier wait is unknown.
            waited = u64::MAX;
        }
        known.last = *clocks;
        for (op, recorder, ns) in core::mem::take(&mut known.waiting) {
            if ns > waited.saturating_mul(2) {
                self.sample(op, recorder).add(ns);
            } else {
                self.left_out += 1;
            }
        }
    }

    fn sample(&mut self, op: u8, recorder: bool) -> &mut TimeSample {
        let kind = &mut self.kinds[slot(op)];
        if recorder { &mut kind.recorder } else { &mut kind.allocator }
    }
}

/// Returns the index of an operation in `Timing::kinds`.
fn slot(op: u8) -> usize {
    usize::from(op.saturating_sub(op::ALLOC)).min(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: u64, thread: u64) -> Clocks {
        Clocks { time, thread, process: thread, recorder: 0 }
    }

    #[test]
    fn long_calls_count_if_the_thread_had_a_processor() {
        let mut timing = Timing::default();
        timing.took(1, op::FREE, [2_000_000, 50_000]);
        timing.clocks(1, &at(32, 32));
        assert_eq!(timing.left_out, 2, "nothing is known of the time before the first note");
        timing.took(1, op::FREE, [2_000_000, 40]);
        timing.clocks(1, &at(3_000_000, 2_900_000));
        timing.took(1, op::FREE, [2_000_000, 50]);
        timing.clocks(1, &at(6_000_000, 3_900_000));
        let free = timing.kinds[slot(op::FREE)];
        assert_eq!((free.allocator.count, timing.left_out), (1, 3), "the second one was spent waiting");
        assert_eq!((free.recorder.count, free.recorder.mean()), (2, 45.0));
    }
}
