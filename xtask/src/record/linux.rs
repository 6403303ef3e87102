//! Records a program: locks the directory of the traces, runs the program with the recorder
//! preloaded, and describes the result.

use core::fmt::Write as _;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Error, Result, anyhow, bail};
use ephemera_recorder::format::{FILE_HEADER, Origin, PACKET_HEADER};
use ephemera_recorder::{DEFAULT_LIMIT, LIMIT_VARIABLE, PATH_VARIABLE, Summary, Trace};

use super::place::TracePlace;
use super::running::BlockedSignals;
use super::{RecordOptions, environment, processes, program, running};
use crate::progress::Spinner;
use crate::shell::tell;
use crate::workspace::Workspace;

const RECORDER: &str = "ephemera-recorder";

/// The number of processes that the summary lists in addition to the largest.
const LISTED: usize = 8;

/// The number of recorded calls below which the summary names the allocators that the program
/// contains, because the program may use one of them.
const FEW: u64 = 10_000;

/// The exit statuses of the tool's own failures: the recording failed, the program cannot be run,
/// or there is no such program. `env` and `nice` use the same statuses.
const FAILED: u8 = 125;
const NOT_RUNNABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

#[derive(Debug)]
struct RecordedProcess {
    path: PathBuf,
    bytes: u64,
    pid: u32,
    command: String,
    /// Whether the trace of the process has at least one call.
    called: bool,
    /// Whether the executable of the process has a `malloc` that takes precedence over the
    /// recorder's.
    bypassed: bool,
}

/// Runs `record`. Returns the exit status of the program. If the recording failed and the program
/// succeeded or did not run, returns a status of the tool instead.
pub(crate) fn main(ws: &Workspace, options: &RecordOptions) -> ExitCode {
    let mut status = FAILED;
    if let Err(error) = record(ws, options, &mut status) {
        tell(&format!("error: {error:#}"));
        // The tool returns the exit status of a failed program. If the program succeeded, the
        // tool's status reports that no trace was kept.
        status = if status == 0 { FAILED } else { status };
    }
    ExitCode::from(status)
}

fn record(ws: &Workspace, options: &RecordOptions, status: &mut u8) -> Result<()> {
    let (name, arguments) = options.command.split_first().context("name the program to record")?;
    // `signals` is declared before `place` and so dropped after it: no signal ends the tool before
    // `place` has removed its directories.
    let signals;
    let mut place = TracePlace::take(match &options.out {
        Some(path) => std::path::absolute(path)
            .with_context(|| format!("cannot find {}: name an absolute path with --out", path.display()))?,
        None => ws.target_dir("trace").join("trace"),
    })?;
    let library = library(ws)?;
    let variables = environment::of_the_user(&ws.target);
    let file = program::find(name, variables.get(OsStr::new("PATH")).map(OsString::as_os_str));

    let limit = options.max_bytes.unwrap_or(DEFAULT_LIMIT);
    let mut command = Command::new(name);
    let preloads = preloads(&library, variables.get(OsStr::new("LD_PRELOAD")));
    command.args(arguments).env_clear().envs(variables);
    command.env("LD_PRELOAD", preloads).env(PATH_VARIABLE, place.parts.join("p"));
    command.env(LIMIT_VARIABLE, limit.to_string());
    signals = BlockedSignals::block();
    let ended = match running::run(&mut command, &place.parts, &signals) {
        Ok(ended) => ended,
        Err(error) => {
            *status = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUNNABLE };
            return Err(Error::new(error).context(format!("cannot start `{}`", name.to_string_lossy())));
        }
    };
    *status = running::code(ended);
    if !ended.success() {
        tell(&format!("note: the program ended with {ended}; the trace has its calls until then"));
    }

    let mut others = recorded(&place.parts)?;
    if others.is_empty() {
        bail!("{}", no_trace(name, file.as_deref(), limit));
    }
    let largest = others.remove(0);
    let still_runs = processes::writes(largest.pid, &largest.path);
    place.keep(&largest.path, still_runs)?;
    if still_runs {
        tell(&format!("note: process {} still runs; its further calls are added to its trace", largest.pid));
    }
    let said = describe(&place, &largest, &others, file.as_deref())?;
    // A closed standard output must not fail the recording.
    let _ = io::stdout().write_all(said.as_bytes());
    Ok(())
}

/// Builds the recorder and returns the path of its library.
fn library(ws: &Workspace) -> Result<PathBuf> {
    ws.package(RECORDER)?;
    // The build has its own directory, because other builds create the library without the feature
    // `preload`.
    let dir = ws.target_dir("recorder");
    nameable(&dir)?;
    let build = ws
        .cargo()
        .args(["build", "--quiet", "--release", "--package", RECORDER, "--lib", "--features", "preload"])
        .arg("--target-dir")
        .arg(&dir);
    build.run_or("the recorder does not build; the messages are above")?;
    Ok(dir.join("release").join("libephemera_recorder.so"))
}

/// Returns an error if the loader would split the path `dir` into several paths.
fn nameable(dir: &Path) -> Result<()> {
    let separates = |byte: &u8| byte.is_ascii_whitespace() || *byte == b':';
    if dir.as_os_str().as_encoded_bytes().iter().any(separates) {
        bail!(
            "the recorder would be built in `{}`, and LD_PRELOAD cannot name a path with a space or a colon: set \
             CARGO_TARGET_DIR to a directory without one",
            dir.display()
        );
    }
    Ok(())
}

/// Returns the value of `LD_PRELOAD`: the recorder, then the libraries that the user already
/// preloads.
fn preloads(library: &Path, had: Option<&OsString>) -> OsString {
    let mut all = library.as_os_str().to_owned();
    if let Some(had) = had.filter(|had| !had.is_empty()) {
        all.push(":");
        all.push(had);
    }
    all
}

