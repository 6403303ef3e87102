//! `cargo xtask readme`: records a measurement, and writes the tables that quote it into
//! `README.md` and `docs/benchmarks/results.md`.
//!
//! The record `docs/benchmarks/recorded.json` is committed, so that a test can compare the tables
//! with it.

mod recorded;
mod results;

use core::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use self::recorded::{RECORD, RecordedBench, RecordedTable};
use crate::workspace::Workspace;

const BEGIN: &str = "<!-- results -->";
const END: &str = "<!-- /results -->";

/// The path of the page of all figures, from the root.
const RESULTS: &str = "docs/benchmarks/results.md";

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cargo xtask bench --quick && cargo xtask readme   measures, records and writes the tables
  cargo xtask readme --from results                 records another run
  cargo xtask readme --again                        writes the tables from the record

Writes docs/benchmarks/recorded.json, docs/benchmarks/results.md and the table in README.md; commit all three. A test of
xtask fails if they do not agree.")]
pub(crate) struct ReadmeOptions {
    /// Record the summary.json of this directory [default: target/bench].
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Record nothing and write the tables from the record.
    #[arg(long, conflicts_with = "from")]
    again: bool,
}

/// One table: a class of contenders, the table's heading and its columns. A column is the harness's
/// key of a contender and its name in the table.
struct ReadmePart {
    class: &'static str,
    heading: &'static str,
    columns: &'static [(&'static str, &'static str)],
}

const PARTS: [ReadmePart; 4] = [
    ReadmePart {
        class: "blocks",
        heading: "Blocks of any size",
        columns: &[
            ("ring", "`RingAlloc`"),
            ("one-ring", "`OneRingAlloc`"),
            ("pooled-allocator", "`PooledAllocator`"),
            ("upstream-ring", "upstream `RingAlloc`"),
            ("upstream-one-ring", "upstream `OneRingAlloc`"),
            ("mimalloc", "mimalloc"),
            ("jemalloc", "jemalloc"),
            ("snmalloc", "snmalloc"),
            ("bumpalo", "bumpalo"),
            ("bump-scope", "bump-scope"),
            ("blink-alloc", "blink-alloc"),
            ("multitude", "multitude"),
        ],
    },
    ReadmePart {
        class: "objects",
        heading: "Objects of one type",
        columns: &[
            ("shared", "`SharedArena`"),
            ("arena", "`Arena`"),
            ("pool", "`Pool`"),
            ("typed-pool", "`TypedPool`"),
            ("pooled-box", "`PooledBox`"),
            ("upstream-shared", "upstream `SharedArena`"),
            ("upstream-arena", "upstream `Arena`"),
            ("upstream-pool", "upstream `Pool`"),
            ("plurality", "plurality"),
            ("infinity", "infinity_pool"),
            ("sharded-slab", "sharded-slab"),
            ("slab", "slab"),
            ("opool", "opool"),
            ("object-pool", "object-pool"),
            ("textbook", "textbook"),
            ("mimalloc", "mimalloc"),
            ("jemalloc", "jemalloc"),
            ("snmalloc", "snmalloc"),
        ],
    },
    ReadmePart {
        class: "nodes of data structures",
        heading: "Nodes of data structures",
        columns: &[
            ("pooled-allocator", "`PooledAllocator`"),
            ("typed-pool", "`TypedPool`"),
            ("shared", "`SharedArena`"),
            ("pool", "`Pool`"),
            ("one-ring", "`OneRingAlloc`"),
            ("upstream-shared", "upstream `SharedArena`"),
            ("upstream-pool", "upstream `Pool`"),
            ("plurality", "plurality"),
            ("typed-arena", "typed-arena"),
            ("textbook", "textbook"),
            ("mimalloc", "mimalloc"),
            ("jemalloc", "jemalloc"),
            ("snmalloc", "snmalloc"),
            ("cpp-new", "C++ `new`"),
            ("cpp-pmr", "C++ `pmr`"),
            ("cpp-pool", "C++ pool"),
        ],
    },
    ReadmePart {
        class: "buffers",
        heading: "Byte buffers",
        columns: &[
            ("ringal", "`RingAl`"),
            ("upstream-ringal", "upstream `RingAl`"),
            ("bytes", "bytes"),
            ("bytesbuf", "bytesbuf"),
            ("mimalloc", "`Vec` on mimalloc"),
            ("snmalloc", "`Vec` on snmalloc"),
        ],
    },
];

/// Runs the command.
pub(crate) fn main(ws: &Workspace, options: &ReadmeOptions) -> Result<bool> {
    let record = ws.root.join(RECORD);
    if !options.again {
        let dir = options.from.clone().unwrap_or_else(|| ws.target_dir("bench"));
        let file = dir.join("summary.json");
        let summary = RecordedBench::load(&file).with_context(|| {
            format!("there is nothing to record: `cargo xtask bench --quick` writes {}", file.display())
        })?;
        fs::write(&record, summary.rounded().text()?)?;
    }
    let recorded = RecordedBench::load(&record)?;
    let readme = ws.root.join("README.md");
    let old = fs::read_to_string(&readme)?;
    fs::write(&readme, spliced(&old, &table(&recorded)?)?)?;
    fs::write(ws.root.join(RESULTS), results::page(&recorded)?)?;
    println!("README.md and {RESULTS} show the run of commit {}", recorded.host.commit);
    Ok(true)
}

