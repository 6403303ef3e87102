//! Tests of `--icount`: the counts do not depend on the size of the environment block. If valgrind
//! is missing, a message says how to install it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

fn directory(run: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("icount").join(run);
    // The directory may be left from an earlier run.
    let _ = fs::remove_dir_all(&path);
    path
}

/// Returns the runner that counts the workloads. `padding` makes its environment longer.
fn runner(workloads: &str, out: &PathBuf, padding: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench-runner"));
    command.args(["--icount", "--filter", workloads, "--peers", "nothing,ring,ringal", "--out"]);
    command.arg(out).env("EPHEMERA_PADDING", padding);
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn figures(workloads: &str, run: &str, padding: &str) -> Value {
    let out = directory(run);
    let output = runner(workloads, &out, padding).output().expect("the runner starts");
    assert!(output.status.success(), "{}", said(&output));
    let text = fs::read_to_string(out.join("icount.json")).expect("the figures exist");
    let mut file: Value = serde_json::from_str(&text).expect("the figures are JSON");
    file["workloads"].take()
}

#[test]
fn two_runs_count_the_same() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("NOT RUN: valgrind is not installed; `apt-get install valgrind`");
        return;
    }
    let first = figures("^(S1/pair/64|S1-buffers/extend)$", "first", "");
    let second = figures("^S1/pair/64$", "second", &"x".repeat(3001));
    assert_eq!(first["S1/pair/64"], second["S1/pair/64"]);
    for (workload, ours) in [("S1/pair/64", "ring"), ("S1-buffers/extend", "ringal")] {
        let counted = &first[workload]["instructions"];
        let of =
            |contender: &str| counted[contender].as_f64().unwrap_or_else(|| panic!("{contender}: {counted}"));
        // The loop alone executes more than one instruction. An allocator adds instructions of its
        // own.
        assert!(of("nothing") > 1.0 && of(ours) > of("nothing"), "{counted}");
    }
}

#[test]
fn a_missing_tool_is_reported_with_the_way_to_install_it() {
    let output = runner("^S1/pair/64$", &directory("without"), "")
        .env("PATH", "")
        .output()
        .expect("the runner starts");
    assert!(!output.status.success());
    assert!(said(&output).contains("apt-get install valgrind"), "{}", said(&output));
}