/// Returns the traces in a directory, the largest first.
fn recorded(dir: &Path) -> Result<Vec<RecordedProcess>> {
    let unreadable = |error| {
        anyhow!(
            "cannot read the traces in {}: {error}. If the program removed them, choose another place with --out",
            dir.display()
        )
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        // A process that was killed before it wrote the header left no readable trace.
        let Ok(trace) = Trace::open(&path) else { continue };
        found.push(RecordedProcess {
            path,
            bytes: trace.bytes,
            pid: trace.pid,
            called: trace.bytes > (FILE_HEADER + PACKET_HEADER) as u64,
            bypassed: trace.origin == Some(Origin::Bypassed),
            command: trace.command,
        });
    }
    found.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.pid.cmp(&b.pid)));
    Ok(found)
}

/// Returns the reason why there is no trace.
fn no_trace(name: &OsStr, file: Option<&Path>, limit: u64) -> String {
    let name = name.to_string_lossy();
    match file.and_then(program::obstacle) {
        Some(why) => {
            format!("`{name}` left no trace: {why}. docs/traces.md lists the programs that can be recorded")
        }
        None => format!(
            "`{name}` left no trace: it clears its environment, drops the right to write there, or cannot map \
             {limit} bytes (see `ulimit -v`, and lower --max-bytes)"
        ),
    }
}

/// Describes the recording: the largest process, the others, and the reason if a trace ended early.
fn describe(
    place: &TracePlace,
    largest: &RecordedProcess,
    others: &[RecordedProcess],
    file: Option<&Path>,
) -> Result<String> {
    let unreadable = || format!("cannot read {}", place.out.display());
    let trace = Trace::open(&place.out).with_context(unreadable)?;
    let summary = {
        let _spinner = Spinner::start("reading the trace");
        Summary::of(&trace).with_context(unreadable)?
    };
    let mut out = String::new();
    let _ = writeln!(out, "{}", place.out.display());
    let _ = writeln!(out, "process     {:>15}   {}", largest.pid, shortened(&largest.command));
    let _ = writeln!(out, "trace       {:>15}   bytes", largest.bytes);
    let _ = writeln!(out, "{summary}");
    for caveat in trace.caveats() {
        let _ = writeln!(out, "note: {caveat}");
    }
    // The caveats above already say whether the largest process is bypassed.
    for other in others.iter().filter(|other| other.bypassed) {
        let _ = writeln!(
            out,
            "note: process {} ({}) has a malloc of its own in its executable: the trace has only the calls \
             that this malloc passes on",
            other.pid,
            shortened(&other.command)
        );
    }
    let brought =
        if summary.events < FEW { file.map(program::allocators_in).unwrap_or_default() } else { Vec::new() };
    if !brought.is_empty() {
        let _ = writeln!(
            out,
            "note: the program contains an allocator ({}): blocks from that allocator are not in the trace. Record \
             a build without it (in Rust, without the line `#[global_allocator]`)",
            brought.join(", ")
        );
    } else if summary.events == 0 && !largest.bypassed {
        let _ = writeln!(
            out,
            "note: no call was recorded: the program takes no memory, or has its own allocator and does not \
             call malloc"
        );
    }
    list(&mut out, &place.parts, others);
    Ok(out)
}

/// Lists the other processes that made a call, and counts the processes that made none.
fn list(out: &mut String, parts: &Path, others: &[RecordedProcess]) {
    let (calling, idle): (Vec<_>, Vec<_>) = others.iter().partition(|other| other.called);
    if !calling.is_empty() {
        let _ = writeln!(out, "other processes, in {}:", parts.display());
    }
    for other in calling.iter().take(LISTED) {
        let name = other.path.file_name().unwrap_or_default().to_string_lossy();
        let _ = writeln!(out, "  {name:<16} {:>12} bytes  {}", other.bytes, shortened(&other.command));
    }
    if calling.len() > LISTED {
        let _ = writeln!(out, "  and {} more", calling.len() - LISTED);
    }
    if !idle.is_empty() {
        let _ = writeln!(out, "processes without a recorded call: {}", idle.len());
    }
}

/// Returns a command, shortened to at most 60 characters.
fn shortened(command: &str) -> String {
    const WIDTH: usize = 60;
    if command.chars().count() <= WIDTH {
        return command.to_owned();
    }
    command.chars().take(WIDTH - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_shortened_by_characters() {
        assert_eq!(shortened("ls -l"), "ls -l");
        assert_eq!(shortened(&"é".repeat(70)).chars().count(), 60);
    }

    #[test]
    fn processes_without_a_call_are_counted_and_not_listed() {
        let process = |pid: u32, called| RecordedProcess {
            path: format!("/d/p.{pid}").into(),
            bytes: 4096,
            pid,
            command: "cmd".to_owned(),
            called,
            bypassed: false,
        };
        let others: Vec<_> = (10..30).map(|pid| process(pid, pid % 2 == 0)).collect();
        let mut out = String::new();
        list(&mut out, Path::new("/d"), &others);
        assert!(out.contains("p.10 ") && !out.contains("p.11 ") && out.contains("and 2 more"), "{out}");
        assert!(out.ends_with("processes without a recorded call: 10\n"), "{out}");
    }

    #[test]
    fn a_directory_that_the_loader_cannot_name_is_refused() {
        assert!(nameable(Path::new("/u/ws/target/recorder")).is_ok());
        for dir in ["/u/my work/target", "/u/a:b/target", "/u/tab\there"] {
            let said = nameable(Path::new(dir)).unwrap_err().to_string();
            assert!(said.contains("CARGO_TARGET_DIR"), "{said}");
        }
    }
}
