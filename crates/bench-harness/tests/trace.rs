//! Replays that are counted, and the program `bench-trace` as its users call it.

mod strict;

use core::panic::AssertUnwindSafe;
use std::io::Read;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use bench_harness::tally::{self, Counted};
use bench_harness::trace::replay::{Kind, Player, Program};
use bench_harness::trace::{Event, Trace, What, Writer};

use self::strict::{Refusing, Strict};

/// A directory that goes with the test.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("cargo's directory can be written");
        Self(dir)
    }

    /// A trace of four threads: each frees and resizes what the one before it made.
    fn trace(&self) -> PathBuf {
        let mut writer = Writer::new("four threads");
        let mut sequence = 0;
        let mut call = |thread: u64, what: What| {
            sequence += 1;
            writer.push(&Event { sequence, time: sequence * 100, thread: thread as u32 + 1, what });
        };
        for i in 0..20_000_u64 {
            let address = |i: u64| i * 64;
            let size = 1 + i * 7919 % 3000;
            call(
                i % 4,
                What::Alloc { address: address(i), size, align_log2: 0, zeroed: i.is_multiple_of(10) },
            );
            if let Some(before) = i.checked_sub(100) {
                if before % 5 == 0 {
                    call((i + 1) % 4, What::Resize { address: address(before) });
                    call((i + 1) % 4, What::Resized { address: address(before), size: size * 2 });
                }
                if before % 50 != 0 {
                    call(i % 3, What::Free { address: address(before) });
                }
            }
        }
        let path = self.0.join("trace");
        writer.save(&path).expect("cargo's directory can be written");
        path
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        // What is left lies in cargo's directory for such things.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bench-trace")).args(arguments).output().expect("cargo built it")
}

