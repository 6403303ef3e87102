//! Replays that are counted, and the program `bench-trace` as its users call it.

mod strict;

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

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
    for part in ["four threads", "ring-alloc", "typed-pool", "shared_arena", "ringal", "README.md"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(std::fs::read_to_string(&*page).expect("it was written").contains("</html>"));
    assert!(printed(&["summary", &trace]).contains("20,000"));
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
