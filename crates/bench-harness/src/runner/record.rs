//! The messages between parent and child, and the results of a run.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::tally::CallTally;
use crate::workloads::{AfterBurst, AloneFigures, AloneOrder, Load, ResidentAt, WorkloadSpec};

/// The kinds of work of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Run every contender once, counted and verified, and once as it is timed. There are no
    /// figures.
    Check,
    /// Do the same, then take samples.
    CheckAndTime,
    /// Take samples.
    Time,
    /// Measure the memory of one contender.
    Memory,
    /// Measure the latencies of one contender.
    Latencies,
    /// Do the work of a process that has one contender and no rounds.
    Alone,
}

/// The orders of a child, passed as JSON in one argument.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The work of the child.
    pub mode: Mode,
    /// The workload's name.
    pub workload: String,
    /// The keys of the contenders that can run the workload.
    pub contenders: Vec<String>,
    /// The number of the process in the plan.
    pub process: u32,
    /// The number of rounds, without the warm-up.
    pub rounds: u32,
    /// The time of the process in nanoseconds. There are fewer rounds if they would exceed it.
    pub budget_ns: f64,
    /// The units of a sample. `None` if the child finds them.
    pub units: Option<u64>,
    /// The average time of a sample, in nanoseconds.
    pub target_ns: f64,
    /// The seed of the tables, the same for all processes.
    pub seed: u64,
    /// The seed of the orders, which differs in each child and each run.
    pub chance: u64,
    /// The file with the text of R1, if there is one.
    pub document: Option<PathBuf>,
    /// The length of the generated text if there is no file.
    pub document_length: usize,
    /// The directory with the sources of R4 and R5, if there is one.
    pub corpus: Option<PathBuf>,
    /// The load under which latencies are measured.
    pub load: Option<Load>,
    /// The work of a process that has one contender and no rounds.
    pub alone: Option<AloneOrder>,
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
    /// The number of the process in the plan.
    pub process: u32,
    /// The round, below zero in the warm-up.
    pub round: i32,
    /// The time in nanoseconds.
    pub ns: f64,
    /// The number of operations.
    pub ops: u64,
    /// The interruptions of the measured threads by others. `None` on systems that do not count
    /// them.
    pub involuntary_switches: Option<u64>,
    /// The page faults that needed no disk.
    pub minor_faults: Option<u64>,
    /// The ticks that the hypervisor gave to other guests during the round, over all CPUs.
    pub steal: Option<u64>,
}

impl TimedSample {
    /// Returns whether the sample is contaminated: another process or guest ran during it.
    #[must_use]
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
    /// A checksum over everything that was read back.
    pub checksum: u64,
}

/// The peak memory of one contender.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeakMemory {
    /// The contender's key.
    pub contender: String,
    /// The most bytes at a time: those that the backing allocator counts, or else the growth of the
    /// process.
    pub peak: u64,
    /// The most bytes that the workload held at a time.
    pub peak_live: u64,
    /// Whether a backing allocator counted.
    pub exact: bool,
    /// About sixty points of memory over time, for the workloads that show them.
    #[serde(default)]
    pub over_time: Vec<HeldAt>,
}

/// The memory at a moment of the memory pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldAt {
    /// The number of allocations so far.
    pub ops: u64,
    /// The bytes taken, counted as for the peak.
    pub taken: u64,
    /// The bytes that the workload held.
    pub live: u64,
}

/// The requests that a bounded contender refused in the timed rounds of one process. The heap
/// served them.
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
    /// The number of requests, or of timed units.
    pub requests: u64,
    /// The requests per second, if they leave at fixed times.
    pub rate: Option<f64>,
    /// The median.
    pub p50: u64,
    /// The latency at 99 %.
    pub p99: u64,
    /// The latency at 99.9 %.
    pub p999: u64,
    /// The longest latency.
    pub max: u64,
    /// Latencies with the share of requests that took longer.
    #[serde(default)]
    pub above: Vec<(u64, f64)>,
}

/// The figures of one contender in one process of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AloneRun {
    /// The contender's key.
    pub contender: String,
    /// The activity after the burst. `None` if there was no burst.
    pub after: Option<AfterBurst>,
    /// A checksum of everything that was read back, and of the number of calls.
    pub checksum: u64,
    /// The calls that allocate or free.
    pub ops: u64,
    /// The duration of the work in seconds.
    pub seconds: f64,
    /// The most live bytes at a time.
    pub peak_live: u64,
    /// The most resident bytes, above those before the first allocation.
    pub peak: u64,
    /// Resident memory over time.
    pub held: Vec<ResidentAt>,
}

impl AloneRun {
    /// Returns the figures of a process as an answer.
    pub(super) fn new(contender: &str, order: &AloneOrder, figures: AloneFigures) -> Self {
        let AloneFigures { checksum, ops, seconds, peak_live, peak, held, calls: _ } = figures;
        let contender = contender.to_owned();
        Self { contender, after: order.after, checksum, ops, seconds, peak_live, peak, held }
    }

    /// Returns the resident bytes at a moment after the burst, if they were read then.
    #[must_use]
    pub fn taken_at(&self, seconds: f64) -> Option<u64> {
        self.held.iter().find(|held| (held.at - seconds).abs() < 1e-9).map(|held| held.taken)
    }
}

/// A line of a child's answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AnswerLine {
    /// The result of a check, which the parent compares.
    Checked(Checked),
    /// The size of a sample.
    Size {
        /// The units of a sample.
        units: u64,
        /// The operations of a unit.
        ops_per_unit: u64,
    },
    /// A sample.
    Sample(TimedSample),
    /// The memory of a contender.
    Memory(PeakMemory),
    /// The refusals of a contender, if there are any.
    Refusals(RefusalCount),
    /// The latencies of a contender.
    Latencies(Latencies),
    /// The figures of a contender in a process of its own.
    Alone(AloneRun),
}

/// The state of a contender in a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ContenderState {
    /// The contender ran.
    #[default]
    Ran,
    /// The contender cannot run this workload, for this reason.
    Missing(String),
    /// The contender's process died, in this way.
    Crashed(String),
    /// The contender ran, but differed from the others, in this way.
    Wrong(String),
}

impl ContenderState {
    /// Returns whether there are figures to show.
    #[must_use]
    pub fn ran(&self) -> bool {
        *self == Self::Ran
    }

    /// Returns the state in a word, and the reason if the contender did not run.
    #[must_use]
    pub fn told(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Ran => ("ran", None),
            Self::Missing(why) => ("missing", Some(why)),
            Self::Crashed(how) => ("crashed", Some(how)),
            Self::Wrong(what) => ("wrong", Some(what)),
        }
    }
}

/// The results of one workload.
#[derive(Clone, Debug)]
pub struct WorkloadOutcome {
    /// The workload.
    pub spec: WorkloadSpec,
    /// The state of each contender, by key.
    pub states: BTreeMap<String, ContenderState>,
    /// All samples, including the warm-up.
    pub samples: Vec<TimedSample>,
    /// All checks.
    pub checks: Vec<Checked>,
    /// The peaks of memory, if they were measured.
    pub memory: Vec<PeakMemory>,
    /// The refusals, if there were any.
    pub refusals: Vec<RefusalCount>,
    /// The latencies, if they were measured.
    pub latencies: Vec<Latencies>,
    /// The runs in processes of their own, for the workloads without rounds.
    pub alone: Vec<AloneRun>,
    /// The units of a sample.
    pub units: Option<u64>,
    /// The operations of a unit.
    pub ops_per_unit: u64,
}
