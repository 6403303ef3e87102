//! `cargo xtask ci`: runs every check that a change must pass, and prints one table of results.

use core::time::Duration;

use anyhow::Result;
use clap::Args;

use crate::bench;
use crate::controls;
use crate::cpeers;
use crate::icount;
use crate::loom;
use crate::matrix;
use crate::miri;
use crate::sanitize;
use crate::shell;
use crate::steps::{Outcome, Step, run, select};
use crate::test;
use crate::tidy;
use crate::toolchain::MissingToolchain;
use crate::workspace::Workspace;

/// The default time limit of `ci`, in minutes. After this time, `ci` stops the running commands,
/// and the remaining steps fail.
const MINUTES: u64 = 44;

/// The number of Miri steps that run before the unit tests.
const FIRST_OF_MIRI: usize = 4;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cargo xtask ci                         runs everything, in 25 to 28 minutes on two cores
  cargo xtask ci --list                  lists the steps
  cargo xtask ci --only tidy,fmt,clippy  runs some steps
  cargo xtask ci --only matrix           runs a group of steps
  cargo xtask ci --minutes 120           allows more time on a slow machine

The last line counts the results: `N passed, N failed`, and `, N skipped` if a toolchain is not available.")]
pub(crate) struct CiOptions {
    /// List the steps and run nothing.
    #[arg(long)]
    list: bool,
    /// Run these steps or groups: names separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "STEP,…")]
    only: Vec<String>,
    /// The time limit for all steps, in minutes.
    #[arg(long, default_value_t = MINUTES)]
    minutes: u64,
}

/// Runs or lists the chosen steps. Returns whether no step failed.
pub(crate) fn main(ws: &Workspace, options: &CiOptions) -> Result<bool> {
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
        Step::new(
            "tidy",
            "the text follows the rules: files, comments, prose, versions, features, paths",
            tidy::outcome,
        ),
        Step::new("fmt", "every file is formatted", |ws| {
            ws.cargo()
                .args(["fmt", "--all", "--check"])
                .run_or("some files are not formatted: run `cargo fmt --all`")?;
            Ok(Outcome::Passed(String::new()))
        }),
    ];
    // The steps below run side by side, long steps first. The many short controls come last, so
    // that both lanes end at about the same time. Steps that build in the shared target directory
    // wait for its lock, so Miri steps separate them.
    let mut miri = miri::steps(ws, miri::CI_SEEDS, MissingToolchain::Install)?;
    let rest = miri.split_off(miri.len().min(FIRST_OF_MIRI));
    let mut tests = test::steps(test::TestedPackages::All);
    tests.extend(test::feature_steps(test::BothTraitsExtent::Short));
    steps.push(clippy());
    steps.extend(miri);
    steps.push(tests.remove(0).beside());
    steps.extend(rest);
    steps.push(icount::step().beside());
    steps.push(sanitize::address(ws)?.beside());
    steps.push(bench::smoke().beside());
    steps.extend(loom::steps(ws, loom::PREEMPTIONS)?);
    steps.extend(tests);
    steps.push(docs());
    steps.extend(matrix::steps());
    steps.extend(controls::steps(ws, |_| true)?);
    Ok(steps)
}

fn clippy() -> Step<'static> {
    Step::new("clippy", "all targets pass the lints, warnings denied", |ws| {
        for cargo in lint_commands(ws) {
            cargo
                .args(["--all-targets", "--", "-D", "warnings"])
                .run_or("clippy reports warnings or errors")?;
        }
        Ok(Outcome::Passed(String::new()))
    })
    .beside()
}

/// Returns the commands that run clippy over the workspace. They include the criterion benches if
/// all contenders in C and C++ can be built.
fn lint_commands(ws: &Workspace) -> Vec<shell::Cmd> {
    let clippy = ws.cargo().arg("clippy");
    // The program of `cargo xtask coherence` is behind a feature. A command for that program alone
    // would select other features of its dependencies and check them again.
    let program = ["--features", "ephemera-coherence/program"];
    let mut commands = test::workspace(ws, &clippy);
    if commands.len() == 1 {
        return vec![cpeers::one_library(clippy).arg("--workspace").args(program)];
    }
    commands[0] = commands[0].clone().args(program);
    commands
}

fn docs() -> Step<'static> {
    Step::new("docs", "the documentation builds, warnings denied", |ws| {
        for cargo in test::workspace(ws, &ws.cargo().args(["doc", "--no-deps"])) {
            cargo
                .env_append("RUSTDOCFLAGS", "-Dwarnings")
                .run_or("the documentation does not build without warnings")?;
        }
        Ok(Outcome::Passed(String::new()))
    })
    .beside()
}
