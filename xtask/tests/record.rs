//! Tests of `cargo xtask record` as a user calls it: its exit status, the files that it keeps, and
//! the files that it does not touch.
#![cfg(target_os = "linux")]

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use ephemera_recorder::Trace;
use ephemera_recorder::format::Origin;

#[path = "record/places.rs"]
mod places;
#[path = "record/signals.rs"]
mod signals;

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

/// Like `env` and `nice`, the tool runs a file without `#!` as a shell script.
#[test]
fn a_script_without_an_interpreter_is_run_by_the_shell() {
    use std::os::unix::fs::PermissionsExt;
    let dir = Dir::new("script");
    let script = dir.join("script");
    fs::write(&script, "exit $(($1 + 1))\n").expect("cargo's directory can be written");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("it was just written");
    let (code, said) = ended(&record(&dir.join("trace"), &[script.as_os_str(), OsStr::new("5")]));
    assert_eq!(code, Some(6), "{said}");
}

#[test]
fn a_full_or_closed_standard_error_does_not_end_the_recording() {
    let dir = Dir::new("stderr");
    let full = File::options().write(true).open("/dev/full").expect("Linux has this device");
    let (reader, closed) = std::io::pipe().expect("the process has descriptors left");
    drop(reader);
    for (name, stderr) in [("full", Stdio::from(full)), ("closed", closed.into())] {
        let (out, ran) = (dir.join(name), dir.join("ran"));
        let mut command = recording(&out, &["sh", "-c", "echo done >\"$0\"; exit 3"]);
        let status = command.arg(&ran).stdout(Stdio::null()).stderr(stderr).status();
        assert_eq!(status.expect("cargo built it").code(), Some(3), "{name}");
        fs::remove_file(&ran).expect("the program ran");
        assert!(Trace::open(&out).is_ok(), "{name}");
    }
}

/// In its own PID namespace, the program has the ID 1. Outside that namespace, another process has
/// this ID.
#[test]
fn a_process_of_another_pid_namespace_that_ended_does_not_count_as_running() {
    let dir = Dir::new("namespace");
    let list = "exec ls /usr/bin";
    let alone = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "sh", "-c", list];
    if !Command::new(alone[0]).args(&alone[1..7]).arg("true").status().is_ok_and(|status| status.success()) {
        println!("not run: the system refuses a PID namespace");
        return;
    }
    let (code, said) = ended(&record(&dir.join("trace"), &alone));
    assert!(code == Some(0) && !said.contains("still runs"), "{code:?}: {said}");
    let trace = Trace::open(&dir.join("trace")).expect("it was recorded");
    assert_eq!(trace.pid, 1, "{}", trace.command);
}

#[test]
fn the_program_has_the_environment_of_the_shell() {
    let dir = Dir::new("environment");
    // The tool builds the recorder, so the test needs a real toolchain.
    let home = std::env::var("HOME").expect("`HOME` is set");
    let toolchain = std::env::var("RUSTUP_TOOLCHAIN").unwrap_or_else(|_| "none".to_owned());
    let libraries = format!("{home}/.rustup/toolchains/{toolchain}/lib");
    let target =
        Path::new(env!("CARGO_BIN_EXE_xtask")).parent().expect("the program lies in a directory").display();
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

/// The compiler is linked with jemalloc, whose `malloc` takes precedence over the `malloc` of any
/// library.
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
    // The summary also names a process with its own `malloc` if the trace of another process is
    // larger.
    let rustc = rustc.to_string_lossy().into_owned();
    let output = record(&out, &["sh", "-c", &format!("ls -lR /usr/bin /etc >/dev/null; {rustc} --version")]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("note: process ") && said.contains(") has a malloc of its own"), "{said}");

    // The summary does not report an allocator for a program without its own allocator.
    let output = record(&out, &["ls", "/"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(!said.contains("of its own") && !said.contains("allocator ("), "{said}");
    assert_eq!(Trace::open(&out).expect("it was recorded").origin, Some(Origin::Program));
}
