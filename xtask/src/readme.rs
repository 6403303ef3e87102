//! `cargo xtask readme`: records a measurement, and writes the tables and the picture that quote
//! it. The tables are in `README.md`, in the crates' READMEs and in `docs/benchmarks/results.md`.
//! The picture is on the first page.
//!
//! The record `docs/benchmarks/recorded.json` is committed, so that a test can compare the tables
//! with it.

mod alone;
mod costs;
mod front;
mod picture;
mod recorded;
mod results;
mod tables;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;

use self::recorded::{RECORD, RecordedBench};
use self::tables::ReadmeTables;
use crate::workspace::Workspace;

/// The path of the first page's picture, from the root.
const PICTURE: &str = "docs/benchmarks/standing.svg";

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cargo xtask bench --quick && cargo xtask readme   measures, records and writes the tables
  cargo xtask readme --from results                 records another run
  cargo xtask readme --again                        writes the tables from the record

Writes recorded.json, results.md and standing.svg in docs/benchmarks, and the tables in README.md and crates/*/README.md.
Commit all of them. A test of xtask fails if they do not agree. A run of `bench --thin` is not recorded.")]
pub(crate) struct ReadmeOptions {
    /// Record the summary.json of this directory [default: target/bench].
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Record nothing and write the tables from the record.
    #[arg(long, conflicts_with = "from")]
    again: bool,
}

/// Writes the pages and the picture from the recorded run. Without `--again`, first records the run
/// in the directory of `--from`.
pub(crate) fn main(ws: &Workspace, options: &ReadmeOptions) -> Result<bool> {
    let record = ws.root.join(RECORD);
    if !options.again {
        let dir = options.from.clone().unwrap_or_else(|| ws.target_dir("bench"));
        let file = dir.join("summary.json");
        let summary = RecordedBench::load(&file).with_context(|| {
            format!("there is nothing to record: `cargo xtask bench --quick` writes {}", file.display())
        })?;
        fs::write(&record, summary.of_the_measured_build()?.rounded().text()?)?;
    }
    let recorded = RecordedBench::load(&record)?;
    for (path, text) in files(&ws.root, &recorded)? {
        fs::write(ws.root.join(&path), text).with_context(|| format!("cannot write {path}"))?;
    }
    println!("the pages and {PICTURE} show the run of commit {}", recorded.host.commit);
    Ok(true)
}

/// Returns the path from the root and the new text of each page that the command writes, and of the
/// picture.
fn files(root: &Path, recorded: &RecordedBench) -> Result<Vec<(String, String)>> {
    let ReadmeTables { classes, pages } = tables::tables()?;
    let readme = spliced(root, "README.md", "results", &front::tables(recorded, &classes)?)?;
    let mut files = vec![
        ("README.md".to_owned(), readme),
        (results::RESULTS.to_owned(), results::page(recorded, &classes)?),
        (PICTURE.to_owned(), picture::standing(recorded, &classes)),
    ];
    for page in &pages {
        let path = format!("crates/{}/README.md", page.dir);
        let text = spliced(root, &path, "costs", &costs::table(recorded, page)?)?;
        files.push((path, text));
    }
    Ok(files)
}

/// Returns the text of the page at `path`, with `table` between the markers called `name`. Returns
/// an error if a marker is missing.
pub(crate) fn spliced(root: &Path, path: &str, name: &str, table: &str) -> Result<String> {
    let page = fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))?;
    between(&page, name, table).with_context(|| path.to_owned())
}

fn between(page: &str, name: &str, table: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- {name} -->"), format!("<!-- /{name} -->"));
    let (head, rest) = page.split_once(&begin).with_context(|| format!("the page has no line {begin}"))?;
    let (_, tail) = rest.split_once(&end).with_context(|| format!("the page has no line {end}"))?;
    Ok(format!("{head}{begin}\n{table}{end}{tail}"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::recorded::{RECORD, RecordedBench};
    use super::{between, files};
    use crate::workspace::Workspace;

    #[test]
    fn the_new_table_replaces_the_text_between_the_markers() {
        let page = "a\n<!-- results -->\nold\n<!-- /results -->\nz\n";
        let new = between(page, "results", "new\n").expect("both markers are there");
        assert_eq!(new, "a\n<!-- results -->\nnew\n<!-- /results -->\nz\n");
        assert!(between(page, "costs", "new\n").is_err());
    }

    #[test]
    fn the_committed_pages_and_the_picture_match_the_record() {
        let root = Workspace::load().unwrap().root;
        let recorded = RecordedBench::load(&root.join(RECORD)).unwrap();
        for (path, text) in files(&root, &recorded).unwrap() {
            let committed = fs::read_to_string(root.join(&path)).unwrap();
            assert!(committed == text, "{path} does not match {RECORD}: run `cargo xtask readme --again`");
        }
    }
}
