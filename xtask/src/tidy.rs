//! `cargo xtask tidy`: checks the text of the repository for faults that rustc and clippy do not
//! report. Each check is a function from files to findings, in its own file.

mod budget;
mod circles;
mod features;
mod finding;
mod ignores;
mod lexer;
mod names;
mod orderings;
mod paths;
mod prose;
mod source;
mod versions;
mod weaken;
mod workflows;

use anyhow::Result;
use clap::Args;

pub(crate) use source::SourceFile;

use finding::Finding;

use crate::controls;
use crate::steps::Outcome;
use crate::toolchain;
use crate::workspace::Workspace;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cargo xtask tidy            runs all checks
  cargo xtask tidy --quiet    prints errors only

Checks the length of files and the `//!` at their start, ORDERING comments and the functions they name, the reason of
each `#[ignore]`, type names with two definitions, files that use each other, versions that prose repeats, documentation
of features, paths of one machine, negative controls and their table, jobs of workflows, the width and the phrases of
comments and pages, and the terms of the glossary.")]
pub(crate) struct TidyOptions {
    /// Print errors only.
    #[arg(long, short)]
    quiet: bool,
}

/// Prints the findings of all checks. Returns whether none of them is an error.
pub(crate) fn main(ws: &Workspace, options: &TidyOptions) -> Result<bool> {
    let findings = check(ws)?;
    let errors = print(&findings, !options.quiet);
    println!("tidy: {errors} errors, {} warnings", findings.len() - errors);
    Ok(errors == 0)
}

/// Runs all checks as a step of `ci`.
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
    let names: Vec<_> = controls::table::load(ws)?.into_iter().map(|control| control.name).collect();
    let mut findings = budget::check(&files);
    findings.extend(orderings::check(&files));
    findings.extend(ignores::check(&files));
    findings.extend(features::check(&files));
    findings.extend(names::check(&files));
    findings.extend(circles::check(&files));
    findings.extend(versions::check(&files, &facts));
    findings.extend(paths::check(&files));
    findings.extend(prose::check(&files));
    findings.extend(weaken::check(&files, &names));
    findings.extend(workflows::check(&files));
    findings.sort();
    Ok(findings)
}
