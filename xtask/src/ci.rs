//! `cargo xtask ci`: everything that must hold before a change goes in, in one order, with one table.

use core::time::Duration;

use anyhow::Result;
use clap::Args;

use crate::bench;
use crate::controls;
use crate::icount;
use crate::loom;
use crate::matrix;
use crate::miri;
use crate::sanitize;
use crate::shell;
use crate::steps::{Outcome, Step, run, select};
use crate::test;
use crate::tidy;
use crate::toolchain::Missing;
use crate::workspace::Workspace;

/// Minutes after which running steps are stopped and the others fail.
const MINUTES: u64 = 29;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cargo xtask ci                         everything; ends within half an hour on two cores
  cargo xtask ci --list                  the steps
  cargo xtask ci --only tidy,fmt,clippy  some of them
  cargo xtask ci --only matrix           a group
  cargo xtask ci --minutes 120           on a slow machine

The last line counts: `N passed, N failed`, and `, N skipped` where a toolchain cannot be had.")]
pub(crate) struct Options {
    /// Print the steps and run nothing.
    #[arg(long)]
    list: bool,
    /// Steps or groups, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "STEP,…")]
    only: Vec<String>,
    /// Minutes for all of it.
    #[arg(long, default_value_t = MINUTES)]
    minutes: u64,
}

/// Runs the command.
pub(crate) fn main(ws: &Workspace, options: &Options) -> Result<bool> {
    let todo = select(steps(ws)?, &options.only)?;
    if options.list {
        for step in &todo {
            println!("{:40} {}", step.name, step.what);
        }
        return Ok(true);
    }
    shell::set_deadline(Duration::from_secs(60 * options.minutes));
    Ok(run(ws, todo))
}

fn steps(ws: &Workspace) -> Result<Vec<Step<'_>>> {
    let mut steps = vec![
        Step::new("tidy", "files, comments, versions, features, paths", tidy::outcome),
        Step::new("fmt", "cargo fmt --check", |ws| {
            ws.cargo()
                .args(["fmt", "--all", "--check"])
                .run_or("some files are not formatted: `cargo fmt --all` mends it")?;
            Ok(Outcome::Passed(String::new()))
        }),
        Step::new("clippy", "lints of all targets, warnings denied", |ws| {
            for cargo in with_benches(ws, "clippy") {
                cargo
                    .args(["--all-targets", "--", "-D", "warnings"])
                    .run_or("clippy has something to say")?;
            }
            Ok(Outcome::Passed(String::new()))
        }),
        Step::new("docs", "documentation, warnings denied", |ws| {
            for cargo in test::workspace(ws, &ws.cargo().args(["doc", "--no-deps"])) {
                cargo
                    .env_append("RUSTDOCFLAGS", "-Dwarnings")
                    .run_or("the documentation does not build without warnings")?;
            }
            Ok(Outcome::Passed(String::new()))
        }),
    ];
    steps.extend(test::steps());
    steps.extend(matrix::steps());
    steps.extend(loom::steps(ws)?);
    steps.extend(controls::steps(ws, |_| true)?);
    // Long, and of what they say nothing depends on what else runs. Last come those of which there are many, so that no lane ends early.
    steps.push(icount::step().beside());
    steps.push(bench::smoke().beside());
    steps.push(sanitize::address(ws)?.beside());
    steps.extend(miri::steps(ws, miri::Model::Both, miri::CI_SEEDS, Missing::Install)?);
    Ok(steps)
}

/// As [`test::workspace`], and the criterion benches with it where the C contenders can be built.
fn with_benches(ws: &Workspace, what: &str) -> Vec<shell::Cmd> {
    let commands = test::workspace(ws, &ws.cargo().arg(what));
    if commands.len() == 1 { vec![ws.cargo().args([what, "--workspace"])] } else { commands }
}
