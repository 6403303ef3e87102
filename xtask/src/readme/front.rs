//! The tables of the first page: a few workloads of each class, and the rows where we lose most.

use core::fmt::Write as _;

use anyhow::Result;
use ephemera_measure::summary::{SummaryRow, SummaryTable};

use super::recorded::RecordedBench;
use super::results::{OURS, RESULTS, best, ends};
use super::tables::{FrontRow, ReadmeClass};

/// The maximum number of rows in the list of losses.
const LOSSES: usize = 3;

/// Returns the tables and the list of losses.
pub(super) fn tables(recorded: &RecordedBench, classes: &[ReadmeClass]) -> Result<String> {
    let mut out = format!("{}\n", recorded.told());
    for class in classes {
        write!(
            out,
            "\n### {}\n\n| workload | ours | best general | {} | glibc |\n|---|---|---|---|---|\n",
            class.heading, class.peer.1
        )?;
        for row in &class.rows {
            out.push_str(&line(recorded, row).unwrap_or_default());
        }
    }
    write!(out, "\n### Where we lose\n\n{}", losses(recorded)?)?;
    Ok(out)
}

/// Returns the line of a workload, or `None` if the record lacks the workload, our figure or
/// glibc's row.
fn line(recorded: &RecordedBench, (id, ours, peer): &FrontRow) -> Option<String> {
    let workload = recorded.workloads.iter().find(|workload| &workload.id == id)?;
    let ours = workload.row(ours).filter(|row| row.ratio.is_some())?;
    let peer = workload.row(peer).filter(|row| row.ratio.is_some());
    let general = best(workload).filter(|row| row.key != "glibc");
    let glibc = workload.row("glibc")?;
    let all = || [Some(ours), general, peer, Some(glibc)].into_iter().flatten();
    let first = all().min_by(|one, other| ratio(one).total_cmp(&ratio(other)))?;
    let cell = |row: &SummaryRow, name: bool| {
        let figure = if row.key == "glibc" { "1".to_owned() } else { format!("{:.2}", ratio(row)) };
        let overlaps = ends(row).zip(ends(first)).is_some_and(|((low, _), (_, high))| low <= high);
        // If the interval of the lowest ratio contains 1, glibc may be the fastest, so no figure is
        // bold.
        let is_certain = first.key == "glibc" || ends(first).is_some_and(|(_, high)| high < 1.0);
        let figure = match (row.key == first.key && is_certain, overlaps) {
            (true, _) => format!("**{figure}**"),
            (false, true) => format!("≈ {figure}"),
            (false, false) => figure,
        };
        if name { format!("{figure} {}", row.allocator) } else { figure }
    };
    let named = |row: Option<&SummaryRow>| row.map_or_else(|| "–".to_owned(), |row| cell(row, true));
    let doubt = if workload.trusted { "" } else { " (untrusted)" };
    Some(format!(
        "| [{}]({}){doubt} | {} | {} | {} | {} |\n",
        workload.short_title(),
        anchor(id),
        cell(ours, true),
        named(general),
        peer.map_or_else(|| "–".to_owned(), |row| cell(row, false)),
        cell(glibc, false)
    ))
}

fn ratio(row: &SummaryRow) -> f64 {
    row.ratio.unwrap_or(f64::MAX)
}

/// Returns the address of a workload's section on the page of results.
fn anchor(id: &str) -> String {
    let slug: String = id.chars().filter(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).collect();
    format!("{}#{}", RESULTS, slug.to_ascii_lowercase())
}

/// Returns the table of the greatest losses to the best general allocator, or a sentence if there
/// is no loss. A loss counts only if the intervals do not overlap. Each row also names the fastest
/// of our types. Of workloads whose ids differ only in the last part, the table has at most one.
fn losses(recorded: &RecordedBench) -> Result<String> {
    let mut all: Vec<(f64, &SummaryTable, &SummaryRow, &SummaryRow)> = Vec::new();
    for workload in recorded.workloads.iter().filter(|workload| workload.trusted) {
        let Some(best) = best(workload) else { continue };
        for row in ours(workload) {
            let apart = ends(row).zip(ends(best)).is_some_and(|((low, _), (_, high))| low > high);
            if apart {
                all.push((ratio(row) / ratio(best), workload, row, best));
            }
        }
    }
    all.sort_by(|one, other| other.0.total_cmp(&one.0));
    let mut families: Vec<&str> = Vec::new();
    let mut out = String::from(
        "| workload | ours | best general | times slower | best of ours |\n|---|---|---|---|---|\n",
    );
    for (times, workload, row, best) in all {
        let family = workload.id.rsplit_once('/').map_or(&*workload.id, |(family, _)| family);
        if families.contains(&family) {
            continue;
        }
        families.push(family);
        let cell = |row: &SummaryRow| format!("{:.2} {}", ratio(row), row.allocator);
        let fastest = ours(workload).min_by(|one, other| ratio(one).total_cmp(&ratio(other)));
        writeln!(
            out,
            "| [{}]({}) | {} | {} | {times:.1} | {} |",
            workload.short_title(),
            anchor(&workload.id),
            cell(row),
            cell(best),
            cell(fastest.unwrap_or(row))
        )?;
        if families.len() == LOSSES {
            break;
        }
    }
    Ok(if families.is_empty() { "In this run, no loss is certain.\n".to_owned() } else { out })
}

