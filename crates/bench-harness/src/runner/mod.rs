//! The runner: a parent that plans the steps and collects the results, and children that measure.
//!
//! For each process of the plan and each workload, the parent starts a child. The child holds all
//! contenders of the workload and takes one sample of each in every round, in random order. Before
//! each sample, the child notes in a file which contender runs next. If the child dies, only the
//! noted contender loses its figures: the parent starts another child without it. To measure memory
//! and latencies, the parent starts one child for each contender and each of the two measurements.
//! In a full run, another child for each contender checks it before it shares a process with the
//! others. The steps share the time of the run. S12 and S13 do not have rounds: each of their
//! contenders runs in its own children, and several children run at a time.

mod checks;
mod child;
mod parent;
mod plan;
mod record;

pub use self::child::serve;
pub use self::parent::run;
pub use self::plan::{Progress, RunPlan};
pub use self::record::{
    AloneRun, Checked, ContenderState, Job, Latencies, Measurements, Mode, PeakMemory, RefusalCount,
    SampleSize, TimedSample, WorkloadOutcome,
};
pub use crate::tally::CallTally;
