//! The tables of costs in the README of each published crate.

use core::fmt::Write as _;

use anyhow::{Context, Result};
use ephemera_measure::summary::SummaryRow;

use super::recorded::RecordedBench;
use super::results::{best, ends, peak};
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
        let general = best(workload).filter(|row| row.key != "glibc");
        let glibc = workload.row("glibc");
        let shown: Vec<&SummaryRow> = [Some(ours), general, glibc].into_iter().flatten().collect();
        let equals = equals(&shown);
        let ns = |row: &SummaryRow| match row.ns_per_op {
            Some(ns) if equals.contains(&&*row.key) => format!("≈ {ns}"),
            Some(ns) => ns.to_string(),
            None => "–".to_owned(),
        };
        writeln!(
            lines,
            "| {}, ns per {}{} | `{}`: {} | {} | {} | {} |",
            workload.short_title(),
            workload.op,
            if workload.trusted { "" } else { " (untrusted)" },
            ours.allocator,
            ns(ours),
            general.map_or_else(|| "–".to_owned(), |row| format!("{}: {}", row.allocator, ns(row))),
            glibc.map_or_else(|| "–".to_owned(), ns),
            peak(ours),
        )?;
    }
    (!lines.is_empty()).then_some(()).with_context(|| format!("the record has no row of {}", page.dir))?;
    Ok(format!(
        "| workload | here | best general allocator | glibc | held at the peak |\n|---|---|---|---|---|\n{lines}\n\
         A time includes the workload's own work on the memory. `≈` marks figures that may be equal: the interval of their ratio to glibc \
         overlaps with that of the lowest ratio in the row. In an *untrusted* row, glibc differed from itself, or its \
         ratio to itself is uncertain. *Held* is the memory that the allocator took from the system, \
         also as a multiple of the live bytes; `*` marks bytes that a backing allocator counted. Without it, the figure is the growth of the process. \
         All rows, with intervals: [results](../../docs/benchmarks/results.md). {}\n",
        recorded.told()
    ))
}

/// Returns the keys of the rows whose interval overlaps with that of the lowest ratio, and the key
/// of the lowest ratio itself. Returns no key if the interval of the lowest ratio overlaps with no
/// other.
fn equals<'r>(rows: &[&'r SummaryRow]) -> Vec<&'r str> {
    let ratio = |row: &SummaryRow| row.ratio.unwrap_or(f64::MAX);
    let lowest = rows.iter().min_by(|one, other| ratio(one).total_cmp(&ratio(other)));
    let Some((_, high)) = lowest.and_then(|row| ends(row)) else { return Vec::new() };
    let equals = rows.iter().filter(|row| ends(row).is_some_and(|(low, _)| low <= high));
    let keys: Vec<&str> = equals.map(|row| row.key.as_str()).collect();
    if keys.len() > 1 { keys } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use crate::readme::recorded::RecordedBench;
    use crate::readme::tables::CostsPage;

    const SUMMARY: &str = r#"{"format": 1, "mode": "quick", "seed": 1, "processes": 3, "rounds": 15,
        "document": "d", "host": {"commit": "abc", "cpu": "a cpu", "cpus": 2, "kernel": "k", "libc": "l",
        "huge_pages": "h", "rustc": "r", "profile": "p"},
        "workloads": [{"id": "S1", "class": "blocks", "title": "pairs", "op": "pair", "trusted": true, "rows": [
            {"key": "glibc", "allocator": "glibc", "state": "ran", "ratio": 1.0, "ns_per_op": 8.0},
            {"key": "ring", "allocator": "RingAlloc", "state": "ran", "ratio": 0.25, "interval": [0.2, 0.3], "ns_per_op": 2.5},
            {"key": "one-ring", "allocator": "OneRingAlloc", "state": "ran", "ratio": 0.4, "interval": [0.35, 1.5], "ns_per_op": 3.5},
            {"key": "upstream-ring", "allocator": "upstream", "state": "ran", "ratio": 0.45, "interval": [0.42, 0.48], "ns_per_op": 4},
            {"key": "jemalloc", "allocator": "jemalloc", "state": "ran", "ratio": 0.5, "interval": [0.4, 0.6], "ns_per_op": 4.5}]}]}"#;

    /// Returns the cells of the table's rows for these contenders, without the last cell.
    fn rows(summary: &str, keys: &[&str]) -> Vec<String> {
        let rows = keys.iter().map(|key| ("S1".to_owned(), (*key).to_owned())).collect();
        let page = CostsPage { dir: "ring-alloc".to_owned(), rows };
        let table = super::table(&RecordedBench::parse(summary).unwrap(), &page).unwrap();
        table.lines().skip(2).take(keys.len()).map(|line| line.trim_end_matches(" – |").to_owned()).collect()
    }

    #[test]
    fn figures_whose_intervals_overlap_with_the_lowest_ratio_are_marked() {
        assert_eq!(
            rows(SUMMARY, &["ring", "one-ring", "upstream-ring"]),
            [
                "| pairs, ns per pair | `RingAlloc`: 2.5 | jemalloc: 4.5 | 8 |",
                "| pairs, ns per pair | `OneRingAlloc`: ≈ 3.5 | jemalloc: ≈ 4.5 | ≈ 8 |",
                "| pairs, ns per pair | `upstream`: ≈ 4 | jemalloc: ≈ 4.5 | 8 |"
            ]
        );
    }

    #[test]
    fn an_untrusted_workload_is_marked() {
        let untrusted = SUMMARY.replace("true", "false");
        let row = "| pairs, ns per pair (untrusted) | `RingAlloc`: 2.5 | jemalloc: 4.5 | 8 |";
        assert_eq!(rows(&untrusted, &["ring"]), [row]);
    }
}
