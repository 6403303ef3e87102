//! The runner: a parent that plans and collects, and children that measure.
//!
//! For each process of the plan and each workload the parent starts a child, which holds all contenders of that workload
//! and takes one sample of each in every round, in random order. A child that dies costs one cell: it noted whose turn it
//! was, and is started again without that contender. Memory is measured in a child per contender.

mod child;
mod parent;
mod record;

pub use self::child::serve;
pub use self::parent::{Error, Plan, run, smoke};
pub use self::record::{Checked, Job, Latencies, Line, Memory, Mode, Outcome, Refusals, Sample, State};
