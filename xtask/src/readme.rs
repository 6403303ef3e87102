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

/// The columns: what the harness calls a contender, and what the table calls it.
const COLUMNS: [(&str, &str); 8] = [
    ("ring", "`RingAlloc`"),
    ("one-ring", "`OneRingAlloc`"),
    ("upstream-ring", "upstream `RingAlloc`"),
    ("upstream-one-ring", "upstream `OneRingAlloc`"),
    ("mimalloc", "mimalloc"),
    ("jemalloc", "jemalloc"),
    ("bumpalo", "bumpalo"),
    ("blink-alloc", "blink-alloc"),
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
    let mut out = String::from("| workload |");
    for (_, title) in COLUMNS {
        write!(out, " {title} |")?;
    }
    out.push_str("\n|---|");
    out.push_str(&"---|".repeat(COLUMNS.len()));
    out.push('\n');
    for workload in &summary.workloads {
        // A title says more behind a colon: where a document is from.
        let title = workload.title.split(':').next().unwrap_or(&workload.title);
        let doubt = if workload.trusted { "" } else { " (untrusted: the reference differed from itself)" };
        write!(out, "| `{}`: {title}{doubt} |", workload.id)?;
        for (key, _) in COLUMNS {
            let ratio = workload.rows.iter().find(|row| row.key == key).and_then(|row| row.ratio);
            match ratio {
                Some(ratio) => write!(out, " {ratio:.2} |")?,
                None => out.push_str(" – |"),
            }
        }
        out.push('\n');
    }
    let Host { commit, cpu, cpus, kernel, libc, rustc } = &summary.host;
    writeln!(out, "\nCommit {commit}, {} run; {cpu}, {cpus} CPUs, {kernel}, {libc}, {rustc}.", summary.mode)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::{Summary, spliced, table};

    const SUMMARY: &str = r#"{"mode": "quick", "other": 1,
        "host": {"commit": "abc", "cpu": "a cpu", "cpus": 2, "kernel": "k", "libc": "l", "rustc": "r"},
        "workloads": [{"id": "S1", "title": "pairs: many", "trusted": false, "rows": [
            {"key": "ring", "ratio": 0.255}, {"key": "mimalloc", "ratio": null}]}]}"#;

    #[test]
    fn a_table_has_a_cell_for_every_column() {
        let summary: Summary = serde_json::from_str(SUMMARY).expect("it is a summary");
        let table = table(&summary).expect("writing to a string does not fail");
        assert!(
            table.contains("| `S1`: pairs (untrusted: the reference differed from itself) | 0.26 | – |"),
            "{table}"
        );
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
