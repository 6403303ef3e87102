//! Computes the allocator's share of the processor time and of the wall time.
//!
//! A trace can contain three measurements: the processor time of the process, and for some calls
//! the time in the allocator and the time in the recorder. The share is the allocator's time
//! divided by the processor time without the recorder's part. None of the three is exact, so the
//! share is an [`Interval`]. The constants below determine the width of the interval. Neither end
//! is a bound, because the share leaves out how the placement of blocks affects the caches.
#![forbid(unsafe_code)]

use super::costs::CostSource;
use super::profile::TraceProfile;
use super::units::{duration, grouped};
use ephemera_recorder::{OperationTimes, TimeSample};
use serde::Serialize;

/// The minimum number of measured calls for an estimate.
const LEAST: u64 = 50;
/// The time that measuring adds to an interval, as a multiple of the clock's cost. The factors give
/// the low, the likely and the high estimate of the allocator's time. The largest factor comes
/// first, because the product is subtracted from the measured time. Measuring may add less than the
/// clock's cost, because a short call overlaps with the clock's own work. It may add more, because
/// the processor predicts a measured call badly. These factors, `AROUND` and `UNMEASURED` were
/// estimated from six programs on one machine.
const CLOCK: [f64; 3] = [1.3, 1.0, 0.6];
/// The shortest time that an estimate assumes for a call, in nanoseconds: about fifty
/// instructions.
const FLOOR: f64 = 3.0;
/// Nanoseconds that the recorder takes for a call outside the measured interval: for the jump to
/// the real function and the count of calls.
const AROUND: [f64; 3] = [1.0, 4.0, 8.0];
/// The recorder's time in an unmeasured call, as a multiple of its time in a measured call.
const UNMEASURED: [f64; 3] = [0.9, 1.05, 1.3];
/// Nanoseconds that the recorder takes to write the note of a measured call, in addition to three
/// clock readings.
const NOTE: f64 = 15.0;
/// Nanoseconds that the recorder takes for an event, if the trace does not contain its cost. On
/// one machine, the recorder took 65 ns in a loop of `malloc`.
const ASSUMED_RECORDER: [f64; 3] = [0.0, 60.0, 100.0];
/// The distance from a sampled figure to each end of its interval, in standard errors.
const ERRORS: f64 = 2.0;
/// The allocator's time in the program, as a multiple of its time in a replay, where the caches
/// have other contents.
const REPLAY: [f64; 3] = [2.0 / 3.0, 1.0, 1.5];

/// The largest accepted difference from a profiler's figure, as a share of that figure.
const THIRD: f64 = 1.0 / 3.0;

/// A figure with a low and a high end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Interval {
    /// The low end.
    pub low: f64,
    /// The most likely figure.
    pub mid: f64,
    /// The high end.
    pub high: f64,
}

impl Interval {
    fn of([low, mid, high]: [f64; 3]) -> Self {
        Self { low, mid, high }
    }

    /// Returns whether two conditions hold: the likely figure differs from `known` by at most a
    /// third of `known`, and `known` lies within the interval if each end moves outwards by a third
    /// of itself.
    pub fn is_near(self, known: f64) -> bool {
        (self.mid - known).abs() <= known * THIRD
            && (self.low * (1.0 - THIRD)..=self.high * (1.0 + THIRD)).contains(&known)
    }

    fn map(self, each: impl Fn(f64) -> f64) -> Self {
        Self { low: each(self.low), mid: each(self.mid), high: each(self.high) }
    }

    /// Subtracts `part`: its high end from the low end, and its low end from the high end. No
    /// figure becomes less than the same figure of `least`.
    fn without(self, part: Self, least: Self) -> Self {
        Self {
            low: (self.low - part.high).max(least.low),
            mid: (self.mid - part.mid).max(least.mid),
            high: (self.high - part.low).max(least.high),
        }
    }

    /// Divides by `whole`, and limits the quotients to 1. A quotient by 0 is 1. The low end of the
    /// result is the low end of `self` divided by the high end of `whole`.
    fn share(self, whole: Self) -> Self {
        let of = |part: f64, whole: f64| if whole > 0.0 { (part / whole).min(1.0) } else { 1.0 };
        Self { low: of(self.low, whole.high), mid: of(self.mid, whole.mid), high: of(self.high, whole.low) }
    }
}