/// What a run that went well printed.
fn printed(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn conc_a_replay_reaches_the_allocator_call_by_call() {
    let dir = Dir::new("counted");
    let trace = Trace::open(&dir.trace()).expect("it was just written");
    let program = Program::of(&trace).expect("it is whole");
    assert_eq!(program.lanes.len(), 4);
    let count = |kind: Kind| program.lanes.iter().flatten().filter(|op| op.kind == kind).count() as u64;
    let mut player = Player::<Counted<Strict>>::new(&program, true);
    for _ in 0..3 {
        tally::reset();
        player.play();
        let tally = tally::read();
        assert_eq!(tally.allocs, count(Kind::Alloc) + count(Kind::Zeroed));
        assert_eq!(tally.resizes, count(Kind::Resize));
        assert_eq!(tally.frees, count(Kind::Free) + program.left.len() as u64);
        // Blocks come in the order of the trace, within two epochs.
        assert!(tally.peak_live >= program.peak_live / 2, "{} of {}", tally.peak_live, program.peak_live);
    }
    assert!(count(Kind::Resize) > 1000 && count(Kind::Zeroed) > 1000 && program.left.len() > 300);
}

#[test]
fn conc_a_lane_that_is_refused_ends_the_others() {
    let dir = Dir::new("refused");
    let program = Program::of(&Trace::open(&dir.trace()).expect("it was just written")).expect("it is whole");
    let mut player = Player::<Refusing>::new(&program, false);
    for allocations in [0, 1, 100, 5_000] {
        Refusing::after(allocations);
        catch_unwind(AssertUnwindSafe(|| player.play())).expect_err("a block was refused");
    }
    Refusing::after(u64::MAX);
    player.play();
}

#[test]
fn advice_and_its_page() {
    let dir = Dir::new("advice");
    let (trace, page) = (dir.trace(), dir.0.join("page.html"));
    let (trace, page) = (trace.to_string_lossy(), page.to_string_lossy());
    let said = printed(&["advise", &trace, "--html", &page]);
    for part in
        ["four threads", "ring-alloc", "typed-pool", "shared_arena", "ringal", "docs/benchmarks/results.md"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(std::fs::read_to_string(&*page).expect("it was written").contains("</html>"));
    assert!(printed(&["summary", &trace]).contains("20,000"));
}

/// The figures of another trace would look like those of this one.
#[test]
fn conc_figures_belong_to_the_trace_that_they_were_made_from() {
    let dir = Dir::new("figures");
    let path = dir.trace();
    let trace = path.to_string_lossy();
    let said = printed(&["replay", &trace, "--peers", "one-ring", "--rounds", "1"]);
    assert!(said.contains("OneRingAlloc"), "{said}");
    let advise = || {
        let output = run(&["advise", &trace]);
        assert!(output.status.success());
        let told = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (told(&output.stdout).contains("the replay of this trace"), told(&output.stderr))
    };
    assert!(advise().0);
    // A trace that was copied, or touched, is the same trace.
    let bytes = std::fs::read(&path).expect("it was written");
    std::thread::sleep(core::time::Duration::from_millis(20));
    std::fs::write(&path, &bytes).expect("cargo's directory can be written");
    assert!(advise().0, "a younger file of the same operations");
    // Another recording of the same command, and the same operations of another command, are older
    // than the figures.
    let figures = format!("{trace}.replay.json");
    let kept = std::fs::read_to_string(&figures).expect("it was written");
    for (command, extra) in [("four threads", true), ("five threads", false)] {
        let mut writer = Writer::new(command);
        for event in Trace::open(&path).expect("it was written").events() {
            writer.push(&event.expect("it is whole"));
        }
        if extra {
            writer.push(&Event {
                sequence: 1 << 40,
                time: 1 << 40,
                thread: 1,
                what: What::Free { address: 1 },
            });
        }
        writer.save(&path).expect("cargo's directory can be written");
        std::fs::write(&figures, &kept).expect("cargo's directory can be written");
        let (used, told) = advise();
        assert!(!used && told.contains("is not used") && told.contains("about another"), "{command}: {told}");
        std::fs::write(&path, &bytes).expect("cargo's directory can be written");
    }
    // Figures that somebody else wrote are no way to the terminal either.
    std::fs::write(&figures, kept.replace("OneRingAlloc", "\\u001b]0;owned"))
        .expect("cargo's directory can be written");
    let (used, told) = advise();
    assert!(!used && told.contains("control characters"), "{told}");
}

/// A command is what whoever wrote the trace wants it to be.
#[test]
fn escape_sequences_of_a_command_do_not_reach_the_terminal_or_the_page() {
    let dir = Dir::new("escapes");
    let mut writer = Writer::new("evil\x1b]0;owned\x07\x1b[2J\u{9b}31m");
    for i in 0..100 {
        let what = What::Alloc { address: i << 8, size: 64, align_log2: 0, zeroed: false };
        writer.push(&Event { sequence: i, time: i * 100, thread: 1, what });
    }
    let path = dir.0.join("trace");
    writer.save(&path).expect("cargo's directory can be written");
    let (trace, page) = (path.to_string_lossy(), dir.0.join("page.html"));
    let page_path = page.to_string_lossy();
    let obeyed = |c: char| c.is_control() && c != '\n';
    for arguments in [
        vec!["summary", &trace],
        vec!["replay", &trace, "--peers", "one-ring", "--rounds", "1"],
        vec!["advise", &trace, "--html", &page_path],
    ] {
        let said = printed(&arguments);
        assert!(said.contains("evil\\u{1b}]0;owned") && !said.contains(obeyed), "{arguments:?}: {said:?}");
    }
    let page = std::fs::read_to_string(&page).expect("it was written");
    assert!(page.contains("evil\\u{1b}]0;owned") && !page.contains(obeyed), "the page");
}

/// Most bytes resident of a replay and of the processes that it started, and what it said.
#[expect(clippy::zombie_processes, reason = "`wait4` reaps it and returns its peak")]
fn resident_peak_of_a_replay(trace: &Path) -> (u64, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench-trace"));
    command.arg("replay").arg(trace).args(["--peers", "one-ring", "--rounds", "1"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("cargo built it");
    let mut status = 0;
    // SAFETY: the structure holds numbers alone, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    // SAFETY: both places are valid, and the process is our child. Its output fits its pipes.
    let ended = unsafe { libc::wait4(child.id().cast_signed(), &raw mut status, 0, &raw mut usage) };
    assert_eq!(ended, child.id().cast_signed());
    let read = |mut from: Box<dyn Read>| {
        let mut text = String::new();
        from.read_to_string(&mut text).expect("it is text");
        text
    };
    let (out, error) = (child.stdout.expect("it is piped"), child.stderr.expect("it is piped"));
    let (out, error) = (read(Box::new(out)), read(Box::new(error)));
    assert_eq!(status, 0, "{error}");
    (usage.ru_maxrss.cast_unsigned() * 1024, out, error)
}

/// The operations of a trace are read from a file as they are played, whatever their number.
#[test]
fn a_replay_takes_no_memory_for_the_length_of_its_trace() {
    let dir = Dir::new("long");
    let replay = |calls: u64| {
        let mut writer = Writer::new("a long run");
        for i in 0..calls {
            let (round, block) = (i / 2, i / 2 % 100 * 64);
            let what = if i % 2 == 0 {
                What::Alloc { address: block, size: 8 + round % 50, align_log2: 0, zeroed: false }
            } else {
                What::Free { address: block }
            };
            writer.push(&Event { sequence: i, time: i * 100, thread: 1, what });
        }
        let path = dir.0.join("trace");
        writer.save(&path).expect("cargo's directory can be written");
        resident_peak_of_a_replay(&path)
    };
    let (short, ..) = replay(40_000);
    let (long, said, told) = replay(400_000);
    // In memory, 400,000 operations of 20 bytes take 8 MB.
    assert!(long < short + (4 << 20), "{long} bytes; {short} for a tenth of the length");
    assert!(said.contains("400,000 calls") && said.contains("OneRingAlloc"), "{said}");
    // It says first what it takes.
    assert!(told.contains("The replay takes ") && told.contains("on the disk of the trace"), "{told}");
    let entries = std::fs::read_dir(&dir.0).expect("it is there").count();
    assert_eq!(entries, 2, "the trace and its figures; the file of the operations has no name");
}

#[test]
fn a_replay_says_that_it_lacks_room() {
    let dir = Dir::new("room");
    let trace = dir.trace();
    let output = run(&["replay", &trace.to_string_lossy(), "--peers", "one-ring", "--room", "1000"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("1000 B are free"), "{error}");
}

#[test]
fn conc_a_replay_leaves_its_figures_for_the_advice() {
    let dir = Dir::new("replay");
    let trace = dir.trace();
    let trace = trace.to_string_lossy();
    let said = printed(&["replay", &trace, "--peers", "one-ring", "--rounds", "2"]);
    assert!(said.contains("OneRingAlloc") && said.contains("A/A"), "{said}");
    assert!(said.contains("threads: 4"), "{said}");
    let advised = printed(&["advise", &trace]);
    assert!(advised.contains("the replay of this trace"), "{advised}");
    std::fs::write(format!("{trace}.replay.json"), "{}").expect("cargo's directory can be written");
    let output = run(&["advise", &trace]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("is not used"), "an unreadable file is told");
}

/// What may crash where threads end plays when it is named, and so in the process that measures its memory.
#[cfg(feature = "rust-peers")]
#[test]
fn conc_who_is_named_plays_in_its_own_process_too() {
    let dir = Dir::new("named");
    let trace = dir.trace();
    let output = run(&["replay", &trace.to_string_lossy(), "--memory-of", "upstream-one-ring"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!error.contains("no such contender"), "{error}");
}

/// Blocks of 1 GiB: a thousand of them, of which the program may have used little.
fn sparse(dir: &Dir, zeroed: bool) -> PathBuf {
    let mut writer = Writer::new("a thousand large blocks");
    for i in 0..1000_u64 {
        let what = What::Alloc { address: i << 30, size: 1 << 30, align_log2: 0, zeroed };
        writer.push(&Event { sequence: i, time: i * 100, thread: 1, what });
    }
    let path = dir.0.join("sparse");
    writer.save(&path).expect("cargo's directory can be written");
    path
}

#[test]
fn a_trace_larger_than_the_machine_is_timed_and_its_memory_left_alone() {
    let dir = Dir::new("sparse");
    let trace = sparse(&dir, false);
    let said = printed(&["replay", &trace.to_string_lossy(), "--peers", "one-ring", "--rounds", "1"]);
    assert!(said.contains("memory was not measured: up to 1000.0 GiB"), "{said}");
    assert!(said.contains("OneRingAlloc") && !said.contains("signal"), "{said}");
}

/// The published ring writes zeros where others know that there are some.
#[cfg(feature = "rust-peers")]
#[test]
fn who_takes_all_memory_is_ended_and_named() {
    let dir = Dir::new("zeroed");
    let trace = sparse(&dir, true);
    let trace = trace.to_string_lossy();
    let said =
        printed(&["replay", &trace, "--peers", "upstream-ring", "--rounds", "1", "--room", "1000000000"]);
    assert!(said.contains("left out: upstream-ring: it took more than 715.3 MiB"), "{said}");
}

/// Ratios to whoever came next would look like any others.
#[test]
fn without_the_reference_there_are_no_ratios() {
    let dir = Dir::new("short");
    let trace = sparse(&dir, false);
    let output = Command::new("sh")
        .args(["-c", "ulimit -v 4000000; exec \"$0\" replay \"$1\" --peers one-ring --rounds 1"])
        .args([env!("CARGO_BIN_EXE_bench-trace"), &trace.to_string_lossy()])
        .output()
        .expect("there is a shell");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(error.contains("glibc cannot replay this trace") && error.contains("ulimit -v"), "{error}");
    assert!(error.contains("refused 1073741824 bytes"), "{error}");
    assert!(!dir.0.join("sparse.replay.json").exists(), "no figures are left for the advice");
}

#[test]
fn what_cannot_be_done_is_told() {
    let dir = Dir::new("told");
    let trace = dir.trace();
    let trace = trace.to_string_lossy();
    for (arguments, told) in [
        (vec!["advise", "/no/such/trace"], "/no/such/trace"),
        (vec!["advise", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")], "EPHTRACE"),
        (vec!["replay", &trace, "--peers", "nobody"], "no contender `nobody`"),
        (vec!["replay", &trace, "--rounds", "0"], "--rounds"),
    ] {
        let output = run(&arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(told), "{arguments:?}: {error}");
    }
}
