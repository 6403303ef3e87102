//! The catalogue of workloads. Each row has a workload's parameters and the properties that the
//! runner needs. `--list` prints the rows, and `--filter` selects among them.

pub(crate) mod build;
mod orders;

use serde::Deserialize;

use super::blocks::idle::BurstEnd;
use super::blocks::replay;
use super::buffers::csv::CsvTable;
use super::nodes::Sources;
use super::slots::SizeSpread;
use crate::card::{Caps, ContenderClass};

/// The rows of the catalogue as JSON, one for each workload.
const ROWS: &str = include_str!("catalogue/rows.json");

/// A workload and its parameters. Several classes may share a workload, and [`WorkloadSpec::class`]
/// says which of them runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum Workload {
    /// S1: the size of a block or object, or the capacity of a buffer, in bytes.
    Pair(usize),
    /// S1: a buffer that grows by sixteen writes.
    Extend,
    /// S1: a buffer that is frozen and cloned.
    Freeze,
    /// S2: the number of items and their size in bytes.
    Batch(usize, usize),
    /// S2: the number of elements, and whether they are erased one by one and inserted again.
    Set(usize, bool),
    /// W: the number of live blocks and the largest size in bytes.
    Window(usize, u16),
    /// S3: the number of slots and the sizes.
    Slots(u16, SizeSpread),
    /// S4, which has no parameters.
    Pareto,
    /// S5: the number of elements, and whether each element is reserved separately.
    Grow(u32, bool),
    /// S6: one item in this many is a straggler. 0 means that none is.
    Straggler(usize),
    /// S7: the number of live buffers, the longest length in bytes, and whether buffers grow by
    /// chunks.
    Packets(usize, usize, bool),
    /// S8: the number of items in a batch, their size in bytes, and the number of batches in the
    /// channel.
    Handoff(usize, usize, usize),
    /// S8 by two pairs of threads at the same time, with the parameters of [`Workload::Handoff`].
    Pairs(usize, usize, usize),
    /// S9: the number of threads that run at the same time. Each thread leaves its blocks to a new
    /// thread.
    Larson(usize),
    /// S9: the number of objects of each of two threads.
    AtOnce(usize),
    /// S9: the number of objects that a thread leaves to the next one.
    Generations(usize),
    /// S10: whether one thread makes the first objects of both threads.
    Sharing(bool),
    /// S11 over blocks.
    Frames,
    /// S11 over objects.
    Particles,
    /// S12: the way in which a burst is freed.
    Idle(BurstEnd),
    /// S13, which has no parameters.
    Ageing,
    /// R1: whether the heap is littered.
    Json(bool),
    /// R2: whether the heap is littered.
    Csv(bool),
    /// R3: whether the heap is littered.
    Http(bool),
    /// R4: whether the heap is littered.
    Ast(bool),
    /// The visits of R4: whether the heap is littered.
    Visit(bool),
    /// R5: whether the heap is littered.
    Store(bool),
    /// R6: the name of the trace, and whether the heap is littered.
    Replay(&'static str, bool),
}

/// The capabilities that a workload needs. Each variant says what its contenders must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Need {
    /// Frees one block at a time, or everything in a reset after many allocations.
    FreeLast,
    /// Frees block by block, or everything at the end of a batch.
    FreeOrReset,
    /// Frees block by block, in any order.
    Free,
    /// Grows blocks, and keeps the written bytes.
    Contents,
    /// Frees on another thread.
    OtherThread,
    /// Serves several threads that allocate and free at the same time.
    Shared,
    /// Serves several threads that allocate and free at the same time, some of which end while
    /// others continue.
    ThreadsEnd,
    /// Grows blocks of any size, keeps the written bytes, and frees block by block.
    Program,
    /// Holds nodes of several types until all of them are freed at once.
    Tree,
    /// Holds nodes of several types that are freed one by one.
    Nodes,
    /// Holds nodes of one type that are freed one by one.
    OneType,
}

impl Need {
    /// Returns the reason why a contender with these capabilities cannot run the workload, or
    /// `None` if it can.
    pub fn missing(self, caps: &Caps) -> Option<&'static str> {
        let (met, reason) = match self {
            Self::FreeLast | Self::FreeOrReset => (true, ""),
            Self::Free => (caps.free_individually, "cannot free block by block"),
            Self::Contents => (caps.keeps_contents && caps.any_size, "keeps no contents"),
            Self::OtherThread => (caps.any_thread_free && caps.free_individually, "one thread only"),
            Self::Shared | Self::ThreadsEnd if !(caps.shared_alloc && caps.free_individually) => {
                (false, "one thread allocates")
            }
            Self::Shared => (true, ""),
            Self::ThreadsEnd => (caps.threads_end, "corrupts the heap at thread exit"),
            Self::Program if !(caps.keeps_contents && caps.any_size) => (false, "keeps no contents"),
            Self::Program => (caps.free_individually, "cannot free block by block"),
            Self::Tree | Self::Nodes | Self::OneType if !caps.keeps_contents => (false, "keeps no contents"),
            Self::Tree | Self::Nodes if !caps.any_size => (false, "is only a hash set"),
            Self::Tree => (true, ""),
            Self::Nodes | Self::OneType => (caps.free_individually, "cannot free node by node"),
        };
        (!met).then_some(reason)
    }
}

