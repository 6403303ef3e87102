//! Tests `bench-runner replay` as its users call it, and the contenders that take part.

#[path = "../../trace/tests/support/mod.rs"]
mod support;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use bench_harness::replay::field;
use ephemera_trace::replay::{REFERENCE, ReplayProgram, SUBCOMMAND, TWIN, time};
use ephemera_trace::{Trace, TraceProfile, What, figures};

use self::support::TestDir;

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench-runner"));
    command.arg(SUBCOMMAND);
    command
}

fn run(arguments: &[&str]) -> Output {
    command().args(arguments).output().expect("cargo built it")
}

/// Returns the output of a run that must succeed.
fn printed(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn alloc(address: u64, size: u64) -> What {
    What::Alloc { address, size, align_log2: 0, zeroed: false }
}

/// Returns `calls` calls of one thread, which replaces the blocks of a hundred addresses.
fn churn(calls: u64) -> impl Iterator<Item = (u32, What)> {
    (0..calls).map(|i| {
        let address = i / 2 % 100 * 64;
        (1, if i % 2 == 0 { alloc(address, 8 + i / 2 % 50) } else { What::Free { address } })
    })
}

#[test]
fn conc_every_general_contender_replays() {
    let dir = TestDir::new("every");
    let program = |path: &Path| {
        let trace = Trace::open(path).expect("the test wrote it");
        ReplayProgram::of(&trace).expect("the trace is whole")
    };
    for program in [program(&dir.save("one thread", churn(2000))), program(&dir.four_threads())] {
        let field = field(program.is_threaded(), &[]);
        let keys: Vec<&str> = field.candidates.iter().map(|candidate| candidate.key).collect();
        assert_eq!(keys[..2], [REFERENCE, TWIN]);
        assert!(keys.contains(&"one-ring"), "{keys:?}");
        assert_eq!(keys.contains(&"ring"), !program.is_threaded(), "one thread only");
        let arena = field.left_out.iter().find(|(key, _)| key == "bumpalo");
        assert_eq!(arena.is_some(), cfg!(feature = "rust-peers"));
        assert!(arena.is_none_or(|(_, why)| why.contains("block by block")), "{arena:?}");
        let figures =
            time(&program, &field.candidates, 1, 1, |_| ()).expect("the reference replays the trace");
        assert_eq!(figures.len(), field.candidates.len());
        assert!(figures.iter().all(|timed| timed.ratio.mid > 0.0 && timed.ns > 0.0));
    }
    let few = field(false, &["ring".to_owned()]);
    let keys: Vec<&str> = few.candidates.iter().map(|candidate| candidate.key).collect();
    assert_eq!(keys, [REFERENCE, TWIN, "ring"]);
}

/// Returns the largest peak of resident bytes among a replay and its child processes, and the
/// output and messages of the replay.
#[expect(clippy::zombie_processes, reason = "`wait4` reaps it and returns its peak")]
fn resident_peak_of_a_replay(trace: &Path) -> (u64, String, String) {
    let mut command = command();
    command.arg(trace).args(["--peers", "one-ring", "--rounds", "1"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("cargo built it");
    let mut status = 0;
    // SAFETY: the structure has only integers, for which all-zero bytes are valid.
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    // SAFETY: both pointers are valid for writes, and the process is our child. Its output fits
    // into its pipes, so it can end before they are read.
    let ended = unsafe { libc::wait4(child.id().cast_signed(), &raw mut status, 0, &raw mut usage) };
    assert_eq!(ended, child.id().cast_signed());
    let read = |mut from: Box<dyn Read>| {
        let mut text = String::new();
        from.read_to_string(&mut text).expect("it is text");
        text
    };
    let (out, error) =
        (child.stdout.expect("the stream is piped"), child.stderr.expect("the stream is piped"));
    let (out, error) = (read(Box::new(out)), read(Box::new(error)));
    assert_eq!(status, 0, "{error}");
    (usage.ru_maxrss.cast_unsigned() * 1024, out, error)
}

#[test]
fn the_memory_of_a_replay_does_not_grow_with_the_trace() {
    let dir = TestDir::new("long");
    let replay = |calls: u64| resident_peak_of_a_replay(&dir.save("a long run", churn(calls)));
    let (short, ..) = replay(40_000);
    let (long, said, told) = replay(400_000);
    // In memory, 400,000 operations of 20 bytes take 8 MB.
    assert!(long < short + (4 << 20), "{long} bytes; {short} for a tenth of the length");
    assert!(said.contains("400,000 calls") && said.contains("OneRingAlloc"), "{said}");
    // The command announces how much room the replay takes.
    assert!(told.contains("The replay takes ") && told.contains("on the disk of the trace"), "{told}");
    let entries = std::fs::read_dir(&dir.0).expect("the test made it").count();
    assert_eq!(entries, 2, "the trace and its figures; the file of the operations has no name");
}

#[test]
fn a_replay_without_room_on_the_disk_is_an_error() {
    let dir = TestDir::new("room");
    let trace = dir.four_threads();
    let output = run(&[&trace.to_string_lossy(), "--peers", "one-ring", "--room", "1000"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("1000 B are free"), "{error}");
}

#[test]
fn conc_a_replay_leaves_its_figures_for_the_advice() {
    let dir = TestDir::new("replay");
    let trace = dir.four_threads();
    let trace = trace.to_string_lossy();
    let said = printed(&[&trace, "--peers", "one-ring", "--rounds", "2"]);
    assert!(said.contains("OneRingAlloc") && said.contains("A/A"), "{said}");
    assert!(said.contains("threads: 4"), "{said}");
    let path = Path::new(&*trace);
    let profile = TraceProfile::of(&Trace::open(path).expect("the test wrote it"), |_| ());
    let kept = figures::of(path, &profile.expect("the trace is whole"));
    let keys: Vec<String> =
        kept.expect("the replay left its figures").rows.into_iter().map(|row| row.key).collect();
    assert_eq!(keys, [REFERENCE, TWIN, "one-ring"]);
}

/// A replay takes minutes, so a full output device must not lose its figures.
#[cfg(target_os = "linux")]
#[test]
fn a_full_output_loses_no_figures() {
    let dir = TestDir::new("full");
    let trace = dir.save("a run", churn(100));
    let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has this device");
    let mut command = command();
    command.arg(&trace).args(["--peers", "one-ring", "--rounds", "1"]);
    let output = command.stdout(full).output().expect("cargo built it");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("the standard output: "), "{error}");
    assert!(figures::path(&trace).exists(), "{error}");
}

#[test]
fn a_named_contender_that_cannot_replay_is_listed() {
    let dir = TestDir::new("listed");
    let trace = dir.save("a run", churn(100));
    let said = printed(&[&trace.to_string_lossy(), "--peers", "ringal,shared,one-ring", "--rounds", "1"]);
    for key in ["ringal", "shared"] {
        let line = format!("left out: {key}: it does not serve blocks of any size");
        assert!(said.contains(&line), "{said}");
    }
    assert!(said.contains("OneRingAlloc") && !said.contains("left out: one-ring"), "{said}");
}

#[test]
fn escape_sequences_of_a_command_do_not_reach_the_terminal() {
    let dir = TestDir::new("escapes");
    let path = dir.save("evil\x1b]0;owned\x07\x1b[2J\u{9b}31m", churn(100));
    let said = printed(&[&path.to_string_lossy(), "--peers", "one-ring", "--rounds", "1"]);
    let control = |c: char| c.is_control() && c != '\n';
    assert!(said.contains("evil\\u{1b}]0;owned") && !said.contains(control), "{said:?}");
}

/// A contender that may crash at thread exit takes part only if the user names it.
#[cfg(feature = "rust-peers")]
#[test]
fn conc_a_contender_that_the_user_named_is_measured_in_a_process_of_its_own() {
    let dir = TestDir::new("named");
    let trace = dir.four_threads();
    let output = run(&[&trace.to_string_lossy(), "--memory-of", "upstream-one-ring"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!error.contains("no such contender"), "{error}");
}

/// Writes a trace of a thousand blocks of 1 GiB, which exceed the memory of every test machine.
/// Returns the path of the trace.
fn sparse(dir: &TestDir, zeroed: bool) -> PathBuf {
    let alloc = |i: u64| What::Alloc { address: i << 30, size: 1 << 30, align_log2: 0, zeroed };
    dir.save("a thousand large blocks", (0..1000).map(|i| (1, alloc(i))))
}

#[test]
fn a_trace_larger_than_the_machine_is_timed_without_a_memory_figure() {
    let dir = TestDir::new("sparse");
    let trace = sparse(&dir, false);
    let said = printed(&[&trace.to_string_lossy(), "--peers", "one-ring", "--rounds", "1"]);
    assert!(said.contains("memory was not measured: up to 1000.0 GiB"), "{said}");
    assert!(said.contains("OneRingAlloc") && !said.contains("signal"), "{said}");
}

/// Upstream's ring zeroes fresh pages itself. Other allocators know that fresh pages are already
/// zero.
#[cfg(feature = "rust-peers")]
#[test]
fn a_contender_that_takes_all_memory_is_killed_and_named() {
    let dir = TestDir::new("zeroed");
    let trace = sparse(&dir, true);
    let trace = trace.to_string_lossy();
    let said = printed(&[&trace, "--peers", "upstream-ring", "--rounds", "1", "--room", "1000000000"]);
    assert!(said.contains("left out: upstream-ring: it took more than 715.3 MiB"), "{said}");
}

/// A replay without its reference must fail, because ratios to another contender would be mistaken
/// for ratios to the reference.
#[test]
fn a_replay_without_its_reference_is_an_error() {
    let dir = TestDir::new("short");
    let trace = sparse(&dir, false);
    let output = Command::new("sh")
        .args(["-c", "ulimit -v 4000000; exec \"$0\" replay \"$1\" --peers one-ring --rounds 1"])
        .args([env!("CARGO_BIN_EXE_bench-runner"), &trace.to_string_lossy()])
        .output()
        .expect("there is a shell");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(error.contains("glibc cannot replay this trace") && error.contains("ulimit -v"), "{error}");
    assert!(error.contains("refused 1073741824 bytes"), "{error}");
    assert!(!dir.0.join("trace.replay.json").exists(), "no figures are left for the advice");
}

#[test]
fn a_wrong_argument_is_named() {
    let dir = TestDir::new("told");
    let trace = dir.four_threads();
    let trace = trace.to_string_lossy();
    for (arguments, told) in [
        (vec!["/no/such/trace"], "/no/such/trace"),
        (vec![&*trace, "--peers", "nobody"], "no contender `nobody`"),
        (vec![&*trace, "--rounds", "0"], "--rounds"),
        (vec![&*trace, "--rounds", "4294967295"], "--rounds"),
    ] {
        let output = run(&arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(told), "{arguments:?}: {error}");
    }
}
