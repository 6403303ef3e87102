//! `cargo xtask replay`: replays a trace over every general allocator of the harness.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;

use crate::cpeers::{HARNESS, Support};
use crate::workspace::Workspace;

/// The harness's program that replays traces.
const PROGRAM: &str = "bench-replay";

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cargo xtask replay target/trace/trace
  cargo xtask replay gcc.trace --peers one-ring,mimalloc
  cargo xtask replay gcc.trace --rounds 20 --seed 7

A replay has the threads and remote frees of the program, and touches the memory. It writes TRACE.replay.json, which
`cargo xtask advise` reads. Without a C compiler the contenders written in C are left out, and the command names them.")]
pub(crate) struct ReplayTraceOptions {
    /// The trace to replay.
    trace: PathBuf,
    /// Replay over these contenders: names separated by commas.
    #[arg(long, value_name = "LIST")]
    peers: Option<String>,
    /// The number of rounds; every contender runs once in each.
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    /// The seed of the contenders' order.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// Runs the command.
pub(crate) fn main(ws: &Workspace, options: &ReplayTraceOptions) -> Result<bool> {
    if !ws.package(HARNESS)?.bins.iter().any(|bin| bin == PROGRAM) {
        bail!("the package {HARNESS} has no program {PROGRAM}: this checkout is not complete");
    }
    let support = Support::detect(ws);
    if let Some(left_out) = support.told() {
        eprintln!("{left_out}");
    }
    eprintln!("Building the harness with fat LTO. The first build takes some minutes.");
    let cargo =
        ws.cargo().args(["run", "--quiet", "--profile", "bench", "--package", HARNESS, "--bin", PROGRAM]);
    let mut command = cargo.args(support.arguments()).arg("--").arg(std::path::absolute(&options.trace)?);
    let numbers = [
        ("--peers", options.peers.clone()),
        ("--rounds", options.rounds.map(|rounds| rounds.to_string())),
        ("--seed", options.seed.map(|seed| seed.to_string())),
    ];
    for (flag, value) in numbers {
        if let Some(value) = value {
            command = command.arg(flag).arg(value);
        }
    }
    command.run()
}
