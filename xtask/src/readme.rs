//! `cargo xtask readme`: puts the last measurement's ratios between the markers in `README.md`.

use core::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use serde::Deserialize;

use crate::workspace::Workspace;

const BEGIN: &str = "<!-- results -->";
const END: &str = "<!-- /results -->";

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cargo xtask bench --quick && cargo xtask readme
  cargo xtask readme --from results                a report of your own")]
pub(crate) struct Options {
    /// The directory with summary.json [default: target/bench].
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
}

/// What the harness wrote, as far as the table needs it.
#[derive(Debug, Deserialize)]
struct Summary {
    host: Host,
    mode: String,
    workloads: Vec<Workload>,
}

#[derive(Debug, Deserialize)]
struct Host {
    commit: String,
    cpu: String,
    cpus: u32,
    kernel: String,
    libc: String,
    rustc: String,
}

#[derive(Debug, Deserialize)]
struct Workload {
    id: String,
    class: String,
    title: String,
    /// Whether the reference was equal to itself.
    trusted: bool,
    rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
struct Row {
    key: String,
    ratio: Option<f64>,
}

/// One table: a class of contenders, what stands above it, and its columns: what the harness calls a contender, and what
/// the table calls it.
struct Part {
    class: &'static str,
    heading: &'static str,
    columns: &'static [(&'static str, &'static str)],
}

const PARTS: [Part; 4] = [
    Part {
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
            ("bumpalo", "bumpalo"),
            ("blink-alloc", "blink-alloc"),
        ],
    },
    Part {
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
            ("textbook", "textbook"),
            ("mimalloc", "mimalloc"),
            ("jemalloc", "jemalloc"),
        ],
    },
    Part {
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
            ("cpp-new", "C++ `new`"),
            ("cpp-pmr", "C++ `pmr`"),
            ("cpp-pool", "C++ pool"),
        ],
    },
    Part {
        class: "buffers",
        heading: "Byte buffers",
        columns: &[
            ("ringal", "`RingAl`"),
            ("upstream-ringal", "upstream `RingAl`"),
            ("bytes", "bytes"),
            ("bytesbuf", "bytesbuf"),
            ("mimalloc", "`Vec` on mimalloc"),
        ],
    },
];

/// Runs the command.
pub(crate) fn main(ws: &Workspace, options: &Options) -> Result<bool> {
    let dir = options.from.clone().unwrap_or_else(|| ws.target_dir("bench"));
    let file = dir.join("summary.json");
    let text = fs::read_to_string(&file)
        .with_context(|| format!("no {}; `cargo xtask bench --quick` writes one", file.display()))?;
    let summary =
        serde_json::from_str(&text).with_context(|| format!("{} is not a summary", file.display()))?;
    let readme = ws.root.join("README.md");
    let old = fs::read_to_string(&readme)?;
    fs::write(&readme, spliced(&old, &table(&summary)?)?)?;
    Ok(true)
}

fn spliced(readme: &str, table: &str) -> Result<String> {
    let (head, rest) = readme.split_once(BEGIN).with_context(|| format!("README.md has no line {BEGIN}"))?;
    let (_, tail) = rest.split_once(END).with_context(|| format!("README.md has no line {END}"))?;
    Ok(format!("{head}{BEGIN}\n{table}{END}{tail}"))
}

fn table(summary: &Summary) -> Result<String> {
    let mut out = String::new();
    for Part { class, heading, columns } in PARTS {
        let mut workloads = summary.workloads.iter().filter(|workload| workload.class == class).peekable();
        if workloads.peek().is_none() {
            continue;
        }
        write!(out, "### {heading}\n\n| workload |")?;
        for (_, title) in columns {
            write!(out, " {title} |")?;
        }
        writeln!(out, "\n|---|{}", "---|".repeat(columns.len()))?;
        for workload in workloads {
            out.push_str(&workload.row(columns)?);
        }
        out.push('\n');
    }
    let Host { commit, cpu, cpus, kernel, libc, rustc } = &summary.host;
    writeln!(out, "Commit {commit}, {} run; {cpu}, {cpus} CPUs, {kernel}, {libc}, {rustc}.", summary.mode)?;
    Ok(out)
}

impl Workload {
    fn row(&self, columns: &[(&str, &str)]) -> Result<String> {
        // A title says more behind a colon: where a document is from.
        let title = self.title.split(':').next().unwrap_or(&self.title);
        let doubt = if self.trusted { "" } else { " (untrusted: the reference differed from itself)" };
        let mut out = format!("| `{}`: {title}{doubt} |", self.id);
        for (key, _) in columns {
            let ratio = self.rows.iter().find(|row| row.key == *key).and_then(|row| row.ratio);
            match ratio {
                Some(ratio) => write!(out, " {ratio:.2} |")?,
                None => out.push_str(" – |"),
            }
        }
        out.push('\n');
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::{Summary, spliced, table};

    const SUMMARY: &str = r#"{"mode": "quick", "other": 1,
        "host": {"commit": "abc", "cpu": "a cpu", "cpus": 2, "kernel": "k", "libc": "l", "rustc": "r"},
        "workloads": [{"id": "S1", "class": "blocks", "title": "pairs: many", "trusted": false, "rows": [
            {"key": "ring", "ratio": 0.255}, {"key": "mimalloc", "ratio": null}]}]}"#;

    #[test]
    fn a_table_has_a_cell_for_every_column() {
        let summary: Summary = serde_json::from_str(SUMMARY).expect("it is a summary");
        let table = table(&summary).expect("writing to a string does not fail");
        assert!(
            table.contains("| `S1`: pairs (untrusted: the reference differed from itself) | 0.26 | – |"),
            "{table}"
        );
        assert!(table.starts_with("### Blocks of any size\n"), "{table}");
        assert!(!table.contains("Byte buffers"), "{table}");
        assert!(table.contains("Commit abc, quick run; a cpu, 2 CPUs, k, l, r."), "{table}");
    }

    #[test]
    fn the_table_replaces_what_stood_between_the_markers() {
        let readme = "a\n<!-- results -->\nold\n<!-- /results -->\nz\n";
        let new = spliced(readme, "new\n").expect("both markers are there");
        assert_eq!(new, "a\n<!-- results -->\nnew\n<!-- /results -->\nz\n");
        assert!(spliced("no markers", "new\n").is_err());
    }
}
