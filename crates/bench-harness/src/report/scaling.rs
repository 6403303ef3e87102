//! Scaling: the cost of an operation on one thread alone, divided by its cost while other threads
//! do the same. At 1 the threads do not slow each other down. At one half, two threads achieve as
//! much as one.

use ephemera_measure::grid::{Column, columns};
use ephemera_measure::picture::{Forest, ForestLine};
use serde_json::{Value, json};

use super::cells::ns;
use super::model::{BenchReport, ReportTable};
use crate::contenders::VOID;
use crate::stats::Estimate;

/// The workload with a single thread.
const ALONE: &str = "S9/larson/1";
/// The numbers of threads of the workloads that differ from [`ALONE`] only in that number.
const THREADS: [usize; 6] = [2, 4, 8, 16, 32, 64];

/// Returns the name of the workload with this number of threads.
fn together(threads: usize) -> String {
    format!("S9/larson/{threads}")
}

/// The costs of one thread's operation over one contender, in nanoseconds: while the thread runs
/// alone, and while other threads do the same.
#[derive(Clone, Copy, Debug)]
struct Paces {
    name: &'static str,
    alone: f64,
    together: f64,
}

const COLUMNS: [Column<Paces>; 4] = [
    ("allocator", |row| row.name.to_owned()),
    ("ns/op alone", |row| ns(row.alone)),
    ("ns/op together", |row| ns(row.together)),
    ("alone/together", |row| format!("{:.2}", row.share())),
];

impl Paces {
    /// Returns the cost on one thread alone divided by the cost while other threads do the same.
    fn share(&self) -> f64 {
        self.alone / self.together
    }

    fn line(&self) -> ForestLine<'static> {
        let share = self.share();
        let ratio = Estimate { mid: share, low95: share, high95: share, low99: share, high99: share };
        ForestLine { name: self.name, ratio, verdict: None }
    }
}

/// Returns the scaling, as a picture and a table, for each of [`THREADS`] for which the run has
/// both workloads.
pub(super) fn scaling(report: &BenchReport) -> Vec<Value> {
    let find = |id: &str| report.tables.iter().find(|table| table.spec.id == id);
    THREADS.into_iter().filter_map(|threads| of(find(ALONE)?, find(&together(threads))?, threads)).collect()
}

/// Returns the scaling from one thread to `threads` threads, or `None` if no contender ran both
/// workloads.
fn of(alone: &ReportTable, together: &ReportTable, threads: usize) -> Option<Value> {
    let paces =
        together.rows.iter().enumerate().filter(|(index, _)| *index != VOID).filter_map(|(_, row)| {
            Some(Paces { name: row.name, alone: alone.row(row.key)?.ns?, together: row.ns? })
        });
    let rows: Vec<Paces> = paces.collect();
    let plot = Forest(rows.iter().map(Paces::line).collect());
    let title = format!("{}: time of one thread alone divided by its time among {threads}", together.spec.id);
    (!rows.is_empty()).then(|| {
        json!({
            "threads": threads,
            "title": together.spec.title,
            "picture": plot.inline(&title),
            "grid": columns(&COLUMNS, &rows),
        })
    })
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
