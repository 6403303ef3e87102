//! The workloads: functions generic over a contender, and the cells that the runner times. There is
//! one folder for each class of contenders.
//!
//! A workload is a function, and a cell beside it owns the contender and everything that lives from
//! one sample to the next. Dispatch within a sample is static. The runner calls a cell through
//! `dyn` once per sample. `cargo bench` runs the same cells.

pub mod blocks;
pub mod buffers;
mod catalogue;
mod crew;
pub mod draws;
mod handoff;
mod litter;
mod load;
pub mod nodes;
pub mod objects;
pub mod slots;
mod stock;
pub mod stragglers;

use std::sync::Arc;

use hdrhistogram::Histogram;

use self::blocks::json::Document;
pub(crate) use self::catalogue::build;
pub use self::catalogue::{Need, Scale, Workload, WorkloadSpec, catalogue};
use self::nodes::Sources;

pub use self::load::Load;

/// The inputs of a cell besides its parameters.
#[derive(Clone, Debug)]
pub struct Context {
    /// The seed of every table. The same seed gives the same operations.
    pub seed: u64,
    /// The text that R1 parses.
    pub document: Arc<Document>,
    /// The sources that R4 and R5 work on.
    pub sources: Arc<Sources>,
    /// The processor to which a second thread is pinned, if any.
    pub second_cpu: Option<usize>,
}

/// One workload over one contender, ready to run.
pub trait Cell {
    /// Does a fixed amount of work. In a checked cell, the result depends on everything that was
    /// read back.
    fn run(&mut self, units: u64) -> u64;

    /// Returns the operations of a unit, by which a time is divided.
    fn ops_per_unit(&self) -> u64 {
        1
    }

    /// Returns the number of requests that a bounded contender refused and the heap served.
    fn refused(&self) -> u64 {
        0
    }

    /// Returns the latencies in nanoseconds: under a load if the workload is a server, else of one
    /// unit after the other. `None` if the workload has no latencies.
    fn latencies(&mut self, load: &Load) -> Option<Histogram<u64>> {
        let _ = load;
        None
    }
}

/// Folds a word into a checksum that depends on the order.
#[inline(always)]
pub(crate) fn mix(sum: u64, word: u64) -> u64 {
    (sum ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
}
