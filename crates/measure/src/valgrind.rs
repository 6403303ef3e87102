//! Runs of valgrind, and the types of `icount.json`, the file of instruction counts.
#![forbid(unsafe_code)]
#![expect(clippy::std_instead_of_alloc, reason = "the crate is for programs of a host")]

use std::collections::BTreeMap;
use std::env;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// The name of the program.
pub const VALGRIND: &str = "valgrind";

/// Returns a valgrind command with a minimal environment, so that variables of the user do not
/// configure an allocator. The environment lies at the base of the stack, so its length also shifts
/// the address of every stack frame.
#[must_use]
pub fn valgrind() -> Command {
    let mut command = Command::new(VALGRIND);
    command.env_clear();
    for name in ["PATH", "VALGRIND_LIB"] {
        command.envs(env::var_os(name).map(|value| (name, value)));
    }
    command
}

/// Instruction counts, and the conditions under which they are valid.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct InstructionCounts {
    /// The version of the Rust compiler.
    pub rustc: String,
    /// The target triple.
    pub target: String,
    /// The description of the build.
    pub build: String,
    /// The C library and its version.
    pub libc: String,
    /// The version of valgrind.
    pub valgrind: String,
    /// The commit of the counted code.
    pub commit: String,
    /// The seed of the workloads' tables.
    pub seed: u64,
    /// The counts of each workload.
    pub workloads: BTreeMap<String, WorkloadCounts>,
}

/// The counts of a workload.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct WorkloadCounts {
    /// The name of an operation.
    pub op: String,
    /// The number of instructions per operation, by the key of the contender.
    pub instructions: BTreeMap<String, f64>,
}