/// Returns the rows of our types that have a ratio.
fn ours(workload: &SummaryTable) -> impl Iterator<Item = &SummaryRow> {
    workload.rows.iter().filter(|row| OURS.contains(&row.key.as_str()) && row.ratio.is_some())
}

#[cfg(test)]
mod tests {
    use super::{anchor, line, losses};
    use crate::readme::recorded::{RECORD, RecordedBench};
    use crate::readme::tables;
    use crate::workspace::Workspace;

    const SUMMARY: &str = r#"{"format": 1, "mode": "quick", "seed": 1, "processes": 3, "rounds": 15,
        "document": "d", "host": {"commit": "abc", "cpu": "a cpu", "cpus": 2, "kernel": "k", "libc": "l",
        "huge_pages": "h", "rustc": "r", "profile": "p"},
        "workloads": [{"id": "S1/pair/64", "class": "blocks", "title": "pairs: many", "op": "pair", "trusted": true, "rows": [
            {"key": "glibc", "allocator": "glibc", "state": "ran", "ratio": 1.0},
            {"key": "ring", "allocator": "RingAlloc", "state": "ran", "ratio": 0.25, "interval": [0.24, 0.26]},
            {"key": "upstream-ring", "allocator": "upstream", "state": "ran", "ratio": 0.255, "interval": [0.25, 0.27]},
            {"key": "jemalloc", "allocator": "jemalloc", "state": "ran", "ratio": 0.5, "interval": [0.4, 0.6]},
            {"key": "mimalloc", "allocator": "mimalloc", "state": "missing", "ratio": null}]},
            {"id": "S1/pair/98", "class": "blocks", "title": "close", "op": "pair", "trusted": true, "rows": [
            {"key": "glibc", "allocator": "glibc", "state": "ran", "ratio": 1.0},
            {"key": "ring", "allocator": "RingAlloc", "state": "ran", "ratio": 0.97, "interval": [0.9, 1.05]},
            {"key": "upstream-ring", "allocator": "upstream", "state": "ran", "ratio": 1.2, "interval": [1.1, 1.3]},
            {"key": "jemalloc", "allocator": "jemalloc", "state": "ran", "ratio": 0.98, "interval": [0.95, 1.01]}]},
            {"id": "S1/pair/99", "class": "blocks", "title": "more", "op": "pair", "trusted": true, "rows": [
            {"key": "glibc", "allocator": "glibc", "state": "ran", "ratio": 1.0},
            {"key": "ring", "allocator": "RingAlloc", "state": "ran", "ratio": 3.0, "interval": [2.9, 3.1]},
            {"key": "one-ring", "allocator": "OneRingAlloc", "state": "ran", "ratio": 1.5, "interval": [0.9, 2.1]},
            {"key": "pool", "allocator": "Pool", "state": "ran", "ratio": 2.0, "interval": [1.9, 2.1]}]}]}"#;

    #[test]
    fn a_line_has_the_winner_in_bold_and_marks_overlapping_intervals() {
        let recorded = RecordedBench::parse(SUMMARY).unwrap();
        let line = |id: &str, ours: &str| {
            line(&recorded, &(id.to_owned(), ours.to_owned(), "upstream-ring".to_owned()))
        };
        assert_eq!(
            line("S1/pair/64", "ring").unwrap(),
            "| [pairs: many](docs/benchmarks/results.md#s1pair64) | **0.25** RingAlloc | 0.50 jemalloc | ≈ 0.26 | 1 |\n"
        );
        // The interval of the lowest ratio contains 1, so the line has no winner.
        assert_eq!(
            line("S1/pair/98", "ring").unwrap(),
            "| [close](docs/benchmarks/results.md#s1pair98) | ≈ 0.97 RingAlloc | ≈ 0.98 jemalloc | 1.20 | ≈ 1 |\n"
        );
        assert_eq!(line("S1/pair/64", "one-ring"), None);
        assert_eq!(line("S9", "ring"), None);
    }

    #[test]
    fn the_losses_list_one_certain_loss_of_each_family() {
        let losses = losses(&RecordedBench::parse(SUMMARY).unwrap()).unwrap();
        assert!(losses.contains("| 3.00 RingAlloc | 1.00 glibc | 3.0 | 1.50 OneRingAlloc |"), "{losses}");
        assert_eq!(losses.lines().count(), 3, "{losses}");
        let none = SUMMARY.replace("true", "false");
        assert!(!super::losses(&RecordedBench::parse(&none).unwrap()).unwrap().contains('|'));
    }

    #[test]
    fn anchors_are_those_of_the_headings() {
        assert_eq!(anchor("S1-objects/pair/32"), "docs/benchmarks/results.md#s1-objectspair32");
        assert_eq!(anchor("S5/reserve_exact/1e-2"), "docs/benchmarks/results.md#s5reserve_exact1e-2");
    }

    #[test]
    fn the_record_has_four_to_six_rows_of_each_table() {
        let root = Workspace::load().unwrap().root;
        let recorded = RecordedBench::load(&root.join(RECORD)).unwrap();
        let classes = tables::tables().unwrap().classes;
        for class in &classes {
            let rows = class.rows.iter().filter_map(|row| line(&recorded, row)).count();
            assert!((4..=6).contains(&rows), "{} has {rows} rows in the record", class.heading);
        }
        assert_eq!(super::tables(&recorded, &classes).unwrap().matches("\n### ").count(), classes.len() + 1);
    }
}
