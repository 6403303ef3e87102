//! `cargo xtask tidy`: checks of the text that neither rustc nor clippy makes. Each is a function
//! from files to findings in a file of its own.

mod budget;
mod features;
mod lexer;
mod markers;
mod orderings;
mod paths;
mod source;
mod versions;
mod weaken;
mod workflows;

use anyhow::Result;
use clap::Args;

pub(crate) use source::File;

use crate::controls;
use crate::steps::Outcome;
use crate::toolchain;
use crate::workspace::Workspace;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cargo xtask tidy            all checks
  cargo xtask tidy --quiet    without warnings

Checks: length of files, `//!` at their start, ORDERING comments and the functions they name, macros and
markers of unfinished code, `#[ignore]` with a reason, versions said twice, undocumented features, paths of
one machine, negative controls without a row, workflow jobs that nothing waits for.")]
pub(crate) struct Options {
    /// Print errors only.
    #[arg(long, short)]
    quiet: bool,
}

/// Something to be changed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    text: String,
    warning: bool,
}

impl Finding {
    /// An error: `text` says what is wrong, and the way out.
    fn error(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, text: text.into(), warning: false }
    }

    /// Something that need not be changed yet.
    fn warning(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self { warning: true, ..Self::error(path, line, text) }
    }
}

impl core::fmt::Display for Finding {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mark = if self.warning { "warning: " } else { "" };
        write!(f, "{}:{}: {mark}{}", self.path, self.line, self.text)
    }
}

/// Runs the command.
pub(crate) fn main(ws: &Workspace, options: &Options) -> Result<bool> {
    let findings = check(ws)?;
    let errors = print(&findings, !options.quiet);
    println!("tidy: {errors} errors, {} warnings", findings.len() - errors);
    Ok(errors == 0)
}

/// The step of `ci`.
pub(crate) fn outcome(ws: &Workspace) -> Result<Outcome> {
    let findings = check(ws)?;
    let errors = print(&findings, true);
    let warnings = findings.len() - errors;
    Ok(if errors == 0 {
        Outcome::Passed(format!("{warnings} warnings"))
    } else {
        Outcome::Failed(format!("{errors} errors, {warnings} warnings"))
    })
}

fn print(findings: &[Finding], warnings: bool) -> usize {
    for finding in findings.iter().filter(|finding| warnings || !finding.warning) {
        println!("{finding}");
    }
    findings.iter().filter(|finding| !finding.warning).count()
}

fn check(ws: &Workspace) -> Result<Vec<Finding>> {
    let files = source::load(&ws.root)?;
    let facts = versions::Facts {
        channel: toolchain::pinned(ws)?,
        oldest: toolchain::oldest(ws)?,
        nightly: toolchain::NIGHTLY.to_owned(),
        packages: ws.packages.iter().map(|package| (package.name.clone(), package.version.clone())).collect(),
    };
    let names: Vec<_> = controls::load(ws)?.into_iter().map(|control| control.name).collect();
    let mut findings = budget::check(&files);
    findings.extend(orderings::check(&files));
    findings.extend(markers::check(&files));
    findings.extend(features::check(&files));
    findings.extend(versions::check(&files, &facts));
    findings.extend(paths::check(&files));
    findings.extend(weaken::check(&files, &names));
    findings.extend(workflows::check(&files));
    findings.sort();
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::Finding;

    #[test]
    fn a_finding_reads_like_a_compiler_message() {
        assert_eq!(Finding::error("a/b.rs", 7, "what").to_string(), "a/b.rs:7: what");
        assert_eq!(Finding::warning("a/b.rs", 7, "what").to_string(), "a/b.rs:7: warning: what");
    }
}
