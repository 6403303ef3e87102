//! Tests that run the program `ephemera-trace` as its users do.

mod support;

use std::path::Path;
use std::process::{Command, Output};

use ephemera_measure::stats::{Estimate, Verdict};
use ephemera_trace::replay::{REFERENCE, ReplayProgram, ReplayRow, Replayed};
use ephemera_trace::{Trace, What, Writer, figures};

use self::support::TestDir;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ephemera-trace")).args(arguments).output().expect("cargo built it")
}

/// Returns the output of a run that must succeed.
fn printed(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Writes the figures of a replay beside a trace, and returns the path of their file.
fn replayed(path: &Path) -> std::path::PathBuf {
    let trace = Trace::open(path).expect("the test wrote it");
    let program = ReplayProgram::of(&trace).expect("the trace is whole");
    let row = |key: &str, mid: f64, verdict| ReplayRow {
        key: key.to_owned(),
        name: format!("name of {key}"),
        ratio: Estimate { mid, low95: mid, high95: mid, low99: mid, high99: mid },
        verdict,
        ns: 20.0 * mid,
        peak: None,
    };
    let figures = Replayed {
        command: trace.command,
        ops: program.ops(),
        lanes: 4,
        threads: 4,
        huge: 0,
        peak_live: program.peak_live(),
        rounds: 1,
        seed: 1,
        rows: vec![row(REFERENCE, 1.0, Verdict::Same), row("one-ring", 0.5, Verdict::Faster)],
        left_out: Vec::new(),
        notes: Vec::new(),
    };
    figures::keep(path, program.digest(), figures).expect("cargo's directory is writable")
}

/// Runs `advise`. Returns whether it used the figures of a replay, and its error messages.
fn uses_figures(path: &Path) -> (bool, String) {
    let output = run(&["advise", &path.to_string_lossy()]);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}", text(&output.stderr));
    (text(&output.stdout).contains("the replay of this trace"), text(&output.stderr))
}

#[test]
fn advice_names_every_crate_and_writes_a_page() {
    let dir = TestDir::new("advice");
    let (trace, page) = (dir.four_threads(), dir.0.join("page.html"));
    let (trace, page) = (trace.to_string_lossy(), page.to_string_lossy());
    let said = printed(&["advise", &trace, "--html", &page]);
    for part in
        ["four threads", "ring-alloc", "typed-pool", "shared_arena", "ringal", "docs/benchmarks/results.md"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(std::fs::read_to_string(&*page).expect("advise wrote it").contains("</html>"));
    assert!(printed(&["summary", &trace]).contains("20,000"));
}

#[test]
fn figures_are_used_for_the_operations_that_they_were_measured_on() {
    let dir = TestDir::new("figures");
    let path = dir.four_threads();
    assert!(!uses_figures(&path).0);
    let figures = replayed(&path);
    assert!(uses_figures(&path).0);
    // A newer file with the same operations counts as the same trace.
    let bytes = std::fs::read(&path).expect("the test wrote it");
    std::thread::sleep(core::time::Duration::from_millis(20));
    std::fs::write(&path, &bytes).expect("cargo's directory is writable");
    assert!(uses_figures(&path).0);
    // Figures of another recording, or of another command, are not used, though they are newer.
    let kept = std::fs::read_to_string(&figures).expect("the test wrote it");
    for (command, extra) in [("four threads", true), ("five threads", false)] {
        let mut writer = Writer::new(command);
        let mut last = None;
        for event in Trace::open(&path).expect("the test wrote it").events() {
            let event = event.expect("the trace is whole");
            writer.push(&event);
            last = Some(event);
        }
        if let Some(mut event) = last.filter(|_| extra) {
            event.sequence += 1;
            event.what = What::Free { address: 1 };
            writer.push(&event);
        }
        writer.save(&path).expect("cargo's directory is writable");
        std::fs::write(&figures, &kept).expect("cargo's directory is writable");
        let (used, told) = uses_figures(&path);
        assert!(!used && told.contains("is not used") && told.contains("about another"), "{command}: {told}");
        std::fs::write(&path, &bytes).expect("cargo's directory is writable");
    }
    for (text, why) in [
        (kept.replace("name of one-ring", "\\u001b]0;owned"), "control characters"),
        ("{}".to_owned(), "is not used"),
    ] {
        std::fs::write(&figures, text).expect("cargo's directory is writable");
        let (used, told) = uses_figures(&path);
        assert!(!used && told.contains(why), "{told}");
    }
}

#[test]
fn escape_sequences_of_a_command_reach_neither_terminal_nor_page() {
    let dir = TestDir::new("escapes");
    let alloc = |i: u64| What::Alloc { address: i << 8, size: 64, align_log2: 0, zeroed: false };
    let path = dir.save("evil\x1b]0;owned\x07\x1b[2J\u{9b}31m", (0..100).map(|i| (1, alloc(i))));
    replayed(&path);
    let (trace, page) = (path.to_string_lossy(), dir.0.join("page.html"));
    let page_path = page.to_string_lossy();
    let control = |c: char| c.is_control() && c != '\n';
    for arguments in [vec!["summary", &trace], vec!["advise", &trace, "--html", &page_path]] {
        let said = printed(&arguments);
        assert!(said.contains("evil\\u{1b}]0;owned") && !said.contains(control), "{arguments:?}: {said:?}");
    }
    let page = std::fs::read_to_string(&page).expect("advise wrote it");
    assert!(page.contains("evil\\u{1b}]0;owned") && !page.contains(control), "the page");
}

#[test]
fn a_file_that_is_no_trace_is_named() {
    for (path, told) in [
        ("/no/such/trace", "/no/such/trace"),
        (concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"), "EPHTRACE"),
    ] {
        let output = run(&["advise", path]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(told), "{path}: {error}");
    }
}
