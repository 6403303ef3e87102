//! Writes `docs/benchmarks/results.md`: every figure of the recorded run, and the rows where a
//! contender of this workspace is behind.

use core::fmt::Write as _;

use anyhow::Result;
use ephemera_measure::summary::{SummaryRow, SummaryTable};

use super::recorded::RecordedBench;
use super::tables::ReadmeClass;

/// The path of the page of all figures, from the root.
pub(super) const RESULTS: &str = "docs/benchmarks/results.md";

/// The keys of this workspace's contenders.
pub(super) const OURS: [&str; 9] =
    ["ring", "one-ring", "ringal", "shared", "arena", "pool", "typed-pool", "pooled-box", "pooled-allocator"];

/// The keys of the general allocators, which serve every request of a program.
const GENERAL: [&str; 4] = ["glibc", "mimalloc", "jemalloc", "snmalloc"];

pub(super) fn page(recorded: &RecordedBench, classes: &[ReadmeClass]) -> Result<String> {
    let RecordedBench { mode, seed, processes, rounds, document, host, .. } = recorded;
    let mut out = String::from(
        "# Results\n\n`cargo xtask readme` writes this page from [recorded.json](recorded.json), and a test compares the two. \
         [Methodology](methodology.md) explains how the figures are made, and [bias](bias.md) why a reader should doubt them.\n\n",
    );
    for (what, value) in [
        ("commit", &host.commit),
        ("run", &format!("{mode}: {processes} processes of {rounds} rounds, seed {seed}")),
        ("cpu", &format!("{}, {} CPUs", host.cpu, host.cpus)),
        ("system", &format!("{}, {}, huge pages {}", host.kernel, host.libc, host.huge_pages)),
        ("build", &format!("{}, {}", host.rustc, host.profile)),
        ("document of R1", document),
    ] {
        writeln!(out, "* {what}: {value}")?;
    }
    writeln!(
        out,
        "\nRatios are to the reference, glibc. They are medians of paired rounds with 95 % intervals, and a ratio below 1 is faster. \
         The peak is the most bytes taken from the system, also as a multiple of the live bytes. With `*` a backing allocator counted \
         them. Otherwise it is the growth of the resident set, which includes a few hundred KiB of the workload's own.\n"
    )?;
    if !recorded.left_to_full.is_empty() {
        writeln!(out, "Left to `--full`: {}.\n", recorded.left_to_full.join(", "))?;
    }
    behind(&mut out, recorded)?;
    for ReadmeClass { class, heading, .. } in classes {
        let workloads: Vec<_> = recorded.of(class).collect();
        if workloads.is_empty() {
            continue;
        }
        writeln!(out, "## {heading}\n\n{}\n", recorded.told())?;
        for workload in workloads {
            section(&mut out, workload)?;
        }
    }
    super::alone::section(&mut out, recorded)?;
    Ok(out.trim_end().to_owned() + "\n")
}

/// Writes the rows where a contender of this workspace is behind the best general allocator, and
/// whether the difference is certain.
fn behind(out: &mut String, recorded: &RecordedBench) -> Result<()> {
    writeln!(
        out,
        "## Where ours are behind\n\n{}\n\nContenders of this workspace whose ratio lies above that of the best general allocator \
         (of {}) in the same table. In the first table, the intervals lie apart. In the second one, they overlap, or the workload is not trusted.\n",
        recorded.told(),
        GENERAL.join(", ")
    )?;
    let (mut certain, mut doubtful) = (String::new(), String::new());
    for workload in &recorded.workloads {
        let Some(best) = best(workload) else { continue };
        for row in workload.rows.iter().filter(|row| OURS.contains(&row.key.as_str())) {
            let Some(times) = row.ratio.zip(best.ratio).map(|(ours, theirs)| ours / theirs) else { continue };
            if times <= 1.0 {
                continue;
            }
            let apart = ends(row).zip(ends(best)).is_some_and(|((low, _), (_, high))| low > high);
            writeln!(
                if apart && workload.trusted { &mut certain } else { &mut doubtful },
                "| `{}` | {} | {} | {} | {} | {times:.2} |",
                workload.id,
                row.allocator,
                ratio(row),
                best.allocator,
                ratio(best)
            )?;
        }
    }
    for (what, lines) in [("Certainly", certain), ("Perhaps", doubtful)] {
        let count = lines.lines().count();
        writeln!(out, "{what} behind: {count}.\n")?;
        if count != 0 {
            writeln!(
                out,
                "| workload | ours | ratio | best general | ratio | times |\n|---|---|---|---|---|---|\n{lines}"
            )?;
        }
    }
    Ok(())
}

