//! `cargo xtask advise`: what a trace says about its program, without replaying it.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::replay::harness;
use crate::workspace::Workspace;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cargo xtask advise target/trace/trace
  cargo xtask advise gcc.trace --html gcc.html       and a page with pictures

`cargo xtask record` makes traces. A replay of the same trace (`cargo xtask replay`) leaves its figures beside it, and the
advice then uses those.")]
pub(crate) struct Options {
    /// The trace.
    trace: PathBuf,
    /// Also write a page with pictures.
    #[arg(long, value_name = "OUT")]
    html: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn main(ws: &Workspace, options: &Options) -> Result<bool> {
    // Nothing is measured here, so that contenders and fat LTO are not worth the wait.
    let mut command = harness(ws, "release", false)?.arg("advise").arg(std::path::absolute(&options.trace)?);
    if let Some(html) = &options.html {
        command = command.arg("--html").arg(std::path::absolute(html)?);
    }
    command.run()
}
