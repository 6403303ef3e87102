//! Tests of `cargo xtask record` as a user calls it: its exit status, the files that it keeps, and
//! the files that it does not touch.
#![cfg(target_os = "linux")]

use core::time::Duration;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Instant;

use ephemera_recorder::format::Origin;
use ephemera_recorder::{Trace, Writer};

/// A directory that is removed when this value is dropped.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let dir =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("record-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("cargo's directory can be written");
        Self(dir)
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        // A directory that cannot be removed stays in cargo's directory for test files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the command that records `program` into `out`. `env` restores the signals that a script
/// ignores in its background commands.
fn recording<S: AsRef<OsStr>>(out: &Path, program: &[S]) -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=INT,TERM", env!("CARGO_BIN_EXE_xtask"), "record", "--out"]);
    command.arg(out).arg("--").args(program).stdin(Stdio::null());
    command
}

fn record<S: AsRef<OsStr>>(out: &Path, program: &[S]) -> Output {
    recording(out, program).output().expect("cargo built it")
}

/// Returns the exit status and the text on standard error.
fn ended(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A recording in its own process group, whose program has printed a line.
struct Running {
    child: Child,
    printed: BufReader<ChildStdout>,
}

impl Running {
    fn start(out: &Path, script: &str) -> Self {
        use std::os::unix::process::CommandExt;
        let mut command = recording(out, &["sh", "-c", script]);
        let mut child = command.process_group(0).stdout(Stdio::piped()).spawn().expect("cargo built it");
        let mut printed = BufReader::new(child.stdout.take().expect("it is piped"));
        printed.read_line(&mut String::new()).expect("the program says that it has begun");
        Self { child, printed }
    }

    /// Sends a signal to the tool, or with `group` to its process group, as a terminal does.
    fn signal(&self, signal: &str, group: bool) {
        let target = format!("{}{}", if group { "-" } else { "" }, self.child.id());
        let sent = Command::new("kill").args([signal, "--", &target]).status();
        assert!(sent.expect("there is a `kill`").success());
    }

    /// Waits for the end of the recording. Returns its exit status and its summary.
    fn end(mut self) -> (Option<i32>, String) {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                break status;
            }
            if start.elapsed() > Duration::from_secs(60) {
                self.signal("-KILL", true);
                panic!("the recording did not end");
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let printed: Vec<String> = self.printed.lines().map_while(Result::ok).collect();
        (status.code(), printed.join("\n"))
    }
}

#[test]
fn ctrl_c_ends_the_program_and_keeps_the_trace() {
    let dir = Dir::new("interrupt");
    for (name, script, signal, group, status) in [
        // A server that catches the signal and chooses its exit status.
        ("server", "trap 'exit 7' INT; echo up; while :; do sleep 0.05; done", "-INT", true, 7),
        ("client", "echo up; exec sleep 60", "-INT", true, 130),
        // A supervisor sends the signal to the tool only.
        ("alone", "echo up; exec sleep 60", "-TERM", false, 143),
    ] {
        let out = dir.join(name);
        let running = Running::start(&out, script);
        running.signal(signal, group);
        let (code, said) = running.end();
        assert_eq!(code, Some(status), "{name}: {said}");
        assert!(said.contains("events") && said.contains("peak live"), "{name}: {said}");
        let trace = Trace::open(&out).expect("the trace is kept");
        assert!(trace.events().count() > 0, "{name}");
    }
}

#[test]
fn the_exit_status_is_that_of_the_program() {
    let dir = Dir::new("status");
    let out = dir.join("trace");
    for (script, status) in [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -SEGV $$", 139)] {
        let (code, said) = ended(&record(&out, &["sh", "-c", script]));
        assert_eq!(code, Some(status), "{script}: {said}");
    }
    let (code, said) = ended(&record(&out, &["no-such-program-here"]));
    assert!(code == Some(127) && said.contains("cannot start `no-such-program-here`"), "{code:?}: {said}");
    let (code, said) = ended(&record(&out, &[dir.0.as_os_str()]));
    assert!(code == Some(126) && said.contains("cannot start"), "{code:?}: {said}");
}

/// A shell may end before the server that it started. The server's trace must then remain where the
/// server extends it.
#[test]
fn a_process_that_outlives_the_program_keeps_its_trace() {
    let dir = Dir::new("outlives");
    let (out, end) = (dir.join("trace"), dir.join("end"));
    let wait = format!("while [ ! -e '{}' ]; do sleep 0.05; done", end.display());
    let grow = "i=0; while [ $i -lt 10000 ]; do i=$((i+1)); v=$v$i; v=${v#?????????}; done";
    // The process makes most of its calls after the recording has ended.
    let script =
        format!("(ls -R /etc >/dev/null; {grow}; {wait}; {grow}; : >'{}.2') & sleep 1", end.display());
    let mut command = recording(&out, &["sh", "-c", &script]);
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("cargo built it");
    assert_eq!(status.code(), Some(0));
    let before = Trace::open(&out).expect("it was recorded").bytes;
    fs::write(&end, "").expect("cargo's directory can be written");
    let start = Instant::now();
    while !dir.join("end.2").exists() {
        assert!(start.elapsed() < Duration::from_secs(60), "the process did not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    let trace = Trace::open(&out).expect("it is whole");
    assert!(trace.stop.is_none(), "{:?}", trace.caveats());
    assert!(trace.bytes > before + (256 << 10), "{} after {before}", trace.bytes);
}

#[test]
fn files_that_are_no_traces_are_never_removed() {
    let dir = Dir::new("foreign");
    let out = dir.join("app");
    let parts = dir.join("app.processes");
    fs::create_dir(&parts).expect("cargo's directory can be written");
    for (name, text) in [("notes.txt", "mine"), ("p.12", "also mine"), ("empty", "")] {
        let trace = parts.join("p.1");
        Writer::new("earlier").save(&trace).expect("cargo's directory can be written");
        let foreign = parts.join(name);
        fs::write(&foreign, text).expect("cargo's directory can be written");
        let (code, said) = ended(&record(&out, &["true"]));
        assert_eq!(code, Some(125), "{said}");
        assert!(said.contains(name) && said.contains("no trace"), "{said}");
        assert_eq!(fs::read_to_string(&foreign).expect("it is still there"), text);
        assert!(trace.exists() && !out.exists(), "nothing was touched");
        fs::remove_file(foreign).expect("it is there");
    }
    fs::create_dir(parts.join("inner")).expect("cargo's directory can be written");
    assert_eq!(ended(&record(&out, &["true"])).0, Some(125), "a directory is no trace");
    fs::remove_dir(parts.join("inner")).expect("it is still there");

    // The path of the trace is that of a program that the user already has.
    fs::write(&out, "#!/bin/sh\n").expect("cargo's directory can be written");
    let (code, said) = ended(&record(&out, &["true"]));
    assert!(code == Some(125) && said.contains("was not replaced"), "{said}");
    assert_eq!(fs::read_to_string(&out).expect("it is still there"), "#!/bin/sh\n");
    fs::remove_file(&out).expect("it is there");

    // Each recording removes the traces of the one before.
    let mut before = vec!["p.1".into()];
    for _ in 0..2 {
        let (code, said) = ended(&record(&out, &["sh", "-c", "ls / | cat"]));
        assert_eq!(code, Some(0), "{said}");
        let entries = fs::read_dir(&parts).expect("it is there");
        let left: Vec<_> = entries.map(|entry| entry.expect("it is there").file_name()).collect();
        assert!(Trace::open(&out).is_ok() && !left.is_empty(), "{left:?}");
        assert!(!left.iter().any(|name| before.contains(name)), "{before:?} and {left:?}");
        before = left;
    }
}

#[test]
fn two_recordings_at_once_do_not_share_a_place() {
    let dir = Dir::new("twice");
    let out = dir.join("trace");
    let first = Running::start(&out, "echo up; exec sleep 60");
    let (code, said) = ended(&record(&out, &["true"]));
    assert!(code == Some(125) && said.contains("another recording"), "{code:?}: {said}");
    let (code, said) = ended(&record(&dir.join("other"), &["true"]));
    assert_eq!(code, Some(0), "{said}");
    first.signal("-TERM", false);
    assert_eq!(first.end().0, Some(143));
    assert!(Trace::open(&out).expect("the first is whole").command.starts_with("sleep"));
}

#[test]
fn the_program_has_the_environment_of_the_shell() {
    let dir = Dir::new("environment");
    // The tool builds the recorder, so the test needs a real toolchain.
    let home = std::env::var("HOME").expect("there is a home");
    let toolchain = std::env::var("RUSTUP_TOOLCHAIN").unwrap_or_else(|_| "none".to_owned());
    let libraries = format!("{home}/.rustup/toolchains/{toolchain}/lib");
    let target = Path::new(env!("CARGO_BIN_EXE_xtask")).parent().expect("it lies in a directory").display();
    let mut command = recording(&dir.join("trace"), &["env"]);
    command.env("CARGO_HOME", format!("{home}/.cargo")).env("RUSTUP_HOME", format!("{home}/.rustup"));
    command.env("RUSTUP_TOOLCHAIN", toolchain).env("RUSTUP_TOOLCHAIN_SOURCE", "toolchain-file");
    command.env("RUST_RECURSION_COUNT", "1").env("CARGO_NET_RETRY", "3").env("CARGO_PKG_NAME", "xtask");
    command.env("LD_LIBRARY_PATH", format!("{target}/deps:{target}:{libraries}:/opt/mine"));
    let output = command.output().expect("cargo built it");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", ended(&output).1);
    // Other variables may be secret, so a failure prints the name of one variable only.
    let seen: Vec<&str> = said.lines().filter(|line| line.contains('=')).collect();
    for added in [
        "CARGO=",
        "CARGO_MANIFEST",
        "CARGO_PKG_",
        "CARGO_HOME",
        "RUSTUP_HOME",
        "RUSTUP_TOOLCHAIN",
        "RUST_REC",
    ] {
        assert!(!seen.iter().any(|line| line.starts_with(added)), "{added} is there");
    }
    for kept in ["LD_LIBRARY_PATH=/opt/mine", "CARGO_NET_RETRY=3", &format!("HOME={home}")] {
        assert!(seen.contains(&kept), "{kept} is not there");
    }
}

/// The compiler is linked with jemalloc, whose `malloc` takes precedence over that of any library.
#[test]
fn a_program_with_its_own_malloc_is_reported() {
    let dir = Dir::new("own");
    let out = dir.join("trace");
    let cargo = std::env::var_os("CARGO").expect("cargo runs the tests");
    let rustc = Path::new(&cargo).with_file_name("rustc");
    let bytes = fs::read(&rustc).expect("the toolchain has a compiler");
    if !bytes.windows(10).any(|part| part == b"<jemalloc>") {
        println!("not run: the compiler has no allocator of its own here");
        return;
    }
    let output = record(&out, &[rustc.as_os_str(), OsStr::new("--version")]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", ended(&output).1);
    assert!(said.contains("a malloc of its own") && said.contains("(jemalloc)"), "{said}");
    assert_eq!(Trace::open(&out).expect("it was recorded").origin, Some(Origin::Bypassed));
    // The summary also names such a process if the trace of another process is larger.
    let rustc = rustc.to_string_lossy().into_owned();
    let output = record(&out, &["sh", "-c", &format!("ls -lR /usr/bin /etc >/dev/null; {rustc} --version")]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("note: process ") && said.contains(") has a malloc of its own"), "{said}");

    // The summary reports no allocator for a program without its own.
    let output = record(&out, &["ls", "/"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(!said.contains("of its own") && !said.contains("allocator ("), "{said}");
    assert_eq!(Trace::open(&out).expect("it was recorded").origin, Some(Origin::Program));
}

#[test]
fn each_unusable_place_has_its_own_message() {
    let dir = Dir::new("places");
    let spaced = dir.join("a dir with spaces").join("my trace");
    let (code, said) = ended(&record(&spaced, &["ls", "/"]));
    assert!(code == Some(0) && Trace::open(&spaced).is_ok(), "{said}");

    let long: PathBuf = [dir.0.as_path()].into_iter().chain([Path::new(&"d".repeat(200)); 10]).collect();
    for (out, told) in [
        (dir.0.clone(), "is a directory"),
        (PathBuf::from("/dev/null"), "was not replaced"),
        (PathBuf::from("/dev/null/trace"), "cannot make the directory"),
        (PathBuf::from("/proc/trace"), "cannot make the directory"),
        (long, "too long"),
    ] {
        let (code, said) = ended(&record(&out, &["true"]));
        assert!(
            code == Some(125) && said.contains(told) && said.contains("--out"),
            "{}: {said}",
            out.display()
        );
    }
    assert!(fs::metadata("/dev/null").is_ok_and(|data| !data.is_file()), "it is no file");

    // The limit on the size of files is below the size of the smallest trace.
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 8; exec \"$0\" record --out \"$1\" -- true", env!("CARGO_BIN_EXE_xtask")]);
    let (code, said) = ended(&command.arg(dir.join("short")).output().expect("there is a shell"));
    assert!(code == Some(125) && said.contains("ulimit -f"), "{code:?}: {said}");

    for (size, told) in [("12", "too small"), ("20T", "too large"), ("many", "whole number")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        let output =
            command.args(["record", "--max-bytes", size, "--", "true"]).output().expect("cargo built it");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(told), "{size}: {said}");
    }
}
