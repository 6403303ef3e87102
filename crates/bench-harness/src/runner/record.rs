//! The messages between parent and child, and the results of a run.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::tally::CallTally;
use crate::workloads::{AfterBurst, AloneFigures, AloneOrder, HeldAt, Load, WorkloadSpec};

/// The kind of work that a child does.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Mode {
    /// Runs every contender once with counters and verification, and once as in a timed run.
    /// Measures nothing.
    Check,
    /// Does the work of [`Mode::Check`], then takes samples.
    CheckAndTime,
    /// Takes samples.
    Time,
    /// Measures the memory of one contender.
    Memory,
    /// Measures the latencies of one contender under this load.
    Latencies(Load),
    /// Does the work of a process that has one contender and no rounds.
    Alone(AloneOrder),
}

/// A job for a child. The parent passes it as JSON in one argument.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The work of the child.
    pub mode: Mode,
    /// The workload's name.
    pub workload: String,
    /// The keys of the contenders that the child runs.
    pub contenders: Vec<String>,
    /// The number of the process in the plan, counted from 0.
    pub process: u32,
    /// The index of the process among the processes that run at the same time. It selects the
    /// processor.
    pub lane: usize,
    /// The number of rounds, without the warm-up.
    pub rounds: u32,
    /// The time budget of the process, in nanoseconds. The child runs fewer than `rounds` rounds if
    /// all of them would exceed the budget.
    pub budget_ns: f64,
    /// The number of units of work in each sample, the same for all contenders. If it is `None`,
    /// the child determines the number.
    pub units: Option<u64>,
    /// The time of a sample in nanoseconds, averaged over the contenders.
    pub target_ns: f64,
    /// The seed of the tables, the same for all processes.
    pub seed: u64,
    /// The file with the text of R1, if there is one.
    pub document: Option<PathBuf>,
    /// The minimum length, in bytes, of the text that is generated for R1 if there is no file.
    pub document_length: usize,
    /// The directory with the sources of R4 and R5, if there is one.
    pub corpus: Option<PathBuf>,
    /// The file in which the child notes the contender of each turn.
    pub marker: PathBuf,
}

/// One sample.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TimedSample {
    /// The workload's name.
    pub workload: String,
    /// The contender's key.
    pub contender: String,
    /// The number of the process in the plan, counted from 0.
    pub process: u32,
    /// The number of the round in its process, below zero in the warm-up.
    pub round: i32,
    /// The time of the sample, in nanoseconds.
    pub ns: f64,
    /// The number of operations in the sample.
    pub ops: u64,
    /// The number of times that other threads interrupted the measured ones. `None` on systems that
    /// do not count this.
    pub involuntary_switches: Option<u64>,
    /// The number of page faults that the kernel served without the disk. `None` on systems that do
    /// not count them.
    pub minor_faults: Option<u64>,
    /// The ticks that the hypervisor gave to other guests during the round, over all CPUs. `None`
    /// on systems that do not report them.
    pub steal: Option<u64>,
}

impl TimedSample {
    /// Returns whether the sample is contaminated: a measured thread was interrupted, or the
    /// hypervisor ran another guest.
    pub fn contaminated(&self) -> bool {
        self.involuntary_switches.unwrap_or(0) > 0 || self.steal.unwrap_or(0) > 0
    }
}

/// The result of one contender's check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// The contender's key.
    pub contender: String,
    /// The number of allocations that the workload requests. `None` if it depends on the input.
    pub asked: Option<u64>,
    /// The calls that reached the contender.
    pub tally: CallTally,
    /// A checksum over everything that the workload read back.
    pub checksum: u64,
}

/// The peak memory of one contender.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeakMemory {
    /// The contender's key.
    pub contender: String,
    /// The peak memory of the contender, in bytes: the largest number of bytes that it held at
    /// once, as its backing allocator counts them. If no backing allocator counts, this is the
    /// growth of the process's resident set.
    pub peak: u64,
    /// The largest number of bytes that the workload had live at once.
    pub peak_live: u64,
    /// Whether a backing allocator counted the peak.
    pub exact: bool,
    /// About sixty points of memory over time, for the workloads that show them.
    #[serde(default)]
    pub over_time: Vec<HeldAt>,
}