/// Returns the row of the general allocator with the lowest ratio, or `None` if no general
/// allocator has a ratio.
pub(super) fn best(workload: &SummaryTable) -> Option<&SummaryRow> {
    let general =
        workload.rows.iter().filter(|row| GENERAL.contains(&row.key.as_str()) && row.ratio.is_some());
    general.min_by(|one, other| one.ratio.unwrap_or(f64::MAX).total_cmp(&other.ratio.unwrap_or(f64::MAX)))
}

/// Returns the ends of a row's interval. If the row has no interval, as for the reference, both
/// ends are the ratio. Returns `None` for a row without a ratio.
pub(super) fn ends(row: &SummaryRow) -> Option<(f64, f64)> {
    row.interval.or(row.ratio.map(|ratio| (ratio, ratio)))
}

fn section(out: &mut String, workload: &SummaryTable) -> Result<()> {
    write!(out, "### {}\n\n{}; ns per {}", workload.id, workload.title, workload.op)?;
    match (workload.aa, workload.aa_interval) {
        (Some(aa), Some((low, high))) => writeln!(out, "; A/A {aa:.3} [{low:.3}, {high:.3}].\n")?,
        _ => writeln!(out, ".\n")?,
    }
    if !workload.trusted {
        writeln!(
            out,
            "**Untrusted: the reference differed from itself, or its ratio to itself is uncertain.**\n"
        )?;
    }
    writeln!(out, "| allocator | ratio (95 %) | verdict | ns | peak | notes |\n|---|---|---|---|---|---|")?;
    for row in &workload.rows {
        let name = if row.version == "none" { "" } else { &row.version };
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} |",
            format!("{} {name}", row.allocator).trim(),
            ratio(row),
            row.verdict.as_deref().unwrap_or("–"),
            row.ns_per_op.map_or_else(|| "–".to_owned(), |ns| ns.to_string()),
            peak(row),
            note(row)
        )?;
    }
    out.push('\n');
    Ok(())
}

fn ratio(row: &SummaryRow) -> String {
    match (row.ratio, row.interval) {
        (Some(ratio), Some((low, high))) if low < high => format!("{ratio:.3} [{low:.3}, {high:.3}]"),
        (Some(ratio), _) => format!("{ratio:.3}"),
        (None, _) => "–".to_owned(),
    }
}

/// Returns the peak in a readable unit, with its ratio to the live bytes if at least 64 KiB were
/// live. Returns a dash for a row without a peak.
pub(super) fn peak(row: &SummaryRow) -> String {
    let Some(peak) = row.peak_bytes else { return "–".to_owned() };
    let bytes = match peak {
        0..10_240 => format!("{peak} B"),
        10_240..10_485_760 => format!("{} KiB", peak / 1024),
        _ => format!("{} MiB", peak / (1024 * 1024)),
    };
    let mark = if row.peak_counted_by.as_deref() == Some("backing allocator") { " \\*" } else { "" };
    match row.peak_live_bytes.filter(|&live| live >= 64 * 1024) {
        Some(live) => format!("{bytes}, {:.2} ×{mark}", peak as f64 / live as f64),
        None => bytes + mark,
    }
}

