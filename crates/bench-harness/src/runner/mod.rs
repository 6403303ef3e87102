//! The runner: a parent that plans and collects, and children that measure.
//!
//! For each process of the plan and each workload the parent starts a child, which holds all contenders of that workload
//! and takes one sample of each in every round, in random order. A child that dies costs one cell: it noted whose turn it
//! was, and is started again without that contender. Memory and latencies are measured in a child per contender, and in a full
//! run each is checked in one before it meets the others. The time of the whole run is shared out among the steps.

mod child;
mod parent;
mod plan;
mod record;

pub use self::child::serve;
pub use self::parent::{RunError, run, smoke};
pub use self::plan::{Progress, RunPlan};
pub use self::record::{
    AnswerLine, Checked, ContenderState, HeldAt, Job, Latencies, Mode, PeakMemory, RefusalCount, TimedSample,
    WorkloadOutcome,
};
