//! Runs one process and measures it: elapsed time, processor time, and memory over time.

use core::time::Duration;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Instant;

use ephemera_measure::os;
use rustix::io::retry_on_intr;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde::{Deserialize, Serialize};

/// The initial time between two readings of a process's memory. The time doubles whenever the
/// sampler drops readings.
const BETWEEN: Duration = Duration::from_millis(5);

/// The number of readings at which the sampler drops every second reading.
const READINGS: usize = 400;

/// A part of the message that the loader prints if it ignores a preloaded library.
const IGNORED: &str = "cannot be preloaded";

/// The figures of a process that ended with status 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ProcessFigures {
    /// The time from the start of the process to its end, in nanoseconds.
    pub(super) wall_ns: u64,
    /// The processor time outside of the kernel, in nanoseconds.
    pub(super) user_ns: u64,
    /// The processor time in the kernel, in nanoseconds.
    pub(super) system_ns: u64,
    /// The peak number of resident bytes.
    pub(super) peak_bytes: u64,
    /// The readings: nanoseconds since the start, and the resident bytes at that time.
    pub(super) resident: Vec<(u64, u64)>,
}

/// The resident bytes of a running process, and their peak so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ProcessMemory {
    resident: u64,
    peak: u64,
}

/// Runs a command and returns its figures and its standard output. Files in `dir` keep the output
/// while the command runs.
///
/// # Errors
/// Returns an error if the command does not start, runs longer than `limit` or fails, or if the
/// loader ignores a preloaded library. The error states the reason.
pub(super) fn run(
    mut command: Command,
    limit: Duration,
    dir: &Path,
) -> Result<(ProcessFigures, Vec<u8>), String> {
    let kept = |name: &str| dir.join(name);
    let file =
        |name: &str| File::create(kept(name)).map_err(|error| format!("cannot keep its output: {error}"));
    command.stdin(Stdio::null()).stdout(file("stdout")?).stderr(file("stderr")?);
    let floor = os::resident_peak();
    let start = Instant::now();
    // `wait4` reaps the child, because std's functions do not return the resources that a child
    // used.
    let child = command.spawn().map_err(|error| format!("it does not start: {error}"))?;
    let id = libc::pid_t::try_from(child.id()).map_err(|_| "its process has no valid number")?;
    let (end, watched) = thread::scope(|scope| {
        let (stop, stopped) = channel();
        let watcher = scope.spawn(move || watch(id, start, limit, &stopped));
        let ended = wait(&child);
        let end = start.elapsed();
        drop(stop);
        // The watcher does not panic.
        (ended.map(|()| end), watcher.join().unwrap_or_default())
    });
    let (status, usage) = reap(id).map_err(|error| format!("its end cannot be read: {error}"))?;
    let end = end.map_err(|error| format!("its end cannot be read: {error}"))?;
    if watched.stopped {
        return Err(format!("stopped: it ran longer than {} s", limit.as_secs()));
    }
    if !status.success() {
        return Err(reason(status, &fs::read_to_string(kept("stderr")).unwrap_or_default()));
    }
    if fs::read_to_string(kept("stderr")).is_ok_and(|text| text.contains(IGNORED)) {
        return Err("the loader ignored its library".to_owned());
    }
    let output = fs::read(kept("stdout")).map_err(|error| format!("its output cannot be read: {error}"))?;
    let nanoseconds = |time: libc::timeval| {
        let count = |part: i64| u64::try_from(part).unwrap_or(0);
        count(time.tv_sec) * 1_000_000_000 + count(time.tv_usec) * 1000
    };
    let figures = ProcessFigures {
        wall_ns: u64::try_from(end.as_nanos()).unwrap_or(u64::MAX),
        user_ns: nanoseconds(usage.ru_utime),
        system_ns: nanoseconds(usage.ru_stime),
        peak_bytes: peak(u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024, watched.peak, floor),
        resident: watched.resident,
    };
    Ok((figures, output))
}

/// Returns the peak of a process in bytes. `at_end` is the kernel's figure at the end of the
/// process, and `seen` is the largest figure that was read before.
///
/// A new process inherits the kernel's figure, here `floor`, from the process that starts it. So
/// `at_end` is the new process's own peak only if it is above `floor`.
fn peak(at_end: u64, seen: u64, floor: Option<u64>) -> u64 {
    if floor.is_some_and(|floor| at_end > floor) { at_end.max(seen) } else { seen }
}

