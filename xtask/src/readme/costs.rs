//! The tables of costs in the README of each published crate.

use core::fmt::Write as _;

use anyhow::{Context, Result};

use super::recorded::RecordedBench;
use super::results::{best, peak};

/// The page of one crate: the directory of the crate, and its rows. A row is a workload and the key
/// of a contender from this crate.
pub(super) struct CostsPage {
    pub(super) dir: &'static str,
    rows: &'static [(&'static str, &'static str)],
}

pub(super) const PAGES: [CostsPage; 4] = [
    CostsPage {
        dir: "ring-alloc",
        rows: &[
            ("S1/pair/64", "ring"),
            ("S2/batch/100x256", "ring"),
            ("W/window/1024x136", "ring"),
            ("S8/handoff/64", "one-ring"),
            ("R6/replay/git", "one-ring"),
            ("S6/straggler/1e-2", "ring"),
        ],
    },
    CostsPage {
        dir: "ringal",
        rows: &[
            ("S1-buffers/fixed/64", "ringal"),
            ("S1-buffers/extend", "ringal"),
            ("S1-buffers/freeze", "ringal"),
            ("S7-buffers/packet/1024", "ringal"),
            ("S8-buffers/handoff/4096x64", "ringal"),
            ("R3/http", "ringal"),
        ],
    },
    CostsPage {
        dir: "shared_arena",
        rows: &[
            ("S1-objects/pair/32", "pool"),
            ("S1-objects/pair/32", "shared"),
            ("S2-objects/batch/100000x40", "shared"),
            ("S3-objects/slots", "shared"),
            ("S8-objects/handoff/64x40", "shared"),
            ("S9-objects/at-once/10000", "shared"),
        ],
    },
    CostsPage {
        dir: "typed-pool",
        rows: &[
            ("S1-objects/pair/32", "pooled-box"),
            ("S8-objects/handoff/64x40", "pooled-box"),
            ("S2-set/erase-insert", "pooled-allocator"),
            ("R4/ast/clean", "pooled-allocator"),
            ("R5/store/clean", "pooled-allocator"),
            ("S1/pair/3000", "pooled-allocator"),
        ],
    },
];

/// Returns the table of a crate, without the rows that the record lacks.
///
/// # Errors
/// Returns an error if the record has none of the rows.
pub(super) fn table(recorded: &RecordedBench, page: &CostsPage) -> Result<String> {
    let mut lines = String::new();
    for (id, key) in page.rows {
        let Some(workload) = recorded.workloads.iter().find(|workload| workload.id == *id) else { continue };
        let Some(ours) = workload.row(key).filter(|row| row.ratio.is_some()) else { continue };
        let ns = |row: &super::recorded::RecordedRow| {
            row.ns_per_op.map_or_else(|| "–".to_owned(), |ns| ns.to_string())
        };
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
