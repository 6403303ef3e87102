//! The tables of costs in the README of each published crate.

use core::fmt::Write as _;

use anyhow::{Context, Result};
use ephemera_measure::summary::SummaryRow;

use super::recorded::RecordedBench;
use super::results::{best, peak};
use super::tables::CostsPage;

/// Returns the table of a crate, without the rows that the record lacks.
///
/// # Errors
/// Returns an error if the record has none of the rows.
pub(super) fn table(recorded: &RecordedBench, page: &CostsPage) -> Result<String> {
    let mut lines = String::new();
    for (id, key) in &page.rows {
        let Some(workload) = recorded.workloads.iter().find(|workload| &workload.id == id) else { continue };
        let Some(ours) = workload.row(key).filter(|row| row.ratio.is_some()) else { continue };
        let ns = |row: &SummaryRow| row.ns_per_op.map_or_else(|| "–".to_owned(), |ns| ns.to_string());
        let general = best(workload).filter(|row| row.key != "glibc");
        writeln!(
            lines,
            "| {}, ns per {} | `{}`: {} | {} | {} | {} |",
            workload.short_title(),
            workload.op,
            ours.allocator,
            ns(ours),
            general.map_or_else(|| "–".to_owned(), |row| format!("{}: {}", row.allocator, ns(row))),
            workload.row("glibc").map_or_else(|| "–".to_owned(), ns),
            peak(ours),
        )?;
    }
    (!lines.is_empty()).then_some(()).with_context(|| format!("the record has no row of {}", page.dir))?;
    Ok(format!(
        "| workload | here | best general allocator | glibc | held at the peak |\n|---|---|---|---|---|\n{lines}\n\
         A time includes the workload's own work on the memory. *Held* is the memory that the allocator took from the system, \
         also as a multiple of the live bytes; `*` marks bytes that a backing allocator counted. Without it, the figure is the growth of the process. \
         All rows, with intervals: [results](../../docs/benchmarks/results.md). {}\n",
        recorded.told()
    ))
}