/// Returns why a process failed: its status and the last line of its messages.
fn reason(status: ExitStatus, messages: &str) -> String {
    let last = messages.lines().rev().find(|line| !line.trim().is_empty());
    let said = last.map(|line| format!(": {}", line.trim())).unwrap_or_default();
    match status.signal() {
        Some(signal) => format!("signal {signal} ended it{said}"),
        None => format!("it ended with status {}{said}", status.code().unwrap_or(-1)),
    }
}

/// The readings of a running process, and the peak of its memory in bytes.
#[derive(Debug, Default)]
struct Watched {
    resident: Vec<(u64, u64)>,
    peak: u64,
    /// Whether the process was killed because it ran longer than its time limit.
    stopped: bool,
}

/// Reads the memory of a process until the channel closes, and kills the process after `limit`.
fn watch(id: libc::pid_t, start: Instant, limit: Duration, stop: &Receiver<()>) -> Watched {
    let mut watched = Watched::default();
    let mut between = BETWEEN;
    loop {
        // A process that has ended has no memory.
        if let Some(memory) = memory_of_tree(id) {
            let at = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            watched.resident.push((at, memory.resident));
            watched.peak = watched.peak.max(memory.peak);
            if watched.resident.len() == READINGS {
                halve(&mut watched.resident);
                between *= 2;
            }
        }
        if !watched.stopped && start.elapsed() >= limit {
            watched.stopped = true;
            kill_tree(id);
        }
        if stop.recv_timeout(between) == Err(RecvTimeoutError::Disconnected) {
            return watched;
        }
    }
}

/// Drops every second reading, so that the number of readings of a long process is bounded.
fn halve(readings: &mut Vec<(u64, u64)>) {
    let mut keep = false;
    readings.retain(|_| {
        keep = !keep;
        keep
    });
}

/// Returns the children of a process's first thread, or an empty list if the process has ended.
fn children(id: libc::pid_t) -> Vec<libc::pid_t> {
    let list = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

/// Kills a process and its descendants. If only a compiler's driver were killed, the compiler would
/// go on running.
fn kill_tree(id: libc::pid_t) {
    let children = children(id);
    // SAFETY: `kill` takes numbers and accesses no memory. The runner reaps its own child later, so
    // `id` still names that child. For a descendant, `id` named a process a moment ago.
    unsafe { libc::kill(id, libc::SIGKILL) };
    children.into_iter().for_each(kill_tree);
}

/// Returns the memory of a process, including the resident bytes of its descendants. Returns `None`
/// if the process has ended.
fn memory_of_tree(id: libc::pid_t) -> Option<ProcessMemory> {
    let own = memory(id)?;
    let of_children: u64 =
        children(id).into_iter().filter_map(memory_of_tree).map(|memory| memory.resident).sum();
    let resident = own.resident + of_children;
    Some(ProcessMemory { resident, peak: own.peak.max(resident) })
}

fn memory(id: libc::pid_t) -> Option<ProcessMemory> {
    parse_memory(&fs::read_to_string(format!("/proc/{id}/status")).ok()?)
}

/// Reads the memory from the text of `/proc/PID/status`. Returns `None` for the text of a process
/// that has ended, which lacks these fields.
fn parse_memory(status: &str) -> Option<ProcessMemory> {
    let bytes = |field: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(field))?;
        let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kib * 1024)
    };
    Some(ProcessMemory { resident: bytes("VmRSS:")?, peak: bytes("VmHWM:")? })
}

/// Waits for a child to end, without reaping it.
fn wait(child: &Child) -> io::Result<()> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    retry_on_intr(|| waitid(WaitId::Pid(Pid::from_child(child)), options))?;
    Ok(())
}

/// Reaps a child. Returns its status and the resources that the child and its own children used.
fn reap(id: libc::pid_t) -> io::Result<(ExitStatus, libc::rusage)> {
    loop {
        let mut status = 0;
        // SAFETY: all fields of the structure are numbers, for which zeros are valid.
        let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
        // SAFETY: `status` and `usage` are writable and have the types that the call writes.
        if unsafe { libc::wait4(id, &raw mut status, 0, &raw mut usage) } == id {
            return Ok((ExitStatus::from_raw(status), usage));
        }
        interrupted()?;
    }
}

