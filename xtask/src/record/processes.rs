//! Finds out which processes belong to a recording, and which still write to a trace.
//!
//! A process that ran in its own PID namespace may have one ID here and another in its trace. A
//! process with the ID from a trace is therefore not always the recorded process.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ephemera_recorder::PATH_VARIABLE;

/// Returns whether process `pid` has the trace at `path` mapped.
pub(super) fn writes(pid: u32, path: &Path) -> bool {
    // Compare only the last two components: `/proc/PID/maps` lists the path with its links
    // resolved, and the name of the recording's directory is unique.
    let (Some(name), Some(dir)) = (path.file_name(), path.parent().and_then(Path::file_name)) else {
        return false;
    };
    let end = [b"/", dir.as_bytes(), b"/", name.as_bytes()].concat();
    let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.split(|byte| *byte == b'\n').any(|line| line.ends_with(&end))
}

/// Returns whether any process has the environment of the recording whose traces are in `parts`.
pub(super) fn any_belongs_to(parts: &Path) -> bool {
    let Ok(entries) = fs::read_dir("/proc") else { return false };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.into_iter().any(|pid| has_environment(pid, parts))
}

/// Returns whether process `pid` is a descendant of this one, or has the environment of the
/// recording whose traces are in `parts`.
pub(super) fn belongs_to(pid: u32, parts: &Path) -> bool {
    let own = std::process::id();
    let mut above = Some(pid);
    while let Some(ancestor) = above.filter(|pid| *pid > 0) {
        if ancestor == own {
            return true;
        }
        above = parent(ancestor);
    }
    // A process whose parent has ended is no longer a descendant.
    has_environment(pid, parts)
}

/// Returns whether process `pid` was started with the environment of the recording whose traces are
/// in `parts`.
fn has_environment(pid: u32, parts: &Path) -> bool {
    let variables = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let named = |pair: &[u8]| {
        let value = pair.strip_prefix(PATH_VARIABLE.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
        value.is_some_and(|value| Path::new(OsStr::from_bytes(value)).parent() == Some(parts))
    };
    variables.split(|byte| *byte == 0).any(named)
}

/// Returns the parent of process `pid`, or `None` if there is no such process.
fn parent(pid: u32) -> Option<u32> {
    let line = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The command is in parentheses and may contain any byte. The state and the parent follow.
    let end = line.iter().rposition(|byte| *byte == b')')?;
    core::str::from_utf8(&line[end + 1..]).ok()?.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_descendant_or_a_process_with_the_environment_is_of_the_recording() {
        let parts = Path::new("/d/trace.processes/00c0ffee12345678");
        let own = std::process::id();
        assert!(parent(own).is_some() && parent(u32::MAX).is_none());
        assert!(belongs_to(own, parts) && !belongs_to(1, parts) && !belongs_to(u32::MAX, parts));
        assert!(!has_environment(own, parts));
        let mut child = Command::new("cat");
        child.env(PATH_VARIABLE, parts.join("p")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child.spawn().expect("there is a `cat`");
        // The child has its environment when it answers.
        child.stdin.as_mut().expect("a pipe").write_all(b"x").expect("the child reads it");
        child.stdout.as_mut().expect("a pipe").read_exact(&mut [0]).expect("the child writes it");
        assert!(belongs_to(child.id(), parts) && has_environment(child.id(), parts) && any_belongs_to(parts));
        assert!(!has_environment(child.id(), Path::new("/d/trace.processes/00c0ffee12345679")));
        drop(child.stdin.take());
        child.wait().expect("it is our child");
    }

    #[test]
    fn a_process_writes_to_the_trace_that_it_has_mapped() {
        let own = std::process::id();
        let program = fs::read_link("/proc/self/exe").expect("the program has a file");
        assert!(writes(own, &program) && !writes(u32::MAX, &program));
        assert!(!writes(own, &program.with_extension("other")));
    }
}
