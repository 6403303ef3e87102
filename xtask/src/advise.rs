//! `cargo xtask advise`: estimates from a trace what its program would gain from another allocator.
//! Replays nothing.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::workspace::Workspace;

/// The package that reads traces. It needs no contender, so it builds in less than a minute.
const PACKAGE: &str = "ephemera-trace";

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cargo xtask advise target/trace/trace
  cargo xtask advise gcc.trace --html gcc.html       also writes a page with pictures

`cargo xtask record` writes traces. `cargo xtask replay` writes its figures beside the trace, and the advice uses them
if they are there.")]
pub(crate) struct AdviseTraceOptions {
    /// The trace to read.
    trace: PathBuf,
    /// Also write a page with pictures.
    #[arg(long, value_name = "OUT")]
    html: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn main(ws: &Workspace, options: &AdviseTraceOptions) -> Result<bool> {
    let cargo = ws.cargo().args(["run", "--quiet", "--release", "--package", PACKAGE, "--"]);
    let mut command = cargo.arg("advise").arg(std::path::absolute(&options.trace)?);
    if let Some(html) = &options.html {
        command = command.arg("--html").arg(std::path::absolute(html)?);
    }
    command.run()
}