/// The allocator's time, and the times that it is compared with, in nanoseconds.
#[derive(Clone, Debug, Serialize)]
pub struct TimeShare {
    /// The time in the allocator, summed over all threads.
    pub heap: Interval,
    /// The time in the recorder, summed over all threads.
    pub recorder: Interval,
    /// The program's processor time without the recorder, or `None` if the trace has no processor
    /// times.
    pub processor: Option<Interval>,
    /// The processor time of the recorded run, with the recorder, or `None` if the trace has no
    /// processor times.
    pub recorded: Option<Interval>,
    /// The wall time of the program's threads without the recorder, or `None` if the trace has no
    /// times.
    pub wall: Option<Interval>,
    /// The origin of the allocator's time.
    pub source: CostSource,
    /// The reasons for the width of the intervals.
    pub reasons: Vec<String>,
}

impl TimeShare {
    /// Computes the shares of a profile. `table` has the time of all calls according to the
    /// harness's tables, with warm and with cold caches. `replay` is their time in a replay. All
    /// times are in nanoseconds.
    pub(super) fn of(profile: &TraceProfile, table: [f64; 2], replay: Option<f64>) -> Self {
        let mut reasons = Vec::new();
        let (heap, source) = allocator(profile, table, replay, &mut reasons);
        let recorder = recorder(profile, &mut reasons);
        let recorded = recorded(profile, &mut reasons);
        // The recorder can take at most the processor time that the allocator leaves.
        let recorder =
            recorded.map_or(recorder, |all| recorder.map(|ns| ns.min(all.high - heap.low).max(0.0)));
        let processor = recorded.map(|recorded| recorded.without(recorder, heap));
        let time = if profile.threads > 1 { profile.threads_time } else { profile.time };
        let wall = (profile.time > 0).then(|| Interval::of([time as f64; 3]).without(recorder, heap));
        if let (Some(left), Some(all)) = (processor, recorded)
            && left.low < all.low / 2.0
        {
            reasons.push(format!(
                "the recorder took about {:.0} % of the recorded processor time, so the rest is less certain",
                recorder.mid / all.mid.max(1.0) * 100.0
            ));
        }
        Self { heap, recorder, processor, recorded, wall, source, reasons }
    }

    /// Returns the allocator's share of processor time, or `None` if the trace has no processor
    /// times.
    pub fn of_processor(&self) -> Option<Interval> {
        self.processor.map(|whole| self.heap.share(whole))
    }

    /// Returns the allocator's share of processor time or, if that is unknown, of wall time, or
    /// `None` if both are unknown.
    pub(super) fn known(&self) -> Option<Interval> {
        self.of_processor().or(self.of_wall())
    }

    /// Returns the allocator's share of wall time, or `None` if the trace has no times.
    pub fn of_wall(&self) -> Option<Interval> {
        self.wall.map(|whole| self.heap.share(whole))
    }
}

/// Returns the time of all calls in the allocator, and its origin.
fn allocator(
    profile: &TraceProfile,
    [hot, cold]: [f64; 2],
    replay: Option<f64>,
    reasons: &mut Vec<String>,
) -> (Interval, CostSource) {
    let sampled = sampled(profile, reasons);
    match (replay, sampled) {
        (Some(ns), Some(range)) => {
            (Interval { low: range.low.min(ns), mid: ns, high: range.high.max(ns) }, CostSource::Replay)
        }
        (Some(ns), None) => {
            reasons.push(
                "the caches of a replay differ, so the program's calls may take less or more time".to_owned(),
            );
            (Interval::of(REPLAY.map(|times| ns * times)), CostSource::Replay)
        }
        (None, Some(range)) => (range, CostSource::Sampled),
        (None, None) => {
            reasons.push(
                "no call was measured: the low figure assumes that blocks are in the cache, the high one that they are \
                 not"
                    .to_owned(),
            );
            (Interval { low: hot, mid: (hot * cold).sqrt(), high: cold }, CostSource::Table)
        }
    }
}

