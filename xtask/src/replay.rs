//! `cargo xtask replay`: replays a trace over every general allocator of the harness.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::bench;
use crate::workspace::Workspace;

/// The harness's subcommand that replays traces.
const SUBCOMMAND: &str = "replay";

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cargo xtask replay target/trace/trace
  cargo xtask replay gcc.trace --peers one-ring,mimalloc
  cargo xtask replay gcc.trace --rounds 20 --seed 7
  cargo xtask replay gcc.trace --fat                 takes the build with more contenders

Without --thin or --fat, the command runs the program that `bench` or a replay built last, or the one of `bench --thin` if
there is none.

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
    /// Use the program of `bench --thin`, which takes less time to build.
    #[arg(long, conflicts_with = "fat")]
    thin: bool,
    /// Use the program of `bench` without `--thin`: it has fat LTO and more contenders.
    #[arg(long)]
    fat: bool,
}

/// Replays the trace with the harness. Returns whether the harness succeeded.
pub(crate) fn main(ws: &Workspace, options: &ReplayTraceOptions) -> Result<bool> {
    let arguments = options.passed()?;
    let thin = options.thin || !options.fat && bench::last_is_thin(ws);
    bench::measuring(ws, thin)?.args(arguments).run()
}

impl ReplayTraceOptions {
    /// Returns the arguments of the harness.
    fn passed(&self) -> Result<Vec<OsString>> {
        let mut args = vec![SUBCOMMAND.into(), std::path::absolute(&self.trace)?.into()];
        let numbers = [
            ("--peers", self.peers.clone()),
            ("--rounds", self.rounds.map(|rounds| rounds.to_string())),
            ("--seed", self.seed.map(|seed| seed.to_string())),
        ];
        for (flag, value) in numbers {
            if let Some(value) = value {
                args.extend([flag.into(), value.into()]);
            }
        }
        Ok(args)
    }
}
