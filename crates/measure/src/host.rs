//! Facts about the host that the head of a report states.
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;
use std::process::Command;

/// Returns the text for a fact that the system does not report.
#[must_use]
pub fn unknown() -> String {
    "unknown".to_owned()
}

/// Returns the contents of a system file, without the white space around them. Returns `None` if
/// the file cannot be read.
#[must_use]
pub fn file(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Returns the first line that a command prints, or an empty text if it prints nothing. Returns
/// `None` if the command cannot start or fails.
#[must_use]
pub fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let out = Command::new(program).args(arguments).output().ok().filter(|out| out.status.success())?;
    Some(String::from_utf8_lossy(&out.stdout).lines().next().unwrap_or_default().trim().to_owned())
}

/// Returns the model name of the processor, if the system reports it.
#[must_use]
pub fn cpu() -> Option<String> {
    let info = file("/proc/cpuinfo")?;
    let line = info.lines().find(|line| line.starts_with("model name") || line.starts_with("Model"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Returns the kernel's setting for transparent huge pages, if the system reports it: `always`,
/// `madvise` or `never`.
#[must_use]
pub fn huge_pages() -> Option<String> {
    let choice = file("/sys/kernel/mm/transparent_hugepage/enabled")?;
    let chosen = choice.split('[').nth(1)?.split(']').next()?;
    Some(chosen.to_owned())
}

/// Returns the commit of the repository at `directory`, followed by `dirty` if files differ from
/// the commit or are untracked. Returns `unknown` if git cannot name a commit.
#[must_use]
pub fn commit(directory: &Path) -> String {
    let directory = directory.to_string_lossy();
    let git = |arguments: &[&str]| first_line("git", &[&["-C", &directory], arguments].concat());
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return unknown() };
    let dirty = git(&["status", "--porcelain"]).is_some_and(|line| !line.is_empty());
    if dirty { format!("{commit} dirty") } else { commit }
}
