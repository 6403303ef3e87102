//! Tests `--baseline` through the command line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// Returns a fresh directory for the output of one run.
fn directory(run: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("baseline").join(run);
    // The directory may be left from an earlier run.
    let _ = fs::remove_dir_all(&path);
    path
}

fn runner(out: &Path, filter: &str, baseline: Option<&Path>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench-runner"));
    command.args(["--filter", filter, "--peers", "bumpalo,upstream-ring", "--out"]).arg(out);
    if let Some(baseline) = baseline {
        command.arg("--baseline").arg(baseline);
    }
    command.output().expect("the runner starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_run_is_compared_with_an_earlier_one() {
    let (then, now) = (directory("then"), directory("now"));
    let first = runner(&then, "^S1/pair/(4|16)$", None);
    assert!(first.status.success(), "{}", text(&first.stderr));
    let second = runner(&now, "^S1/pair/(16|64)$", Some(&then.join("summary.json")));
    assert!(second.status.success(), "{}", text(&second.stderr));

    let said = text(&second.stdout);
    assert!(said.contains("Against commit ") && said.contains(": 2 rows, "), "{said}");
    assert!(said.contains("missing: S1/pair/64: not in the baseline"), "{said}");
    assert!(said.contains("missing: S1/pair/4: only in the baseline"), "{said}");
    let page = fs::read_to_string(now.join("report.md")).expect("the page exists");
    assert!(page.contains("## Against commit "), "{page}");
    let page = fs::read_to_string(now.join("report.html")).expect("the page exists");
    for part in
        ["<a href=\"#changes\">", "<h2>Against commit ", "<li>Missing: S1/pair/4: only in the baseline</li>"]
    {
        assert!(page.contains(part), "{part}");
    }

    let summary = fs::read_to_string(now.join("summary.json")).expect("the summary exists");
    let summary: Value = serde_json::from_str(&summary).expect("the summary is JSON");
    let rows = summary["baseline"]["rows"].as_array().expect("rows are an array");
    let keys: Vec<_> = rows.iter().filter_map(|row| row["key"].as_str()).collect();
    assert_eq!(keys, ["bumpalo", "upstream-ring"]);
    for row in rows {
        assert_eq!(row["workload"], "S1/pair/16");
        let of = |part: &str| row[part]["ratio"].as_f64().expect("a ratio");
        assert!((of("change") - of("now") / of("then")).abs() < 1e-9, "{row}");
    }
}

#[test]
fn a_file_that_is_not_a_baseline_is_refused_before_anything_is_measured() {
    let out = directory("refused");
    fs::create_dir_all(&out).expect("the directory can be created");
    let file = out.join("old.json");
    fs::write(&file, r#"{"harness": "0.1.0", "workloads": []}"#).expect("the file can be written");
    for (baseline, complaint) in [(file, "has format none"), (out.join("nothing.json"), "cannot be read")] {
        let output = runner(&out, "^S1/pair/16$", Some(&baseline));
        assert!(!output.status.success());
        assert!(text(&output.stderr).contains(complaint), "{}", text(&output.stderr));
        assert!(!out.join("summary.json").exists());
    }
}