fn spliced(readme: &str, table: &str) -> Result<String> {
    let (head, rest) = readme.split_once(BEGIN).with_context(|| format!("README.md has no line {BEGIN}"))?;
    let (_, tail) = rest.split_once(END).with_context(|| format!("README.md has no line {END}"))?;
    Ok(format!("{head}{BEGIN}\n{table}{END}{tail}"))
}

fn table(recorded: &RecordedBench) -> Result<String> {
    let mut out = String::new();
    for ReadmePart { class, heading, columns } in PARTS {
        let workloads: Vec<_> = recorded.of(class).collect();
        // The recorded build may lack a contender.
        let absent = |key: &str| workloads.iter().all(|workload| workload.ratio(key).is_none());
        let columns: Vec<_> = columns.iter().filter(|(key, _)| !absent(key)).collect();
        if workloads.is_empty() || columns.is_empty() {
            continue;
        }
        write!(out, "### {heading}\n\n{}\n\n| workload |", recorded.told())?;
        for (_, title) in &columns {
            write!(out, " {title} |")?;
        }
        writeln!(out, "\n|---|{}", "---|".repeat(columns.len()))?;
        for workload in workloads {
            line(&mut out, workload, columns.iter().map(|(key, _)| *key))?;
        }
        out.push('\n');
    }
    Ok(out)
}

fn line(out: &mut String, workload: &RecordedTable, keys: impl Iterator<Item = &'static str>) -> Result<()> {
    // The part of a title after a colon is a detail, such as the origin of a document.
    let title = workload.title.split(':').next().unwrap_or(&workload.title);
    let doubt = if workload.trusted { "" } else { " (untrusted: the reference differed from itself)" };
    write!(out, "| `{}`: {title}{doubt} |", workload.id)?;
    for key in keys {
        match workload.ratio(key) {
            Some(ratio) => write!(out, " {ratio:.2} |")?,
            None => out.push_str(" – |"),
        }
    }
    out.push('\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::recorded::{RECORD, RecordedBench};
    use super::{RESULTS, results, spliced, table};
    use crate::workspace::Workspace;

    const SUMMARY: &str = r#"{"format": 1, "mode": "quick", "other": 1, "seed": 1, "processes": 3, "rounds": 15,
        "document": "d", "host": {"commit": "abc", "cpu": "a cpu", "cpus": 2, "kernel": "k", "libc": "l",
        "huge_pages": "h", "rustc": "r", "profile": "p"},
        "workloads": [{"id": "S1", "class": "blocks", "title": "pairs: many", "op": "pair", "trusted": false, "rows": [
            {"key": "ring", "allocator": "RingAlloc", "state": "ran", "ratio": 0.255},
            {"key": "bumpalo", "allocator": "bumpalo", "state": "ran", "ratio": 0.1},
            {"key": "mimalloc", "allocator": "mimalloc", "state": "missing", "ratio": null}]},
            {"id": "S2", "class": "blocks", "title": "more", "op": "pair", "trusted": true, "rows": [
            {"key": "ring", "allocator": "RingAlloc", "state": "ran", "ratio": 0.5},
            {"key": "bumpalo", "allocator": "bumpalo", "state": "missing", "reason": "cannot free"}]}]}"#;

    #[test]
    fn a_table_has_the_columns_with_at_least_one_figure() {
        let table = table(&RecordedBench::parse(SUMMARY).unwrap()).unwrap();
        assert!(table.contains("| workload | `RingAlloc` | bumpalo |\n"), "{table}");
        assert!(
            table.contains("| `S1`: pairs (untrusted: the reference differed from itself) | 0.26 | 0.10 |"),
            "{table}"
        );
        assert!(table.contains("| `S2`: more | 0.50 | – |"), "{table}");
        assert!(
            table.starts_with("### Blocks of any size\n\nCommit abc, quick run; a cpu, 2 CPUs, k, l, r.\n"),
            "{table}"
        );
        assert!(!table.contains("Byte buffers"), "{table}");
    }

    #[test]
    fn the_new_table_replaces_the_text_between_the_markers() {
        let readme = "a\n<!-- results -->\nold\n<!-- /results -->\nz\n";
        let new = spliced(readme, "new\n").expect("both markers are there");
        assert_eq!(new, "a\n<!-- results -->\nnew\n<!-- /results -->\nz\n");
        assert!(spliced("no markers", "new\n").is_err());
    }

    #[test]
    fn the_committed_tables_match_the_record() {
        let root = Workspace::load().unwrap().root;
        let recorded = RecordedBench::load(&root.join(RECORD)).unwrap();
        let way = "does not match docs/benchmarks/recorded.json: run `cargo xtask readme --again`";
        let readme = fs::read_to_string(root.join("README.md")).unwrap();
        assert!(readme == spliced(&readme, &table(&recorded).unwrap()).unwrap(), "README.md {way}");
        let page = fs::read_to_string(root.join(RESULTS)).unwrap();
        assert!(page == results::page(&recorded).unwrap(), "{RESULTS} {way}");
    }
}
