//! The cfg of a control reaches the workspace's own crates alone: xtask stands between cargo and rustc.
//!
//! With the cfg in `RUSTFLAGS` every control would build loom, proptest and the rest anew. Cargo keeps what it
//! built for members of the workspace apart by the path of `RUSTC_WORKSPACE_WRAPPER`, so a copy of this program
//! under the name `weaken-NAME` adds the cfg, and the other crates are shared.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell::Cmd;
use crate::workspace::Workspace;

/// How the name of such a copy begins.
const PREFIX: &str = "weaken-";

/// Makes `cargo` compile the workspace's crates with the control's cfg.
pub(crate) fn wrap(ws: &Workspace, control: &str, cargo: Cmd) -> Result<Cmd> {
    let dir = ws.target_dir("xtask-wrappers");
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let copy = dir.join(format!("{PREFIX}{control}{}", std::env::consts::EXE_SUFFIX));
    let ours = std::env::current_exe().context("cannot find this program's own file")?;
    place(&ours, &copy).with_context(|| format!("cannot make {}", copy.display()))?;
    Ok(cargo.env("RUSTC_WORKSPACE_WRAPPER", copy))
}

/// Puts the file there in one step, so that a compiler that runs beside us never meets half a file.
fn place(ours: &Path, copy: &Path) -> std::io::Result<()> {
    let fresh = copy.with_extension(format!("new-{}", std::process::id()));
    std::fs::copy(ours, &fresh)?;
    std::fs::rename(&fresh, copy)
}

/// The control that this process stands for, if it was started as such a copy.
pub(crate) fn control() -> Option<String> {
    control_of(&std::env::args_os().next()?)
}

fn control_of(program: &OsString) -> Option<String> {
    let name = Path::new(program).file_stem()?.to_str()?;
    name.strip_prefix(PREFIX).map(str::to_owned)
}

/// Runs the compiler that the arguments name, with the cfg added; its exit status.
pub(crate) fn compile(control: &str) -> Result<i32> {
    let mut args = std::env::args_os().skip(1);
    let rustc = args.next().context("this is a wrapper for rustc, to be started by cargo")?;
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
    fn a_copy_knows_its_control_by_its_name() {
        let control = |path: &str| control_of(&path.into());
        assert_eq!(control("/t/xtask-wrappers/weaken-free_relaxed").as_deref(), Some("free_relaxed"));
        assert_eq!(control("target/debug/xtask"), None);
    }
}
