//! What parent and child say to each other, and what a run comes to.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::tally::CallTally;
use crate::workloads::{Load, WorkloadSpec};

/// What a child is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Run every contender once, counted and verified, and once as it is timed; no figures.
    Check,
    /// The same, then take samples.
    CheckAndTime,
    /// Take samples.
    Time,
    /// Measure the memory of one contender.
    Memory,
    /// Measure the latencies of one contender.
    Latencies,
}

/// The whole of a child's orders; handed over as JSON in one argument.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// What to do.
    pub mode: Mode,
    /// The workload's name.
    pub workload: String,
    /// Keys of the contenders that can run it.
    pub contenders: Vec<String>,
    /// Which process of the plan this is.
    pub process: u32,
    /// Rounds to take, warm-up not counted.
    pub rounds: u32,
    /// What the process may take in all, in nanoseconds: beyond, there are fewer rounds.
    pub budget_ns: f64,
    /// Units of a sample; found out where it is not given.
    pub units: Option<u64>,
    /// What a sample should take on average, in nanoseconds.
    pub target_ns: f64,
    /// Seeds the tables, the same for all processes.
    pub seed: u64,
    /// Seeds the orders: another one for each child and each run.
    pub chance: u64,
    /// The text of R1, if there is a real one.
    pub document: Option<PathBuf>,
    /// Length of the generated text where there is none.
    pub document_length: usize,
    /// Where the sources of R4 and R5 lie, if they are there.
    pub corpus: Option<PathBuf>,
    /// For latencies.
    pub load: Option<Load>,
    /// The file in which the child notes whose turn it is.
    pub marker: PathBuf,
}

/// One sample.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TimedSample {
    /// The workload's name.
    pub workload: String,
    /// Key of the contender.
    pub contender: String,
    /// Which process of the plan.
    pub process: u32,
    /// Which round; below zero in the warm-up.
    pub round: i32,
    /// What it took.
    pub ns: f64,
    /// Operations done.
    pub ops: u64,
    /// Times the thread, or one of the two where there are two, was interrupted for another one; not known on every system.
    pub involuntary_switches: Option<u64>,
    /// Page faults that needed no disk.
    pub minor_faults: Option<u64>,
    /// Ticks that the hypervisor gave to others during the round, over all CPUs.
    pub steal: Option<u64>,
}

impl TimedSample {
    /// Whether something else ran in between.
    #[must_use]
    pub fn contaminated(&self) -> bool {
        self.involuntary_switches.unwrap_or(0) > 0 || self.steal.unwrap_or(0) > 0
    }
}

/// What the check of one contender found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// Key of the contender.
    pub contender: String,
    /// Allocations that the workload asks for, where that is a matter of arithmetic.
    pub asked: Option<u64>,
    /// What reached the contender.
    pub tally: CallTally,
    /// Folds all that was read back.
    pub checksum: u64,
}

/// Peak memory of one contender.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeakMemory {
    /// Key of the contender.
    pub contender: String,
    /// Most bytes taken at a time: from the backing allocator where that counts, else by the process beyond its start.
    pub peak: u64,
    /// Most bytes that the workload held at a time.
    pub peak_live: u64,
    /// Whether a backing allocator counted.
    pub exact: bool,
    /// How it came and went, where that was watched: some sixty points.
    #[serde(default)]
    pub over_time: Vec<HeldAt>,
}

/// What was held at a moment of the memory pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldAt {
    /// Allocations so far.
    pub ops: u64,
    /// Bytes taken, counted as the peak is.
    pub taken: u64,
    /// Bytes that the workload held.
    pub live: u64,
}

/// What a bounded contender refused in the timed rounds of one process, and the heap served in its stead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusalCount {
    /// Key of the contender.
    pub contender: String,
    /// Requests that were refused.
    pub refused: u64,
    /// Requests in all.
    pub asked: u64,
}

/// Latencies of one contender, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// Key of the contender.
    pub contender: String,
    /// Requests that were made, or units that were timed.
    pub requests: u64,
    /// Requests in a second, where they leave at their times.
    pub rate: Option<f64>,
    /// The median.
    pub p50: u64,
    /// What 99 % stayed within.
    pub p99: u64,
    /// What 99.9 % stayed within.
    pub p999: u64,
    /// The longest.
    pub max: u64,
    /// Shares of the requests that took longer than so many nanoseconds.
    #[serde(default)]
    pub above: Vec<(u64, f64)>,
}

/// A line of a child's answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AnswerLine {
    /// A check was passed or not: the parent compares.
    Checked(Checked),
    /// How much a sample is.
    Size {
        /// Units of a sample.
        units: u64,
        /// Operations of a unit.
        ops_per_unit: u64,
    },
    /// A sample.
    Sample(TimedSample),
    /// The memory of a contender.
    Memory(PeakMemory),
    /// What a contender refused, if anything.
    Refusals(RefusalCount),
    /// The latencies of a contender.
    Latencies(Latencies),
}

/// What became of a contender in a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ContenderState {
    /// It ran.
    #[default]
    Ran,
    /// It cannot run this workload; why.
    Missing(String),
    /// Its process died; how.
    Crashed(String),
    /// It ran, but not as the others did; in what.
    Wrong(String),
}

impl ContenderState {
    /// Whether there are figures to show.
    #[must_use]
    pub fn ran(&self) -> bool {
        *self == Self::Ran
    }
}

/// All that is known about one workload after a run.
#[derive(Clone, Debug)]
pub struct WorkloadOutcome {
    /// The workload.
    pub spec: WorkloadSpec,
    /// What became of each contender, by key.
    pub states: BTreeMap<String, ContenderState>,
    /// All samples, warm-up included.
    pub samples: Vec<TimedSample>,
    /// All checks.
    pub checks: Vec<Checked>,
    /// Memory, where it was measured.
    pub memory: Vec<PeakMemory>,
    /// RefusalCount, where there were any.
    pub refusals: Vec<RefusalCount>,
    /// Latencies, where they were measured.
    pub latencies: Vec<Latencies>,
    /// Units of a sample.
    pub units: Option<u64>,
    /// Operations of a unit.
    pub ops_per_unit: u64,
}
