//! `cargo xtask`: the workspace's own commands. This file parses the command line; each command is
//! a module.

#![expect(clippy::std_instead_of_alloc, reason = "a program that always has std")]

mod advise;
mod bench;
mod ci;
mod coherence;
mod controls;
mod cpeers;
#[cfg(test)]
mod examples_tests;
mod icount;
mod libtest;
mod loom;
mod matrix;
mod miri;
#[cfg(test)]
mod pages_tests;
mod programs;
mod progress;
mod readme;
mod record;
mod replay;
mod sanitize;
mod shell;
mod steps;
mod test;
mod tidy;
mod toolchain;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

/// Builds, checks and measures the ephemera workspace.
#[derive(Debug, Parser)]
#[command(
    name = "xtask",
    bin_name = "cargo xtask",
    after_help = "Examples:
  cargo xtask bench --quick     compares our allocators with others
  cargo xtask test              runs the everyday tests
  cargo xtask ci                runs what continuous integration runs
  cargo xtask help miri         explains one command"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compare allocators: build the harness, run it, print tables.
    Bench(bench::BenchOptions),
    /// Record every call that a program makes to its allocator.
    Record(record::RecordOptions),
    /// Replay a recorded program over every general allocator.
    Replay(replay::ReplayTraceOptions),
    /// Estimate what a recorded program would gain from another allocator.
    Advise(advise::AdviseTraceOptions),
    /// Count the cache lines that move between cores for each allocation and free.
    Coherence(coherence::CoherenceOptions),
    /// Save the last measurement, and update the READMEs and docs/benchmarks from it.
    Readme(readme::ReadmeOptions),
    /// Run the everyday tests: unit, integration and doc tests, loom models, unit tests under Miri.
    Test(test::TestOptions),
    /// Run every check that a change must pass.
    Ci(ci::CiOptions),
    /// Run the loom models.
    Loom(loom::command::LoomOptions),
    /// Run the negative controls: each weakens the code, and its test must fail.
    Controls(controls::ControlsOptions),
    /// Run the tests under Miri.
    Miri(miri::MiriOptions),
    /// Run the tests under a sanitizer.
    Sanitize(sanitize::SanitizeOptions),
    /// Check the text of the repository: file sizes, orderings, versions, features, prose.
    Tidy(tidy::TidyOptions),
    /// Install the toolchains and targets that the other commands use.
    #[command(after_help = "Examples:\n  cargo xtask toolchains")]
    Toolchains,
}

fn main() -> ExitCode {
    run(&Cli::parse().command).unwrap_or_else(|error| told(&error))
}

/// Runs a command and returns the exit status of xtask: a failure if a check failed, or for
/// `record` the status of the recorded program.
fn run(command: &Command) -> Result<ExitCode> {
    let ws = Workspace::load()?;
    let passed = match command {
        Command::Record(options) => return Ok(record::main(&ws, options)),
        Command::Bench(options) => bench(&ws, options),
        Command::Replay(options) => replay::main(&ws, options),
        Command::Advise(options) => advise::main(&ws, options),
        Command::Coherence(options) => coherence::main(&ws, options),
        Command::Readme(options) => readme::main(&ws, options),
        Command::Test(options) => test::main(&ws, options),
        Command::Ci(options) => ci::main(&ws, options),
        Command::Loom(options) => loom::command::main(&ws, options),
        Command::Controls(options) => controls::main(&ws, options),
        Command::Miri(options) => miri::main(&ws, options),
        Command::Sanitize(options) => sanitize::main(&ws, options),
        Command::Tidy(options) => tidy::main(&ws, options),
        Command::Toolchains => toolchain::prepare(&ws).map(|()| true),
    }?;
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs `bench`: counts instructions with `--icount`, runs programs with `--programs` or
/// `--scopes`, and runs the harness otherwise.
fn bench(ws: &Workspace, options: &bench::BenchOptions) -> Result<bool> {
    if options.icount {
        icount::main(ws, options)
    } else if options.processes.programs || options.processes.scopes {
        programs::main(ws, options)
    } else {
        bench::main(ws, options)
    }
}

fn told(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {error:#}");
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::CommandFactory;

    #[test]
    fn every_command_parses_and_has_examples() {
        let mut cli = Cli::command();
        cli.build();
        cli.clone().debug_assert();
        for command in cli.get_subcommands().filter(|command| command.get_name() != "help") {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("cargo xtask"), "{} has no example", command.get_name());
        }
    }
}