/// Estimates the time of all calls from the measured calls, or `None` if too few calls were
/// measured.
fn sampled(profile: &TraceProfile, reasons: &mut Vec<String>) -> Option<Interval> {
    let timing = &profile.timing;
    let mut all = TimeSample::default();
    timing.kinds().for_each(|kind| all.merge(&kind.allocator));
    if all.count < LEAST {
        return None;
    }
    // For an operation with few measured calls, the mean of all operations is used.
    let sample = |kind: &OperationTimes| if kind.allocator.count < LEAST { all } else { kind.allocator };
    let [low, mid, high] = CLOCK.map(|clock| -> f64 {
        let each = |kind| (sample(kind).mean() - profile.clock_cost * clock).max(FLOOR) * kind.events as f64;
        timing.kinds().map(each).sum()
    });
    let variance: f64 = timing.kinds().map(|kind| (sample(kind).error() * kind.events as f64).powi(2)).sum();
    let error = ERRORS * variance.sqrt();
    let calls: u64 = timing.kinds().map(|kind| kind.events).sum();
    reasons.push(format!(
        "{} of {} calls were measured in the program: {:.0} ns a call, plus or minus {:.0}, without the {:.0} of the \
         clock",
        grouped(all.count),
        grouped(calls),
        mid / calls.max(1) as f64,
        (high - low + 2.0 * error) / 2.0 / calls.max(1) as f64,
        profile.clock_cost
    ));
    if timing.left_out > 0 {
        reasons.push(format!(
            "{} long intervals are left out, because their thread may have waited for a processor",
            grouped(timing.left_out)
        ));
    }
    let floor = FLOOR * calls as f64;
    Some(Interval { low: (low - error).max(floor), mid, high: high + error })
}

/// Returns the time of all calls in the recorder, in nanoseconds.
fn recorder(profile: &TraceProfile, reasons: &mut Vec<String>) -> Interval {
    let events = profile.events as f64;
    let sample = profile.timing.recorder();
    if sample.count < LEAST {
        reasons.push("the recorder's own cost is assumed, because the trace does not contain it".to_owned());
        return Interval::of(ASSUMED_RECORDER.map(|ns| ns * events));
    }
    let clock = profile.clock_cost;
    let each = (sample.mean() - clock).max(0.0);
    let error = ERRORS * sample.error();
    let notes = sample.count as f64 * (3.0 * clock + NOTE);
    let slow = profile.timing.slow as f64;
    let cost = |at: usize, error: f64| {
        ((each + error).max(0.0) * UNMEASURED[at] + AROUND[at]) * events + notes + slow
    };
    Interval { low: cost(0, -error), mid: cost(1, 0.0), high: cost(2, error) }
}

/// Returns the processor time of the recorded run in nanoseconds, or `None` if the trace has none.
fn recorded(profile: &TraceProfile, reasons: &mut Vec<String>) -> Option<Interval> {
    if let Some(end) = profile.end {
        return Some(Interval::of([end.processor as f64; 3]));
    }
    let (seen, processor) = profile.timing.process?;
    let processor = processor.saturating_sub(profile.start_processor) as f64;
    if seen == 0 || processor <= 0.0 {
        return None;
    }
    // The program did not exit, or the recording ended earlier, so the processor time since the
    // last note is unknown.
    let rest = profile.time.saturating_sub(seen) as f64;
    let threads = profile.threads.max(1) as f64;
    let likely = rest * (processor / seen as f64).min(threads);
    reasons.push(format!(
        "the trace lacks the end of the program: the processor time of the last {} is estimated",
        duration(rest as u64)
    ));
    Some(Interval { low: processor, mid: processor + likely, high: processor + rest * threads })
}

/// Returns a range of shares in words.
pub fn between(share: Interval) -> String {
    let [low, high] = [share.low, share.high].map(|share| format!("{:.1}", share * 100.0));
    if low == high { format!("about {low} %") } else { format!("between {low} and {high} %") }
}

/// Returns a range of times in words.
pub fn times(range: Interval) -> String {
    let range = range.map(|ns| ns.max(0.0));
    let [low, high] = [range.low, range.high].map(|ns| duration(ns as u64));
    if low == high { low } else { format!("{low} to {high}") }
}
