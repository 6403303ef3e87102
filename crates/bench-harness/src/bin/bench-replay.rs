//! `bench-replay`: replays the trace of a program over every general allocator of the harness.

use std::process::ExitCode;

use bench_harness::host::Host;
use bench_harness::{contenders, replay};
use clap::Parser;
use ephemera_trace::replay::{ReplayOptions, run};

/// Replays the trace of a program over every general allocator
#[derive(Debug, Parser)]
#[command(version, after_help = "Example:\n  bench-replay TRACE --peers mimalloc,one-ring")]
struct ReplayArguments {
    #[command(flatten)]
    options: ReplayOptions,
}

fn main() -> ExitCode {
    let arguments = ReplayArguments::parse();
    if Host::unoptimised() {
        eprintln!("warning: built without optimisation; the figures mean nothing (use `--profile bench`)");
    }
    match run(&arguments.options, &contenders::keys(), replay::field) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-replay: {error}");
            ExitCode::FAILURE
        }
    }
}