/// Returns the last error of the operating system, or `Ok` if a signal interrupted the call.
fn interrupted() -> io::Result<()> {
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::process::Command;

    use super::{ProcessMemory, halve, memory, memory_of_tree, parse_memory, peak, run};
    use crate::workspace::Workspace;

    /// Runs a shell command for at most `limit` seconds, with its output in the directory `name`.
    fn shell(name: &str, line: &str, limit: u64) -> Result<(super::ProcessFigures, Vec<u8>), String> {
        let dir = Workspace::load().unwrap().target_dir("xtask-tests").join(name);
        std::fs::create_dir_all(&dir).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        run(command, Duration::from_secs(limit), &dir)
    }

    #[test]
    fn a_process_has_times_memory_and_output() {
        let line = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.1; echo done";
        let (figures, output) = shell("process-good", line, 60).unwrap();
        assert_eq!(output, b"done\n");
        assert!(figures.wall_ns >= 100_000_000, "{figures:?}");
        assert!(figures.user_ns > 0 && figures.user_ns < figures.wall_ns, "{figures:?}");
        assert!(figures.peak_bytes > 0 && figures.resident.len() > 1, "{figures:?}");
        assert!(figures.resident.iter().all(|&(_, bytes)| bytes <= figures.peak_bytes), "{figures:?}");
    }

    #[test]
    fn a_failing_process_is_reported_with_its_status_and_its_last_message() {
        let said = shell("process-status", "echo first >&2; echo last >&2; exit 3", 60).unwrap_err();
        assert_eq!(said, "it ended with status 3: last");
        let said = shell("process-signal", "kill -SEGV $$", 60).unwrap_err();
        assert_eq!(said, "signal 11 ended it");
    }

    #[test]
    fn a_library_that_the_loader_ignores_is_a_failure() {
        let said = shell("process-loader", "LD_PRELOAD=/no/such/library.so ls -d .", 60).unwrap_err();
        assert_eq!(said, "the loader ignored its library");
    }

    #[test]
    fn a_process_beyond_its_time_limit_is_stopped() {
        let said = shell("process-long", "exec sleep 600", 1).unwrap_err();
        assert_eq!(said, "stopped: it ran longer than 1 s");
    }

    #[test]
    fn children_of_a_stopped_process_end_too_and_their_memory_is_counted() {
        let child = Command::new("sh").args(["-c", "sleep 600 & sleep 600 & wait"]).spawn();
        let mut child = child.unwrap();
        let id = libc::pid_t::try_from(child.id()).unwrap();
        while super::children(id).len() < 2 {
            std::thread::yield_now();
        }
        let children = super::children(id);
        let (own, all) = (memory(id).unwrap().resident, memory_of_tree(id).unwrap().resident);
        super::kill_tree(id);
        child.wait().unwrap();
        assert!(all > own, "{all} bytes of the tree, {own} of its root");
        // A killed process may keep its memory for a moment.
        while children.iter().any(|&child| memory(child).is_some()) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_program_that_does_not_exist_is_reported_as_not_started() {
        let dir = Workspace::load().unwrap().target_dir("xtask-tests").join("process-none");
        std::fs::create_dir_all(&dir).unwrap();
        let said = run(Command::new("/no/such/program"), Duration::from_secs(1), &dir).unwrap_err();
        assert!(said.starts_with("it does not start: "), "{said}");
    }

    #[test]
    fn the_peak_that_a_child_inherits_is_not_its_own() {
        assert_eq!(peak(9000, 4000, Some(9000)), 4000);
        assert_eq!(peak(9001, 4000, Some(9000)), 9001);
        assert_eq!(peak(9001, 9500, Some(9000)), 9500);
        assert_eq!(peak(9000, 4000, None), 4000);
    }

    #[test]
    fn half_of_the_readings_of_a_long_process_stay() {
        let mut readings = (0..7).map(|at| (at, at)).collect();
        halve(&mut readings);
        assert_eq!(readings, [(0, 0), (2, 2), (4, 4), (6, 6)]);
    }

    #[test]
    fn memory_is_read_from_the_text_of_the_kernel() {
        let text = "Name:\tsyn\nVmPeak:\t  999 kB\nVmHWM:\t   84180 kB\nVmRSS:\t   80000 kB\nThreads:\t1\n";
        let expected = ProcessMemory { resident: 80_000 * 1024, peak: 84_180 * 1024 };
        assert_eq!(parse_memory(text), Some(expected));
        assert_eq!(parse_memory("Name:\tsyn\nState:\tZ (zombie)\n"), None);
    }
}
