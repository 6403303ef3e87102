//! Tests S12 through the command line: each contender runs in its own processes.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use bench_harness::card::ContenderClass;
use bench_harness::contenders::{self, ALWAYS, TWIN};
use bench_harness::workloads::{MOMENTS, SHOWN};
use serde_json::Value;

/// Runs `bench-runner` with these arguments. The contender `fault` crashes, unless `fault` is
/// empty. Returns the runner's output, its `--out` directory and the parsed summary.
fn run(test: &str, arguments: &[&str], fault: &str) -> (Output, PathBuf, Value) {
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    // The directory may be left from an earlier run.
    let _ = fs::remove_dir_all(&out);
    let output = Command::new(env!("CARGO_BIN_EXE_bench-runner"))
        .args(arguments)
        .arg("--out")
        .arg(&out)
        .env("EPHEMERA_TEST_FAULT", fault)
        .output()
        .expect("the runner starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary = fs::read_to_string(out.join("summary.json")).expect("the summary exists");
    (output, out, serde_json::from_str(&summary).expect("the summary is JSON"))
}

#[test]
fn a_crash_in_a_process_of_its_own_becomes_a_cell() {
    let arguments = ["--filter", "^S12/idle/reverse$", "--peers", "one-ring,pooled-allocator"];
    let (_, _, summary) = run("alone-crash", &arguments, "one-ring");
    let rows = summary["alone"][0]["rows"].as_array().expect("rows are an array");
    let row = |key: &str| rows.iter().find(|row| row["key"] == key).expect("the contender has a row");
    assert_eq!(row("one-ring")["state"], "crashed");
    assert!(row("one-ring")["reason"].as_str().is_some_and(|reason| reason.starts_with("aborted")));
    assert_eq!(row("one-ring")["runs"].as_array().map(Vec::len), Some(0));
    assert_eq!(row("pooled-allocator")["runs"].as_array().map(Vec::len), Some(2));
    assert_eq!(row("nothing")["reason"], "one thread allocates");
}

#[test]
fn a_burst_has_a_row_for_each_contender_and_a_reading_at_each_moment() {
    let (output, out, summary) = run("alone", &["--quick", "--filter", "^S12/idle/local$"], "");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(summary["workloads"].as_array().is_some_and(Vec::is_empty), "it has no rounds");
    let table = &summary["alone"][0];
    let rows = table["rows"].as_array().expect("rows are an array");
    let keys: Vec<&str> = rows.iter().filter_map(|row| row["key"].as_str()).collect();
    let mut known: Vec<&str> = contenders::of(ContenderClass::Blocks).iter().map(|entry| entry.key).collect();
    known.retain(|key| *key != ALWAYS[TWIN]);
    assert_eq!(keys, known);

    for row in rows {
        assert_eq!(row["state"], "ran", "{row}");
        let runs = row["runs"].as_array().expect("runs are an array");
        let after: Vec<&str> = runs.iter().filter_map(|run| run["after"].as_str()).collect();
        assert!(after.len() == 2 && after.contains(&"Asleep") && after.contains(&"Working"), "{after:?}");
        for run in runs {
            let held = run["held"].as_array().expect("readings are an array");
            let at: Vec<f64> = held.iter().filter_map(|held| held["at"].as_f64()).collect();
            assert_eq!(at, MOMENTS.into_iter().filter(|at| *at <= 1.0).collect::<Vec<_>>());
            let same = ["ops", "peak_live"];
            assert!(same.iter().all(|field| run[field] == rows[1]["runs"][0][field]), "{row}");
        }
        let taken = runs[0]["peak"].as_u64().expect("the system reports resident memory");
        let live = runs[0]["peak_live"].as_u64().expect("the workload counts its bytes");
        // The memory of the allocator that does nothing is only a buffer of 80 KiB.
        assert_eq!(row["key"] == ALWAYS[0], taken < live / 2, "{row}");
    }
    // Upstream's ring keeps all of its chunks.
    for row in rows.iter().filter(|row| row["key"] == "upstream-ring") {
        assert!(row["verdict"].as_str().is_some_and(|verdict| verdict.starts_with("keeps ")), "{row}");
    }
    let judged = summary["bars"].as_array().expect("bars are an array");
    assert!(judged.iter().any(|bar| bar["allocator"] == "ring" && bar["met"].is_boolean()), "{judged:?}");

    assert!(said.contains("\nS12/idle/local: a burst") && said.contains("asleep 0.1 s"), "{said}");
    let page = fs::read_to_string(out.join("report.html")).expect("the page exists");
    assert!(page.contains("<h2>Resident memory</h2>") && page.contains("resident memory of glibc"));
    let head = table["grid"][0].as_array().expect("the head is an array");
    let columns = head.iter().filter_map(Value::as_str).filter(|column| column.starts_with("asleep")).count();
    assert_eq!(columns, SHOWN.into_iter().filter(|at| *at <= 1.0).count(), "{head:?}");
}
