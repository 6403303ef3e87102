//! The list of workloads with their parameters: what `--list` shows and `--filter` chooses from.

mod blocks;
mod buffers;
mod nodes;
mod objects;

pub use self::blocks::BlockWorkload;
pub use self::buffers::BufferWorkload;
pub use self::nodes::NodeWorkload;
pub use self::objects::ObjectWorkload;
use crate::card::{Caps, Class};

/// A workload and its parameters, by the class of its contenders.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Over blocks of any size.
    Blocks(BlockWorkload),
    /// Over objects of one type.
    Objects(ObjectWorkload),
    /// Over byte buffers.
    Buffers(BufferWorkload),
    /// Over nodes of data structures.
    Nodes(NodeWorkload),
}

/// What a workload says about itself.
struct Facts {
    /// What an operation is.
    op: &'static str,
    /// What a contender must be able to do.
    need: Need,
    /// Units of the memory pass.
    memory_units: u64,
    /// Whether it holds more than a block or a vector.
    holds_memory: bool,
}

/// A capability that a workload may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Frees block by block, or takes back the last block.
    FreeLast,
    /// Frees block by block, or everything at the end of a batch.
    FreeOrReset,
    /// Frees block by block, in any order.
    Free,
    /// Blocks grow, and hold what was written.
    Contents,
    /// Frees on another thread.
    OtherThread,
    /// Several threads allocate at the same time, and free.
    Shared,
    /// The same, on threads that end while others go on.
    ThreadsEnd,
    /// Blocks of any size grow, hold what was written, and are freed one by one.
    Program,
    /// Holds nodes of several types until all of them go.
    Tree,
    /// Holds nodes of several types that go one by one.
    Nodes,
    /// Holds nodes of one type that go one by one.
    OneType,
}

impl Need {
    /// Why a contender cannot run the workload, if so.
    #[must_use]
    pub fn missing(self, caps: &Caps) -> Option<&'static str> {
        let (met, reason) = match self {
            Self::FreeLast => (true, ""),
            Self::FreeOrReset => (caps.free_individually || caps.reset, "cannot free"),
            Self::Free => (caps.free_individually, "cannot free block by block"),
            Self::Contents => (caps.keeps_contents && caps.any_size, "keeps no contents"),
            Self::OtherThread => (caps.any_thread_free && caps.free_individually, "one thread only"),
            Self::Shared | Self::ThreadsEnd if !(caps.shared_alloc && caps.free_individually) => {
                (false, "one thread allocates")
            }
            Self::Shared => (true, ""),
            Self::ThreadsEnd => (caps.threads_end, "spoils the heap where a thread ends"),
            Self::Program if !(caps.keeps_contents && caps.any_size) => (false, "keeps no contents"),
            Self::Program => (caps.free_individually, "cannot free block by block"),
            Self::Tree | Self::Nodes | Self::OneType if !caps.keeps_contents => (false, "keeps no contents"),
            Self::Tree | Self::Nodes if !caps.any_size => (false, "is a hash set alone"),
            Self::Tree => (true, ""),
            Self::Nodes | Self::OneType => (caps.free_individually, "cannot free node by node"),
        };
        (!met).then_some(reason)
    }
}

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// In `--quick` and `--full`.
    Quick,
    /// In `--full` alone.
    Full,
}

/// A row of the catalogue: one table of the report.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Its name: family, workload, parameters, as a path.
    pub id: String,
    /// What it does, in a line.
    pub title: String,
    /// What an operation is.
    pub op: &'static str,
    /// Which runs have it.
    pub scale: Scale,
    /// What a contender must be able to do.
    pub need: Need,
    /// Units of the memory pass.
    pub memory_units: u64,
    /// The workload itself.
    pub kind: Kind,
    /// Whether its memory says something about the contender: whether it holds more than a block or a vector.
    pub holds_memory: bool,
}

impl Spec {
    /// The first part of the name: `S1`.
    #[must_use]
    pub fn family(&self) -> &str {
        self.id.split('/').next().unwrap_or(&self.id)
    }

    /// What its contenders hand out.
    #[must_use]
    pub fn class(&self) -> Class {
        match self.kind {
            Kind::Blocks(_) => Class::Blocks,
            Kind::Objects(_) => Class::Objects,
            Kind::Buffers(_) => Class::Buffers,
            Kind::Nodes(_) => Class::Nodes,
        }
    }

    /// Allocations that a fresh cell and `units` units make, where that is a matter of arithmetic.
    #[must_use]
    pub fn asked(&self, units: u64) -> Option<u64> {
        match &self.kind {
            Kind::Blocks(workload) => workload.asked(units),
            Kind::Objects(workload) => workload.asked(units),
            Kind::Buffers(workload) => workload.asked(units),
            Kind::Nodes(workload) => workload.asked(units),
        }
    }

    /// The least units a sample may have.
    #[must_use]
    pub fn least_units(&self) -> u64 {
        match &self.kind {
            Kind::Blocks(workload) => workload.least_units(),
            Kind::Objects(workload) => workload.least_units(),
            Kind::Buffers(workload) => workload.least_units(),
            Kind::Nodes(_) => 1,
        }
    }

    /// Whether the workload parses the document of R1.
    #[must_use]
    pub fn parses(&self) -> bool {
        matches!(self.kind, Kind::Blocks(BlockWorkload::Json(_)) | Kind::Nodes(NodeWorkload::Json(_)))
    }

    /// Whether latencies are measured beside time.
    #[must_use]
    pub fn has_latencies(&self) -> bool {
        self.is_served() || matches!(self.kind, Kind::Blocks(BlockWorkload::Frames))
    }

    /// Whether these are those of requests, which leave at their times.
    #[must_use]
    pub fn is_served(&self) -> bool {
        matches!(self.kind, Kind::Buffers(BufferWorkload::Http(_)))
    }

    /// Whether two threads do the work, each on a processor of its own. (Those that come and go are interrupted when they move there.)
    #[must_use]
    pub fn is_of_two(&self) -> bool {
        match &self.kind {
            Kind::Blocks(workload) => {
                matches!(workload, BlockWorkload::Handoff(..) | BlockWorkload::Sharing(_))
            }
            Kind::Objects(workload) => matches!(
                workload,
                ObjectWorkload::Handoff(..) | ObjectWorkload::AtOnce(_) | ObjectWorkload::Sharing(_)
            ),
            Kind::Buffers(workload) => matches!(workload, BufferWorkload::Handoff(..)),
            Kind::Nodes(_) => false,
        }
    }

    /// Units of a check.
    #[must_use]
    pub fn check_units(&self) -> u64 {
        (self.memory_units / 8).max(1)
    }

    fn new(id: String, title: String, kind: Kind) -> Self {
        let Facts { op, need, memory_units, holds_memory } = match &kind {
            Kind::Blocks(workload) => workload.facts(),
            Kind::Objects(workload) => workload.facts(),
            Kind::Buffers(workload) => workload.facts(),
            Kind::Nodes(workload) => workload.facts(),
        };
        Self { id, title, op, scale: Scale::Quick, need, memory_units, kind, holds_memory }
    }

    fn full(mut self) -> Self {
        self.scale = Scale::Full;
        self
    }
}

/// All workloads, in the order of the report.
#[must_use]
pub fn catalogue() -> Vec<Spec> {
    let mut all = blocks::all();
    all.extend(objects::all());
    all.extend(buffers::all());
    all.extend(nodes::all());
    all
}
