//! Tests that run the program `ephemera-trace` as its users do.

mod support;

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output};

use ephemera_measure::stats::{Estimate, Verdict};
use ephemera_trace::replay::{REFERENCE, ReplayProgram, ReplayRow, Replayed};
use ephemera_trace::{Trace, TraceProfile, What, Writer, figures};

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
        digest: program.digest.to_string(),
        command: trace.command,
        ops: program.ops,
        lanes: 4,
        threads: 4,
        huge: 0,
        peak_live: program.peak_live,
        rounds: 1,
        seed: 1,
        rows: vec![row(REFERENCE, 1.0, Verdict::Same), row("one-ring", 0.5, Verdict::Faster)],
        left_out: Vec::new(),
        notes: Vec::new(),
    };
    figures::keep(path, &figures).expect("cargo's directory is writable")
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
    // Figures of another recording, or of another command, are not used, even if they are newer.
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
fn a_file_that_is_not_a_trace_is_named() {
    for (path, told) in [
        ("/no/such/trace", "/no/such/trace"),
        (concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"), "EPHTRACE"),
    ] {
        let output = run(&["advise", path]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(told), "{path}: {error}");
    }
}

/// A reader such as `head` closes the pipe when it has seen enough.
#[test]
fn a_closed_pipe_is_not_an_error() {
    let dir = TestDir::new("pipe");
    let (trace, page) = (dir.four_threads(), dir.0.join("page.html"));
    for arguments in [vec!["summary"], vec!["advise", "--html", &page.to_string_lossy()]] {
        let (reader, writer) = std::io::pipe().expect("the system has pipes");
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_ephemera-trace"));
        let output = command.args(&arguments).arg(&trace).stdout(writer).output().expect("cargo built it");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && error.is_empty(), "{arguments:?}: {error}");
    }
    assert!(page.exists(), "the page does not need the output");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_output_is_an_error_and_the_page_is_written() {
    let dir = TestDir::new("full");
    let (trace, page) = (dir.four_threads(), dir.0.join("page.html"));
    for arguments in [vec!["summary"], vec!["advise", "--html", &page.to_string_lossy()]] {
        let full = File::options().write(true).open("/dev/full").expect("Linux has this device");
        let mut command = Command::new(env!("CARGO_BIN_EXE_ephemera-trace"));
        let output = command.args(&arguments).arg(&trace).stdout(full).output().expect("cargo built it");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
        assert!(error.contains("the standard output: ") && error.lines().count() == 1, "{error}");
    }
    assert!(page.exists(), "the page does not need the output");
}

#[test]
fn the_page_replaces_no_trace_and_no_figures() {
    let dir = TestDir::new("replaced");
    let trace = dir.four_threads();
    let bytes = fs::read(&trace).expect("the test wrote it");
    let in_dir = |name: &str| dir.0.join(name);
    fs::hard_link(&trace, in_dir("link")).expect("cargo's directory is writable");
    fs::write(in_dir("other"), &bytes).expect("cargo's directory is writable");
    let refused = |out: &Path, why: &str| {
        let output = run(&["advise", &trace.to_string_lossy(), "--html", &out.to_string_lossy()]);
        let error = String::from_utf8_lossy(&output.stderr);
        let named = error.contains(&format!("{}: the page would replace {why};", out.display()));
        assert!(!output.status.success() && output.stdout.is_empty() && named, "{error}");
    };
    refused(&trace, "the trace");
    refused(&in_dir("link"), "the trace");
    refused(&in_dir("other"), "a trace");
    refused(&figures::path(&trace), "the figures of the trace's replay");
    assert!(!figures::path(&trace).exists());
    replayed(&trace);
    refused(&figures::path(&trace), "the figures of the trace's replay");
    for name in ["trace", "link", "other"] {
        assert!(fs::read(in_dir(name)).is_ok_and(|found| found == bytes), "{name}");
    }
    let profile = TraceProfile::of(&Trace::open(&trace).expect("it is whole"), |_| ()).expect("it is whole");
    assert!(figures::of(&trace, &profile).is_some(), "the figures are unchanged");
}

#[test]
fn a_page_that_cannot_be_written_is_named_before_the_trace_is_read() {
    let dir = TestDir::new("named");
    for out in ["/no/such/place", &*dir.0.to_string_lossy()] {
        let output = run(&["advise", "/no/such/trace", "--html", out]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(&format!("{out}: ")), "{error}");
    }
    assert_eq!(fs::read_dir(&dir.0).expect("the test made it").count(), 0, "no temporary file stays");
}

/// A limit on file sizes simulates a full disk.
#[test]
fn a_full_disk_leaves_the_old_page() {
    let dir = TestDir::new("disk");
    let (trace, page) = (dir.four_threads(), dir.0.join("page.html"));
    for old in [None, Some("old")] {
        old.map_or(Ok(()), |text| fs::write(&page, text)).expect("cargo's directory is writable");
        let output = Command::new("sh")
            .args(["-c", "ulimit -f 0; trap '' XFSZ; exec \"$0\" advise \"$1\" --html \"$2\""])
            .args([Path::new(env!("CARGO_BIN_EXE_ephemera-trace")), &trace, &page])
            .output()
            .expect("there is a shell");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains("page.html: "), "{error}");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("four threads") && !said.contains("wrote"), "{said}");
        assert_eq!(fs::read_to_string(&page).ok().as_deref(), old);
        let entries = fs::read_dir(&dir.0).expect("the test made it").count();
        assert_eq!(entries, 1 + usize::from(old.is_some()), "no temporary file stays");
    }
}
