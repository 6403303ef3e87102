//! `cargo xtask bench --programs`: runs third-party programs over each general allocator.
//! `--scopes` measures the operations of a scope, and a service with a scope for each request.
//!
//! Some programs are linked with each allocator. Others are installed on the system and run over a
//! preloaded library. Each run of a program is a separate process. A round runs every program over
//! every allocator, in random order, and times are compared within a round. The reference takes
//! part twice, so that a reader sees how far two equal contenders differ. If a contender cannot be
//! built, ends with an error or computes a different result, its cell states the reason.

use anyhow::Result;

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
#[cfg(target_os = "linux")]
mod scopes;

/// Runs `bench --programs` or `bench --scopes`. Returns `false` if a contender of `--programs`
/// failed a program or computed a different result.
#[cfg(target_os = "linux")]
pub(crate) fn main(ws: &Workspace, options: &BenchOptions) -> Result<bool> {
    if options.processes.scopes { scopes::main(ws, options) } else { rounds::main(ws, options) }
}

/// Reports that this system cannot measure processes.
#[cfg(not(target_os = "linux"))]
pub(crate) fn main(_ws: &Workspace, _options: &BenchOptions) -> Result<bool> {
    anyhow::bail!(
        "--programs and --scopes read the memory of processes from /proc, which exists on Linux only"
    )
}
