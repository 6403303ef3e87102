//! The memory of each contender, measured in a process of its own. A contender that crashes there
//! is left out and is not timed.

use core::error::Error;
use core::time::Duration;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Output, Stdio};
use std::{fs, io};

use bench_harness::trace::{replay, text};

use crate::{open, program};

/// What the program passes to its own processes, and what tests say to it.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Own {
    /// Measure the memory of one contender
    #[arg(long, hide = true, value_name = "KEY")]
    pub(crate) memory_of: Option<String>,
    /// Leave most pages alone
    #[arg(long, hide = true)]
    pub(crate) sparse: bool,
    /// Take so many bytes to be free
    #[arg(long, hide = true, value_name = "BYTES")]
    pub(crate) room: Option<u64>,
}

/// Plays once over a contender, in this process, and prints how much it grew, if the system tells.
pub(crate) fn of_this_process(path: &Path, key: &str, sparse: bool) -> Result<(), Box<dyn Error>> {
    // If memory runs out all the same, the system ends this process first. Best effort.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    let program = program(path, &open(path)?)?;
    // The parent measures only contenders that may play, so naming this one admits it.
    let (players, _) = replay::players(program.is_threaded(), &[key.to_owned()]);
    let entry = players.iter().find(|entry| entry.key == key).ok_or("no such contender")?;
    if let Some(peak) = replay::memory(&program, entry, !sparse) {
        println!("{peak}");
    }
    Ok(())
}

/// Most bytes that a contender took, if that was measured; a note, if it was not.
pub(crate) type Peak = (Option<u64>, Option<String>);

/// Processes that measure.
#[derive(Debug)]
pub(crate) struct Meter<'a> {
    pub(crate) trace: &'a Path,
    /// Most bytes that such a process may take: it is ended before the system must choose whom to
    /// end.
    pub(crate) most: Option<u64>,
    /// Whether most pages are left alone, so that nothing is measured and contenders are only
    /// tried.
    pub(crate) sparse: bool,
}

/// How a process ended.
struct Ended {
    output: Output,
    /// Whether it took too much and the parent ended it.
    too_much: bool,
}

impl Meter<'_> {
    /// Measures a contender, or only tries it; why it cannot play otherwise.
    pub(crate) fn peak_of(&self, key: &str) -> Result<Peak, String> {
        let ended = self.run(key, self.sparse).map_err(|error| error.to_string())?;
        if ended.output.status.success() {
            let peak = String::from_utf8_lossy(&ended.output.stdout).trim().parse().ok();
            let untold = peak.is_none() && !self.sparse;
            let note = untold.then(|| "memory was not measured: the system does not tell it".to_owned());
            return Ok((peak.filter(|_| !self.sparse), note));
        }
        let why = self.why(&ended);
        if !self.sparse && was_killed(ended.output.status) {
            let again = self.run(key, true).map_err(|error| error.to_string())?;
            if again.output.status.success() {
                return Ok((None, Some(format!("the memory of {key} was not measured: {why}"))));
            }
        }
        Err(why)
    }

    /// Runs a process to its end, or until it took too much.
    fn run(&self, key: &str, sparse: bool) -> io::Result<Ended> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("replay").arg(self.trace).args(["--memory-of", key]).args(sparse.then_some("--sparse"));
        command.env("RUST_BACKTRACE", "0");
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut too_much = false;
        // What it says fits the pipes, if 64 lanes do not tell where they are.
        while child.try_wait()?.is_none() {
            if self.most.is_some_and(|most| resident(child.id()) > Some(most)) {
                too_much = true;
                child.kill()?;
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Ended { output: child.wait_with_output()?, too_much })
    }

    /// What is known of a process that failed.
    fn why(&self, ended: &Ended) -> String {
        if ended.too_much {
            let most = text::bytes(self.most.unwrap_or(0));
            return format!("it took more than {most}, most of what is free here, and was ended");
        }
        let mut said = format!("the process ended with {}", ended.output.status);
        if was_killed(ended.output.status) {
            said.push_str(", most likely since memory ran out");
        }
        let errors = String::from_utf8_lossy(&ended.output.stderr);
        // What a panic says stands below its place; any other error is the last line.
        let mut lines = errors.lines().map(str::trim).filter(|line| !line.is_empty());
        let told =
            lines.clone().skip_while(|line| !line.contains("panicked at")).nth(1).or(lines.next_back());
        said.push_str(&told.map(|line| format!(" ({line})")).unwrap_or_default());
        said
    }
}

/// Whether somebody else ended the process: the system, where memory runs out, or we.
fn was_killed(status: ExitStatus) -> bool {
    status.signal() == Some(libc::SIGKILL)
}

/// Bytes that are resident of another process.
fn resident(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(command: &str, too_much: bool) -> Ended {
        let output = Command::new("sh").args(["-c", command]).output().expect("there is a shell");
        Ended { output, too_much }
    }

    #[test]
    fn why_a_process_failed_is_told() {
        let meter = Meter { trace: Path::new(""), most: Some(3 << 30), sparse: false };
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
            let said = meter.why(&ended(command, too_much));
            assert!(said.contains(told), "{said}");
        }
        assert!(resident(std::process::id()).is_some_and(|bytes| bytes > 1 << 16));
    }
}
