//! `cargo xtask bench --programs`: runs programs of others over each general allocator.
//!
//! Some programs are linked with each allocator. Others are those of the system, over a preloaded
//! library. Each program runs in a process of its own. A round runs every program over every
//! allocator, in random order, and times are compared within a round. The reference takes part
//! twice, so that a reader sees how far two equal contenders differ. A contender that cannot be
//! built, ends with an error or computes something else gets a cell with the reason.

use anyhow::Result;
use clap::Args;

use crate::bench::BenchOptions;
use crate::workspace::Workspace;

#[cfg(target_os = "linux")]
mod builds;
#[cfg(target_os = "linux")]
mod catalogue;
#[cfg(target_os = "linux")]
mod figures;
#[cfg(target_os = "linux")]
mod page;
#[cfg(target_os = "linux")]
mod preload;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod rounds;

/// The options of `--programs` besides those of every measurement.
#[derive(Debug, Default, Args)]
pub(crate) struct ProgramOptions {
    /// Run programs of others over each general allocator, each in processes of its own; needs
    /// Linux.
    #[arg(long, conflicts_with_all = ["icount", "thin", "baseline", "rest"])]
    pub(crate) programs: bool,
    /// List the programs and the contenders, and run nothing.
    #[arg(long, requires = "programs")]
    list: bool,
    /// Run this number of rounds [default: 7, with --quick 3, with --full 15].
    #[arg(long, requires = "programs", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Write the tables to docs/benchmarks/programs.md too.
    #[arg(long, requires = "programs")]
    record: bool,
}

impl ProgramOptions {
    /// Returns the number of rounds that the user chose.
    pub(crate) fn rounds(&self) -> Option<u32> {
        self.rounds
    }
}

/// Runs the command. Returns `true` if every contender ran every program.
#[cfg(target_os = "linux")]
pub(crate) fn main(ws: &Workspace, options: &BenchOptions) -> Result<bool> {
    rounds::main(ws, options)
}

/// Reports that this system cannot measure processes.
#[cfg(not(target_os = "linux"))]
pub(crate) fn main(_ws: &Workspace, _options: &BenchOptions) -> Result<bool> {
    anyhow::bail!("--programs reads the memory of processes from /proc, which exists on Linux only")
}
