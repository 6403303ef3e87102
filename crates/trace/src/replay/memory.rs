//! Measures the memory of each candidate in a separate process. The replay leaves out a candidate
//! that cannot play in its process, and does not time it.
#![forbid(unsafe_code)]

use core::error::Error;
use core::time::Duration;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Output, Stdio};
use std::{fs, io};

use crate::output;
use crate::units::bytes;
use ephemera_measure::os;

use super::{Field, ReplayProgram};

/// The subcommand by which the calling program runs [`run`](super::run).
pub const SUBCOMMAND: &str = "replay";

/// Replays `program` once over the contender `key`, and prints by how many bytes the resident set
/// of this process grew at its peak. Prints nothing if the system does not report the resident set.
pub(super) fn measure_this_process(
    program: &ReplayProgram,
    key: &str,
    field: &Field,
    sparse: bool,
) -> Result<(), Box<dyn Error>> {
    // Best effort: after this write, the system kills this process first if memory runs out.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    let candidate = field.candidates.iter().find(|one| one.key == key).ok_or("no such contender")?;
    let mut play = (candidate.build)(program, !sparse);
    os::trim();
    os::reset_peak();
    let before = os::resident();
    play();
    if let (Some(before), Some(peak)) = (before, os::resident_peak()) {
        output::print(&format!("{}\n", peak.saturating_sub(before)))?;
    }
    Ok(())
}

/// The highest growth of the resident set in bytes, if it was measured, and a note if the
/// measurement failed.
pub(super) type MeasuredPeak = (Option<u64>, Option<String>);

/// Starts the child processes that measure the memory of candidates.
#[derive(Debug)]
pub(super) struct MemoryMeter<'a> {
    pub(super) trace: &'a Path,
    /// The maximum memory of a child process, in bytes. The meter kills a child process that
    /// exceeds this limit, before the system must choose a process to kill.
    pub(super) limit: Option<u64>,
    /// Whether a play leaves most pages untouched. If so, the meter does not measure memory, and
    /// only checks that each candidate can play.
    pub(super) sparse: bool,
}

impl MemoryMeter<'_> {
    /// Plays the trace over a candidate in a child process, and returns the growth of the child's
    /// resident set. If `sparse` is set, only checks that the candidate can play. If the child was
    /// killed, a second, sparse child makes this check. The error says why the candidate cannot
    /// play.
    pub(super) fn peak_of(&self, key: &str) -> Result<MeasuredPeak, String> {
        let (output, too_much) = self.run(key, self.sparse).map_err(|error| error.to_string())?;
        if output.status.success() {
            let peak = String::from_utf8_lossy(&output.stdout).trim().parse().ok();
            let untold = peak.is_none() && !self.sparse;
            let note = untold.then(|| "memory was not measured: the system does not report it".to_owned());
            return Ok((peak.filter(|_| !self.sparse), note));
        }
        let why = self.why(&output, too_much);
        if !self.sparse && was_killed(output.status) {
            let (again, _) = self.run(key, true).map_err(|error| error.to_string())?;
            if again.status.success() {
                return Ok((None, Some(format!("the memory of {key} was not measured: {why}"))));
            }
        }
        Err(why)
    }

    /// Returns the command of a child process. On Linux, the child process ends when this process
    /// ends.
    fn command(&self, key: &str, sparse: bool) -> io::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(SUBCOMMAND).arg(self.trace).args(["--memory-of", key]).args(sparse.then_some("--sparse"));
        command.args(["--parent", &std::process::id().to_string()]);
        command.env("RUST_BACKTRACE", "0");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }

    /// Runs a child process until it ends, and kills it if it exceeds the limit. Returns its
    /// output, and whether the meter killed it.
    fn run(&self, key: &str, sparse: bool) -> io::Result<(Output, bool)> {
        let mut child = self.command(key, sparse)?.spawn()?;
        let mut too_much = false;
        // The output of 64 panicking lanes fits into the pipes if they print no backtraces.
        while child.try_wait()?.is_none() {
            if self.limit.is_some_and(|limit| resident(child.id()) > Some(limit)) {
                too_much = true;
                child.kill()?;
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok((child.wait_with_output()?, too_much))
    }

    /// Returns why a process failed, in words. `too_much` says whether the meter killed it.
    fn why(&self, output: &Output, too_much: bool) -> String {
        if too_much {
            let limit = bytes(self.limit.unwrap_or(0));
            return format!("it took more than {limit}, most of the free memory, and was killed");
        }
        let mut said = format!("the process ended with {}", output.status);
        if was_killed(output.status) {
            said.push_str(", most likely because memory ran out");
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        // The message of a panic follows the line with its source position. Any other error is in
        // the last line.
        let mut lines = errors.lines().map(str::trim).filter(|line| !line.is_empty());
        let told =
            lines.clone().skip_while(|line| !line.contains("panicked at")).nth(1).or(lines.next_back());
        said.push_str(&told.map(|line| format!(" ({line})")).unwrap_or_default());
        said
    }
}

/// Returns whether SIGKILL ended the process. The system sends that signal when memory runs out.
fn was_killed(status: ExitStatus) -> bool {
    status.signal() == Some(libc::SIGKILL)
}

/// Returns the size of the resident set of the process `pid` in bytes, or `None` if the system does
/// not report it.
fn resident(pid: u32) -> Option<u64> {
    os::reported(&format!("/proc/{pid}/status"), "VmRSS:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_process_knows_its_parent() {
        let meter = MemoryMeter { trace: Path::new("a trace"), limit: None, sparse: false };
        let command = meter.command("glibc", false).expect("this program has a path");
        let own = std::process::id().to_string();
        let arguments: Vec<_> = command.get_args().collect();
        assert!(arguments.windows(2).any(|pair| pair[0] == "--parent" && *pair[1] == *own), "{arguments:?}");
    }

    #[test]
    fn the_reason_of_a_failed_process_is_printed() {
        let meter = MemoryMeter { trace: Path::new(""), limit: Some(3 << 30), sparse: false };
        for (command, too_much, told) in [
            ("echo first >&2; echo last >&2; exit 3", false, "exit status: 3 (last)"),
            (
                "echo 'thread panicked at x:1:' >&2; echo refused >&2; echo note: more >&2; exit 101",
                false,
                "(refused)",
            ),
            ("kill -9 $$", false, "memory ran out"),
            ("kill -9 $$", true, "more than 3.0 GiB"),
        ] {
            let output = Command::new("sh").args(["-c", command]).output().expect("there is a shell");
            let said = meter.why(&output, too_much);
            assert!(said.contains(told), "{said}");
        }
        assert!(resident(std::process::id()).is_some_and(|bytes| bytes > 1 << 16));
    }
}
