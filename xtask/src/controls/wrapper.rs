//! Passes the cfg of a control to the workspace's own crates only: xtask wraps rustc for cargo.
//!
//! With the cfg in `RUSTFLAGS`, every control would rebuild loom, proptest and all other
//! dependencies. Cargo calls `RUSTC_WORKSPACE_WRAPPER` for members of the workspace only, and
//! separates the builds of different wrappers by the path of the wrapper. A copy of this program
//! named `weaken-NAME` therefore adds the cfg, and all controls share the dependencies.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell::Cmd;
use crate::workspace::Workspace;

/// The start of the file name of a copy of xtask that adds a cfg. The name of the control follows.
const PREFIX: &str = "weaken-";

/// Returns `cargo` with a wrapper that compiles the workspace's crates with the cfg of `control`.
pub(crate) fn wrap(ws: &Workspace, control: &str, cargo: Cmd) -> Result<Cmd> {
    let dir = ws.target_dir("xtask-wrappers");
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let copy = dir.join(format!("{PREFIX}{control}{}", std::env::consts::EXE_SUFFIX));
    place(&this_program()?, &copy).with_context(|| format!("cannot make {}", copy.display()))?;
    Ok(cargo.env("RUSTC_WORKSPACE_WRAPPER", copy))
}

/// Returns a path to the file of this program. Cargo may have replaced that file when it built the
/// tests of xtask; on Linux, `/proc/self/exe` still leads to the file that runs.
fn this_program() -> Result<PathBuf> {
    let running = Path::new("/proc/self/exe");
    if running.exists() {
        return Ok(running.to_owned());
    }
    std::env::current_exe().context("cannot find the file of this program")
}

/// Copies the file `ours` to a temporary file and renames the temporary file to `copy`, so that a
/// concurrent build never starts a partly written file.
fn place(ours: &Path, copy: &Path) -> std::io::Result<()> {
    let fresh = copy.with_extension(format!("new-{}", std::process::id()));
    std::fs::copy(ours, &fresh)?;
    std::fs::rename(&fresh, copy)
}

/// Returns the control's name, or `None` if this process is not a copy of xtask that adds a cfg.
pub(crate) fn control() -> Option<String> {
    control_of(&std::env::args_os().next()?)
}

fn control_of(program: &OsString) -> Option<String> {
    let name = Path::new(program).file_stem()?.to_str()?;
    name.strip_prefix(PREFIX).map(str::to_owned)
}

/// Runs the compiler that the first argument names, with the cfg of `control` added. Returns the
/// exit status of the compiler, or 101 if a signal ended the compiler.
pub(crate) fn compile(control: &str) -> Result<i32> {
    let mut args = std::env::args_os().skip(1);
    let rustc = args.next().context("this is a wrapper for rustc, and cargo starts it")?;
    let status = Command::new(rustc)
        .args(args)
        .arg("--cfg")
        .arg(format!("ephemera_weaken=\"{control}\""))
        .status()
        .context("cannot start rustc")?;
    Ok(status.code().unwrap_or(101))
}

#[cfg(test)]
mod tests {
    use super::control_of;

    #[test]
    fn the_name_of_a_copy_contains_the_control() {
        let control = |path: &str| control_of(&path.into());
        assert_eq!(control("/t/xtask-wrappers/weaken-free_relaxed").as_deref(), Some("free_relaxed"));
        assert_eq!(control("target/debug/xtask"), None);
    }
}