/// The runs that include a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Scale {
    /// Both `--quick` and `--full`.
    Quick,
    /// Only `--full`.
    Full,
}

/// A row of the catalogue: one table of the report.
#[derive(Clone, Debug, Deserialize)]
pub struct WorkloadSpec {
    /// The name: family, workload and parameters, as a path.
    pub id: String,
    /// The description of the workload in one line.
    pub title: String,
    /// The kind of memory that the workload's contenders hand out.
    pub class: ContenderClass,
    /// The workload itself.
    pub(crate) workload: Workload,
    /// The name of an operation.
    pub op: &'static str,
    /// The runs that include the workload.
    pub scale: Scale,
    /// The capabilities that a contender needs.
    pub need: Need,
    /// The number of units that the memory pass runs.
    pub memory_units: u64,
    /// Whether the memory pass measures the workload. It does not measure a workload that holds
    /// only one block or vector, or that reads resident memory itself. It also leaves out workloads
    /// whose own tables or litter would count as the contender's memory.
    pub holds_memory: bool,
    /// The minimum number of units in a sample.
    pub least_units: u64,
    /// The number of allocations that a fresh cell makes, and the number that each unit makes.
    /// `None` if these numbers depend on the input.
    allocations: Option<(u64, u64)>,
}

impl WorkloadSpec {
    /// Returns the number of allocations that a fresh cell and `units` units make, or `None` if the
    /// number depends on the input.
    pub fn asked(&self, units: u64) -> Option<u64> {
        let (at_first, each) = match self.workload {
            // Reads the file here and not earlier, so that `--list` does not open it.
            Workload::Csv(_) => (0, CsvTable::shared().fields as u64),
            Workload::Replay(name, _) => (0, replay::asked(name)),
            _ => self.allocations?,
        };
        Some(at_first + each * units)
    }

    /// Makes the workload's input before any measurement, if all of its cells share that input.
    pub(crate) fn prepare(&self, sources: &Sources, seed: u64) {
        match self.workload {
            Workload::Ast(_) | Workload::Visit(_) => drop(sources.syntax()),
            Workload::Store(_) => drop(sources.words(seed)),
            // The first call of `program` reads the trace, so it is made here and not in a
            // measurement.
            Workload::Replay(name, _) => _ = replay::program(name),
            Workload::Csv(_) => _ = CsvTable::shared(),
            _ => {}
        }
    }

    /// Returns whether the workload parses the document of R1.
    pub fn parses(&self) -> bool {
        matches!(self.workload, Workload::Json(_))
    }

    /// Returns whether the workload works on Rust sources.
    pub fn reads_sources(&self) -> bool {
        matches!(self.workload, Workload::Ast(_) | Workload::Visit(_) | Workload::Store(_))
    }

    /// Returns whether this is the hash-set workload of S2.
    pub fn is_set(&self) -> bool {
        matches!(self.workload, Workload::Set(..))
    }

    /// Returns whether the input of the workload comes from files of the host.
    pub fn reads_host(&self) -> bool {
        self.reads_sources() || matches!(self.workload, Workload::Csv(_))
    }

    /// Returns whether latencies are measured in addition to the time of samples.
    pub fn has_latencies(&self) -> bool {
        self.is_served() || self.workload == Workload::Frames
    }

    /// Returns whether the workload is a server, for which the harness measures the latencies of
    /// requests that leave at fixed times.
    pub fn is_served(&self) -> bool {
        matches!(self.workload, Workload::Http(_))
    }

    /// Returns whether two threads do the work, each on its own processor. Workloads whose threads
    /// come and go are not among them, because the move to its processor interrupts such a thread.
    pub fn is_of_two(&self) -> bool {
        matches!(self.workload, Workload::Handoff(..) | Workload::AtOnce(_) | Workload::Sharing(_))
    }

    /// Returns whether the report shows memory over time. In S6, such a picture shows how many
    /// bytes a few stragglers keep allocated.
    pub fn shows_memory_over_time(&self) -> bool {
        matches!(self.workload, Workload::Straggler(_)) && self.class != ContenderClass::Buffers
    }

    /// Returns the number of units that a check runs.
    pub fn check_units(&self) -> u64 {
        (self.memory_units / 8).max(1)
    }
}

/// Returns all workloads in the order of the report. Workloads on littered heaps come last in each
/// class. `cargo bench` runs all rows of a class in one process, where later rows would run on the
/// litter, too.
pub fn catalogue() -> Vec<WorkloadSpec> {
    let mut rows: Vec<WorkloadSpec> = serde_json::from_str(ROWS).expect("tests parse the compiled-in rows");
    for row in rows.iter_mut().filter(|row| matches!(row.workload, Workload::Csv(_))) {
        row.title = format!("{}: {}", row.title, CsvTable::origin());
    }
    rows
}
