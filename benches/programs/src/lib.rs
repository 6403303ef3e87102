//! The real programs of the comparison, as functions. Each executable of this package except
//! `programs-scopes` runs them over one allocator.
//!
//! `programs-ALLOCATOR PROGRAM ROOT` runs one program. Most programs read files of the repository
//! at ROOT. After a successful run, the last line of the output is `checksum` and a number that
//! depends on everything the program computed. If the numbers of two allocators are equal, the
//! program computed the same results over both.

pub mod checksum;
pub mod files;
mod programs;
#[cfg(feature = "scope-costs")]
pub mod scope_costs;

use std::path::Path;
use std::process::ExitCode;

/// Runs the program that the command line names, and prints its checksum. Prints an error and
/// returns a failure code if the program is unknown or fails.
pub fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [program, root] = &arguments[..] else { return failed("usage: PROGRAM ROOT") };
    let name = program.to_string_lossy();
    let Some(run) = programs::find(&name) else {
        return failed(&format!("no program is named `{name}` in this build"));
    };
    match run(Path::new(root)) {
        Ok(checksum) => {
            println!("checksum {checksum}");
            ExitCode::SUCCESS
        }
        Err(error) => failed(&error.to_string()),
    }
}

fn failed(why: &str) -> ExitCode {
    eprintln!("error: {why}");
    ExitCode::FAILURE
}
