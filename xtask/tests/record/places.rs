//! Tests of the files of a recording: where they are, which earlier files it replaces, and the
//! messages if it cannot write them.

use core::time::Duration;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use ephemera_recorder::{Trace, Writer};

use super::signals::Running;
use super::{Dir, ended, record, recording};

/// Waits until a process has created the file `path`.
fn wait_for(path: &Path) {
    let start = Instant::now();
    while !path.exists() {
        assert!(start.elapsed() < Duration::from_secs(60), "no process created {}", path.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns all files and directories below `dir`, in the order of their names.
fn below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut unread = vec![dir.to_owned()];
    while let Some(dir) = unread.pop() {
        for entry in fs::read_dir(&dir).expect("the directory exists") {
            let path = entry.expect("the directory can be read").path();
            if path.is_dir() {
                unread.push(path.clone());
            }
            found.push(path);
        }
    }
    found.sort();
    found
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
    wait_for(&dir.join("end.2"));
    let trace = Trace::open(&out).expect("it is whole");
    assert!(trace.stop.is_none(), "{:?}", trace.caveats());
    assert!(trace.bytes > before + (256 << 10), "{} after {before}", trace.bytes);
}

#[test]
fn files_that_are_not_traces_are_never_removed() {
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
        assert!(said.contains(name) && said.contains("is not a trace"), "{said}");
        assert_eq!(fs::read_to_string(&foreign).expect("it is still there"), text);
        assert!(trace.exists() && !out.exists(), "nothing was touched");
        fs::remove_file(foreign).expect("it is there");
    }
    fs::create_dir(parts.join("inner")).expect("cargo's directory can be written");
    assert_eq!(ended(&record(&out, &["true"])).0, Some(125), "a directory is not a trace");
    fs::remove_dir(parts.join("inner")).expect("it is still there");

    // The path of the trace already belongs to a program of the user.
    fs::write(&out, "#!/bin/sh\n").expect("cargo's directory can be written");
    let (code, said) = ended(&record(&out, &["true"]));
    assert!(code == Some(125) && said.contains("was not replaced"), "{said}");
    assert_eq!(fs::read_to_string(&out).expect("it is still there"), "#!/bin/sh\n");
    fs::remove_file(&out).expect("it is there");

    // Each recording removes the traces of the previous recording.
    let mut before = vec!["p.1".into()];
    for _ in 0..2 {
        let (code, said) = ended(&record(&out, &["sh", "-c", "ls / | cat"]));
        assert_eq!(code, Some(0), "{said}");
        let entries = fs::read_dir(&parts).expect("the directory exists");
        let left: Vec<_> =
            entries.map(|entry| entry.expect("the directory can be read").file_name()).collect();
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

/// A daemon of an earlier recording has the path of its trace in its environment.
#[test]
fn a_process_of_an_earlier_recording_does_not_enter_a_later_one() {
    let dir = Dir::new("leftover");
    let (out, file) = (dir.join("trace"), |name: &str| dir.join(name).display().to_string());
    let (go, gone, again, last) = (file("go"), file("gone"), file("again"), file("last"));
    let wait = |name: &str| format!("while [ ! -e '{name}' ]; do sleep 0.05; done");
    let leftover = format!(
        "({}; ls /usr/bin >/dev/null && : >'{gone}'; {}; ls /usr/bin >/dev/null && : >'{last}') &",
        wait(&go),
        wait(&again)
    );
    // With piped outputs, `output` would wait for the leftover.
    let mut command = recording(&out, &["sh", "-c", &leftover]);
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("cargo built it");
    assert_eq!(status.code(), Some(0));
    let (code, said) = ended(&record(&out, &["sh", "-c", &format!(": >'{go}'; {}", wait(&gone))]));
    assert_eq!(code, Some(0), "{said}");
    let traces = below(&dir.join("trace.processes")).into_iter().chain([out]);
    let commands: Vec<_> =
        traces.flat_map(|path| Trace::open(&path).ok()).map(|trace| trace.command).collect();
    assert!(
        !commands.is_empty() && !commands.iter().any(|command| command.contains("/usr/bin")),
        "{commands:?}"
    );
    // The directory of the leftover's traces has been removed, and the leftover's programs still
    // run.
    fs::write(&again, "").expect("cargo's directory can be written");
    wait_for(last.as_ref());
}

#[test]
fn a_recording_without_a_trace_leaves_the_earlier_traces_and_no_directory() {
    let dir = Dir::new("kept");
    let out = dir.join("trace");
    let (code, said) = ended(&record(&out, &["sh", "-c", "ls / | cat"]));
    assert_eq!(code, Some(0), "{said}");
    let before = below(&dir.0);
    assert!(before.iter().any(|path| path.to_string_lossy().contains("/p.")), "{before:?}");
    // The third program removes its trace.
    for (program, status) in [
        (&["no-such-program-here"][..], 127),
        (&["/"], 126),
        (&["sh", "-c", "exec env -u LD_PRELOAD rm -r -- \"${EPHEMERA_TRACE%/*}\""], 125),
    ] {
        let (code, said) = ended(&record(&out, program));
        assert!(code == Some(status), "{code:?}: {said}");
        assert_eq!(below(&dir.0), before, "{program:?}");
        let (code, _) = ended(&record(&dir.join("a/b/trace"), program));
        assert_eq!(code, Some(status));
        assert_eq!(below(&dir.0), before, "{program:?}");
    }
}

#[test]
fn a_recording_of_one_process_leaves_only_its_trace() {
    let dir = Dir::new("one");
    let out = dir.join("trace");
    let (code, said) = ended(&record(&out, &["ls", "/"]));
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(below(&dir.0), [out]);
}

#[test]
fn a_program_that_removes_its_traces_is_named_with_their_place() {
    let dir = Dir::new("removed");
    let out = dir.join("trace");
    let (code, said) =
        ended(&record(&out, &["rm", "-r", "--", &dir.join("trace.processes").to_string_lossy()]));
    assert!(code == Some(125) && said.contains("trace.processes") && said.contains("--out"), "{said}");
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
        (dir.join(&"n".repeat(250)), "choose a shorter one"),
    ] {
        let (code, said) = ended(&record(&out, &["true"]));
        assert!(
            code == Some(125) && said.contains(told) && said.contains("--out"),
            "{}: {said}",
            out.display()
        );
    }
    assert!(fs::metadata("/dev/null").is_ok_and(|data| !data.is_file()), "it is not a file");

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
