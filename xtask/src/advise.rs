//! `cargo xtask advise`: estimates from a trace what the traced program would gain from another
//! allocator. The command does not replay the trace.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::shell::Cmd;
use crate::workspace::Workspace;

/// The package that reads traces. It needs no contender, so its build takes less than a minute.
const PACKAGE: &str = "ephemera-trace";

/// The cargo profile that builds the package. No other command builds into the directory of this
/// profile.
const PROFILE: &str = "advise";

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

/// Prints advice about the trace. Returns whether the program that reads the trace succeeded.
pub(crate) fn main(ws: &Workspace, options: &AdviseTraceOptions) -> Result<bool> {
    let mut command = program(ws).arg("advise").arg(std::path::absolute(&options.trace)?);
    if let Some(html) = &options.html {
        command = command.arg("--html").arg(std::path::absolute(html)?);
    }
    command.run()
}

/// Returns the command that builds and runs the program that reads traces.
fn program(ws: &Workspace) -> Cmd {
    ws.cargo().args(["run", "--quiet", "--profile", PROFILE, "--package", PACKAGE, "--"])
}

#[cfg(test)]
mod tests {
    use super::{PROFILE, program};
    use crate::bench;
    use crate::workspace::Workspace;

    /// Returns the directory of a profile below cargo's output directory.
    fn directory(profile: &str) -> &str {
        match profile {
            "bench" => "release",
            "dev" | "test" => "debug",
            other => other,
        }
    }

    /// In a shared directory, each command would overwrite the recorder that the other command
    /// built.
    #[test]
    fn advice_and_measurements_are_built_in_directories_of_their_own() {
        let ws = Workspace::load().unwrap();
        assert!(program(&ws).shown().contains(&format!("--profile {PROFILE} ")));
        let manifest = std::fs::read_to_string(ws.root.join("Cargo.toml")).unwrap();
        assert!(manifest.contains(&format!("[profile.{PROFILE}]")));
        let directories = [PROFILE, bench::PROFILE, bench::THIN, "dev", "icount"].map(directory);
        for (index, one) in directories.iter().enumerate() {
            assert!(!directories[..index].contains(one), "two builds share {one}");
        }
    }
}
