//! Tests the runner as a whole through its command line.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use bench_harness::runner::{Job, Measurements, Mode};
use serde_json::Value;

/// Returns a fresh directory for the output of one test.
fn directory(test: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    // The directory may be left from an earlier run.
    let _ = fs::remove_dir_all(&path);
    path
}

fn runner(test: &str, arguments: &[&str], fault: Option<&str>) -> (Output, PathBuf) {
    let out = directory(test);
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench-runner"));
    command.args(arguments).arg("--out").arg(&out);
    if let Some(key) = fault {
        command.env("EPHEMERA_TEST_FAULT", key);
    }
    (command.output().expect("the runner starts"), out)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn row<'t>(table: &'t Value, key: &str) -> &'t Value {
    let rows = table["rows"].as_array().expect("rows are an array");
    rows.iter().find(|row| row["key"] == key).unwrap_or_else(|| panic!("no row {key}"))
}

/// The workloads of this test are quick without optimisation. `cargo xtask ci` runs all workloads.
#[test]
fn workloads_give_the_same_checksum_over_every_contender() {
    const SOON: &str = "^(S1|W|R)";
    let (output, _) = runner("smoke", &["--smoke", "--filter", SOON], None);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let said = text(&output.stdout);
    let soon = |name: &str| ["S1", "W", "R"].iter().any(|start| name.starts_with(start));
    let expected = bench_harness::workloads::catalogue().iter().filter(|workload| soon(&workload.id)).count();
    assert!(expected > 20, "{expected}");
    assert_eq!(said.matches("contenders agree").count(), expected, "{said}");
}