/// The number of requests that a contender refused, and that the heap served instead, in all rounds
/// of one process, including the warm-up. Only bounded contenders refuse requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusalCount {
    /// The contender's key.
    pub contender: String,
    /// The number of refused requests.
    pub refused: u64,
    /// The number of all requests.
    pub asked: u64,
}

/// The latencies of one contender, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// The contender's key.
    pub contender: String,
    /// The number of requests, frames or calls that were timed.
    pub requests: u64,
    /// The number of requests per second. `None` if requests do not leave at fixed times.
    #[serde(rename = "per_second")]
    pub rate: Option<f64>,
    /// The median latency.
    pub p50: u64,
    /// The latency that 99 % of the requests do not exceed.
    pub p99: u64,
    /// The latency that 99.9 % of the requests do not exceed.
    pub p999: u64,
    /// The longest latency.
    pub max: u64,
    /// Latencies, each with the share of the requests that took longer.
    #[serde(default)]
    pub above: Vec<(u64, f64)>,
}

/// The figures of one contender from one of its own processes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AloneRun {
    /// The contender's key.
    pub contender: String,
    /// The activity after the burst. `None` if there was no burst.
    pub after: Option<AfterBurst>,
    /// The figures of the process.
    #[serde(flatten)]
    pub figures: AloneFigures,
}

impl AloneRun {
    /// Returns the resident bytes `seconds` after the burst, minus the resident bytes before the
    /// first allocation. Returns `None` if the process did not read them at that moment.
    pub fn taken_at(&self, seconds: f64) -> Option<u64> {
        self.figures.held.iter().find(|held| (held.at - seconds).abs() < 1e-9).map(|held| held.taken)
    }
}

/// The state of a contender in a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ContenderState {
    /// The contender ran, or has not run yet.
    #[default]
    Ran,
    /// The contender cannot run this workload. The text is the reason.
    Missing(String),
    /// The contender's process died. The text says how and when.
    Crashed(String),
    /// The contender ran, but its results were wrong. The text says how.
    Wrong(String),
}

impl ContenderState {
    /// Returns whether the state is [`Ran`](Self::Ran).
    pub fn ran(&self) -> bool {
        *self == Self::Ran
    }

    /// Returns a word for the state, and the reason unless the state is [`Ran`](Self::Ran).
    pub fn told(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Ran => ("ran", None),
            Self::Missing(why) => ("missing", Some(why)),
            Self::Crashed(how) => ("crashed", Some(how)),
            Self::Wrong(what) => ("wrong", Some(what)),
        }
    }
}

/// The size of each sample.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct SampleSize {
    /// The number of units of work in each sample, the same for all contenders.
    pub units: u64,
    /// The number of operations in each unit.
    pub ops_per_unit: u64,
}

/// The measurements of one child, which the child sends as its answer, or the measurements of all
/// children of a workload.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Measurements {
    /// The results of all checks.
    pub checks: Vec<Checked>,
    /// The size of each sample. `None` until a child has determined it.
    pub size: Option<SampleSize>,
    /// All samples, including the warm-up.
    pub samples: Vec<TimedSample>,
    /// The peaks of memory, if they were measured.
    pub memory: Vec<PeakMemory>,
    /// The refusals of each contender in each process.
    pub refusals: Vec<RefusalCount>,
    /// The latencies, if they were measured.
    pub latencies: Vec<Latencies>,
    /// The runs of the contenders in their own processes, for the workloads without rounds.
    pub alone: Vec<AloneRun>,
}

impl Measurements {
    /// Adds the measurements of another child.
    pub(super) fn absorb(&mut self, answer: Self) {
        self.checks.extend(answer.checks);
        self.size = answer.size.or(self.size);
        self.samples.extend(answer.samples);
        self.memory.extend(answer.memory);
        self.refusals.extend(answer.refusals);
        self.latencies.extend(answer.latencies);
        self.alone.extend(answer.alone);
    }
}

/// The results of one workload.
#[derive(Clone, Debug)]
pub struct WorkloadOutcome {
    /// The workload.
    pub spec: WorkloadSpec,
    /// The state of each contender, by key.
    pub states: BTreeMap<String, ContenderState>,
    /// The measurements of all children.
    pub measured: Measurements,
}
