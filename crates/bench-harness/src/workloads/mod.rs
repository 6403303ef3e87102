//! The workloads: functions generic over a contender, and the cells that the runner times. One folder for each class of
//! contenders.
//!
//! A workload is a plain function (`pair`, `churn`, …) so that `cargo bench` runs the very same code; beside it stands a
//! cell that owns the contender and what lives from one sample to the next. Dispatch is static within a sample; a cell is
//! called through a `dyn` once a sample.

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

/// What a cell needs to know beside its parameters.
#[derive(Clone, Debug)]
pub struct Context {
    /// Seeds every table: the same seed gives the same operations.
    pub seed: u64,
    /// The text that R1 parses.
    pub document: Arc<Document>,
    /// The sources that R4 and R5 work on.
    pub sources: Arc<Sources>,
    /// Where a second thread is pinned to, if anywhere.
    pub second_cpu: Option<usize>,
}

/// One workload over one contender, ready to run.
pub trait Cell {
    /// Does a fixed amount of work; in a checked cell the result depends on all that was read back.
    fn run(&mut self, units: u64) -> u64;

    /// Operations in a unit: what a time is divided by.
    fn ops_per_unit(&self) -> u64 {
        1
    }

    /// Requests so far that a bounded contender refused, and that were served from the heap.
    fn refused(&self) -> u64 {
        0
    }

    /// Latencies in nanoseconds, under a load where the workload is a server, else of one unit after the other; none for a
    /// workload that has none.
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