/// Returns the reason why a row has no figures, or the share of requests that its contender
/// refused. Returns an empty string for any other row.
fn note(row: &SummaryRow) -> String {
    match (row.state.as_str(), &row.reason, row.refused) {
        ("ran", _, Some(share)) => format!("refused {:.2} %, heap instead", share * 100.0),
        ("ran", ..) => String::new(),
        ("missing", Some(reason), _) => reason.clone(),
        (state, Some(reason), _) => format!("{state}: {reason}"),
        (state, None, _) => state.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::readme::recorded::RecordedBench;
    use crate::readme::tables::tables;

    const RECORD: &str = r#"{"format": 1, "mode": "quick", "seed": 7, "processes": 3, "rounds": 15, "document": "d",
        "host": {"commit": "abc", "cpu": "a cpu", "cpus": 2, "kernel": "k", "libc": "l", "huge_pages": "h",
            "rustc": "r", "profile": "p"},
        "workloads": [{"id": "S3", "class": "blocks", "title": "slots", "op": "block", "trusted": true,
            "aa": 1.001, "aa_interval": [0.999, 1.002], "rows": [
            {"key": "glibc", "allocator": "glibc", "version": "2.36", "state": "ran", "ratio": 1.0},
            {"key": "jemalloc", "allocator": "jemalloc", "state": "ran", "ratio": 0.5, "interval": [0.48, 0.52],
                "verdict": "faster", "ns_per_op": 12.5, "peak_bytes": 262144, "peak_live_bytes": 131072,
                "peak_counted_by": "backing allocator"},
            {"key": "ring", "allocator": "RingAlloc", "state": "ran", "ratio": 0.6, "interval": [0.53, 0.7]},
            {"key": "one-ring", "allocator": "OneRingAlloc", "state": "ran", "ratio": 0.53, "interval": [0.5, 0.6]},
            {"key": "bumpalo", "allocator": "bumpalo", "state": "missing", "reason": "cannot free block by block"},
            {"key": "slab", "allocator": "slab", "state": "crashed", "reason": "segmentation fault"}]}]}"#;

    fn page(record: &str) -> String {
        super::page(&RecordedBench::parse(record).unwrap(), &tables().unwrap().classes).unwrap()
    }

    #[test]
    fn the_page_shows_the_machine_all_figures_and_the_rows_behind() {
        let page = page(RECORD);
        let said = "Commit abc, quick run; a cpu, 2 CPUs, k, l, r.\n";
        assert_eq!(page.matches(said).count(), 2, "{page}");
        assert!(
            page.contains("| jemalloc | 0.500 [0.480, 0.520] | faster | 12.5 | 256 KiB, 2.00 × \\* |  |\n"),
            "{page}"
        );
        assert!(page.contains("| bumpalo | – | – | – | – | cannot free block by block |\n"), "{page}");
        assert!(page.contains("| crashed: segmentation fault |\n"), "{page}");
        let (certain, doubtful) = page.split_once("Perhaps behind: 1.").unwrap();
        let row = "| `S3` | RingAlloc | 0.600 [0.530, 0.700] | jemalloc | 0.500 [0.480, 0.520] | 1.20 |\n";
        assert!(certain.contains(row), "{page}");
        let row = "| OneRingAlloc | 0.530 [0.500, 0.600] | jemalloc | 0.500 [0.480, 0.520] | 1.06 |\n";
        assert!(doubtful.contains(row), "intervals that overlap: {page}");
        assert!(!page.contains("| `S3` | glibc"), "{page}");
    }

    #[test]
    fn an_untrusted_table_is_marked_and_gives_no_certain_verdict() {
        let page = page(&RECORD.replace("true", "false"));
        assert!(page.contains("**Untrusted"), "{page}");
        assert!(page.contains("Certainly behind: 0."), "{page}");
        assert!(page.contains("Perhaps behind: 2."), "{page}");
    }
}