#[test]
fn a_run_writes_tables_samples_and_pictures() {
    let arguments =
        ["--quick", "--filter", "^(S1/pair/64|W/window/16x136)$", "--peers", "bumpalo,upstream-ring"];
    let (output, out) = runner("quick", &arguments, None);
    assert!(output.status.success(), "{}", text(&output.stderr));

    let summary = fs::read_to_string(out.join("summary.json")).expect("the summary exists");
    let summary: Value = serde_json::from_str(&summary).expect("the summary is JSON");
    let tables = summary["workloads"].as_array().expect("workloads are an array");
    assert_eq!(tables.len(), 2);
    for table in tables {
        assert_eq!(row(table, "glibc")["ratio"], 1.0);
        assert!(row(table, "glibc-aa")["interval"].is_array());
        assert!(row(table, "upstream-ring")["ns_per_op"].as_f64().is_some_and(|ns| ns > 0.0));
    }
    assert_eq!(row(&tables[1], "bumpalo")["state"], "missing");
    assert_eq!(row(&tables[1], "bumpalo")["reason"], "cannot free block by block");
    assert!(row(&tables[1], "upstream-ring")["peak_bytes"].as_u64().is_some_and(|peak| peak >= 16 * 1024));

    let samples = fs::read_to_string(out.join("results.jsonl")).expect("the samples exist");
    // There are three processes of at least fifteen rounds and three warm-up rounds, with five
    // contenders in one workload and four in the other.
    assert!(samples.lines().count() >= 3 * 18 * (5 + 4), "{}", samples.lines().count());
    assert!(samples.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    let report = fs::read_to_string(out.join("report.md")).expect("the page exists");
    assert!(report.contains("### S1/pair/64") && report.contains("A/A"), "{report}");
    for picture in ["S1.svg", "W.svg"] {
        let svg = fs::read_to_string(out.join("svg").join(picture)).expect("the picture exists");
        assert!(svg.contains("upstream RingAlloc"), "{svg}");
    }
}

#[test]
fn a_process_counts_the_requests_of_contenders_without_refusals_too() {
    let out = directory("refusals");
    fs::create_dir_all(&out).expect("cargo's directory can be written");
    let job = Job {
        mode: Mode::Time,
        workload: "S1-buffers/fixed/64".to_owned(),
        contenders: ["glibc", "ringal"].map(str::to_owned).to_vec(),
        process: 0,
        rounds: 1,
        budget_ns: 1e9,
        units: Some(10),
        target_ns: 1e6,
        seed: 1,
        lane: 0,
        document: None,
        document_length: 1000,
        corpus: None,
        marker: out.join("turn"),
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench-runner"));
    let output = command.arg("--child").arg(serde_json::to_string(&job).expect("a job is JSON")).output();
    let output = output.expect("the runner starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let answer: Measurements = serde_json::from_slice(&output.stdout).expect("the answer is JSON");
    let counts = answer.refusals.into_iter().map(|count| (count.contender, count.refused, count.asked));
    let counts: Vec<(String, u64, u64)> = counts.collect();
    // There are three warm-up rounds and one other, of ten requests each.
    assert_eq!(counts, ["glibc", "ringal"].map(|key| (key.to_owned(), 0, 40)));
}

#[test]
fn a_table_is_printed_as_soon_as_its_workload_is_measured() {
    let output = Command::new("sh")
        .args(["-c", "exec \"$0\" --filter '^S1/pair/(16|64)$' --peers bumpalo --out \"$1\" 2>&1"])
        .arg(env!("CARGO_BIN_EXE_bench-runner"))
        .arg(directory("soon"))
        .output()
        .expect("there is a shell");
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}");
    let at = |part: &str| said.find(part).unwrap_or_else(|| panic!("no {part} in {said}"));
    // The three steps of the first workload come first, then its table.
    assert!(at("[  3/6]") < at("\nS1/pair/16:"), "{said}");
    assert!(at("\nS1/pair/16:") < at("[  4/6]"), "{said}");
    assert!(at("[  6/6]") < at("\nS1/pair/64:"), "{said}");
    assert_eq!(said.matches("\nS1/pair/16:").count(), 1, "{said}");
}

#[test]
fn a_crashed_contender_becomes_a_cell() {
    let arguments = ["--filter", "^S1/pair/16$", "--peers", "bumpalo,upstream-ring"];
    let (output, out) = runner("crash", &arguments, Some("bumpalo"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let summary = fs::read_to_string(out.join("summary.json")).expect("the summary exists");
    let summary: Value = serde_json::from_str(&summary).expect("the summary is JSON");
    let table = &summary["workloads"][0];
    assert_eq!(row(table, "bumpalo")["state"], "crashed");
    assert_eq!(row(table, "bumpalo")["ratio"], Value::Null);
    assert_eq!(row(table, "upstream-ring")["state"], "ran");
    assert!(text(&output.stdout).contains("crashed"));
}

#[test]
fn a_crash_fails_the_smoke_test() {
    let (output, _) = runner("smoke-crash", &["--smoke", "--filter", "^S1/pair/16$"], Some("bumpalo"));
    assert!(!output.status.success());
}

#[test]
fn in_a_full_run_a_crashing_contender_affects_no_other() {
    let arguments = ["--full", "--filter", "^S1/pair/16$", "--peers", "bumpalo,upstream-ring"];
    let (output, out) = runner("full-crash", &arguments, Some("bumpalo"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let summary = fs::read_to_string(out.join("summary.json")).expect("the summary exists");
    let summary: Value = serde_json::from_str(&summary).expect("the summary is JSON");
    let crashed = row(&summary["workloads"][0], "bumpalo");
    assert_eq!(crashed["state"], "crashed");
    assert!(crashed["reason"].as_str().is_some_and(|how| how.contains("when checked")), "{crashed}");
    let other = row(&summary["workloads"][0], "upstream-ring");
    assert!(other["state"] == "ran" && other["ns_per_op"].is_number(), "{other}");
    // The contender that crashed did not share a process with the others, so only the others have
    // samples.
    let samples = fs::read_to_string(out.join("results.jsonl")).expect("the samples exist");
    assert!(!samples.contains("bumpalo") && samples.contains("upstream-ring"));
    let page = fs::read_to_string(out.join("report.html")).expect("the page exists");
    assert!(page.contains("crashed: aborted"), "the cell says so");
}

#[test]
fn wrong_arguments_are_explained() {
    let (output, _) = runner("peers", &["--peers", "nobody"], None);
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("the contenders are nothing, glibc"), "{}", text(&output.stderr));
    let (output, _) = runner("filter", &["--filter", "^nothing$"], None);
    assert!(text(&output.stderr).contains("--list"), "{}", text(&output.stderr));
}
