//! Scaling: the cost of an operation on one thread alone, divided by its cost while other threads
//! do the same. At 1 the threads do not slow each other down. At one half, two threads achieve as
//! much as one.

use super::model::{BenchReport, ReportTable};
use crate::contenders::VOID;

/// The workload with a single thread.
const ALONE: &str = "S9/larson/1";
/// The numbers of threads of the workloads that differ from [`ALONE`] only in that number.
const THREADS: [usize; 6] = [2, 4, 8, 16, 32, 64];

/// Returns the name of the workload with this number of threads.
fn together(threads: usize) -> String {
    format!("S9/larson/{threads}")
}

/// The scaling of one workload.
#[derive(Clone, Debug)]
pub(super) struct Scaling<'a> {
    /// The workload with several threads.
    pub(super) together: &'a ReportTable,
    pub(super) threads: usize,
    /// The contenders that ran both workloads, with their costs.
    pub(super) rows: Vec<Paces<'a>>,
}

/// The costs of one thread's operation over one contender, in nanoseconds: while the thread runs
/// alone, and while other threads do the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paces<'a> {
    pub(super) name: &'a str,
    pub(super) alone: f64,
    pub(super) together: f64,
}

impl Paces<'_> {
    /// Returns the cost on one thread alone divided by the cost while other threads do the same.
    pub(super) fn share(&self) -> f64 {
        self.alone / self.together
    }
}

/// Returns the scaling for each of [`THREADS`] for which the run has both workloads.
pub(super) fn scaling(report: &BenchReport) -> Vec<Scaling<'_>> {
    let find = |id: &str| report.tables.iter().find(|table| table.spec.id == id);
    let of = |threads| {
        let (alone, together) = (find(ALONE)?, find(&together(threads))?);
        let paces =
            together.rows.iter().enumerate().filter(|(index, _)| *index != VOID).filter_map(|(_, row)| {
                Some(Paces { name: row.name, alone: alone.row(row.key)?.ns?, together: row.ns? })
            });
        let rows: Vec<Paces<'_>> = paces.collect();
        (!rows.is_empty()).then_some(Scaling { together, threads, rows })
    };
    THREADS.into_iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::catalogue;

    #[test]
    fn scaling_workloads_are_in_the_catalogue() {
        for id in THREADS.map(together).into_iter().chain([ALONE.to_owned()]) {
            assert!(catalogue().iter().any(|spec| spec.id == id), "{id}");
        }
    }

    #[test]
    fn two_threads_that_take_twice_as_long_scale_by_half() {
        let share = Paces { name: "", alone: 10.0, together: 20.0 }.share();
        assert!((share - 0.5).abs() < 1e-12);
    }
}
