//! Tests that run programs under the preloaded recorder: the test program in its modes, and
//! programs that most machines have.
#![cfg(target_os = "linux")]

use core::time::Duration;
use std::path::Path;
use std::process::Command;

use ephemera_recorder::format::{Origin, Stop};
use ephemera_recorder::{Summary, Timing, Trace, What};

use self::support::{Dir, SIZE, busy, counted, good};

#[path = "support/mod.rs"]
mod support;

#[test]
fn conc_remote_frees_have_the_freeing_threads_number() {
    let dir = Dir::new("threads");
    good(&dir.run("threads"));
    let trace = dir.trace();
    assert_eq!(trace.origin, Some(Origin::Program));
    assert!(trace.command.ends_with("recorder_busy threads"), "{}", trace.command);
    let (blocks, here, elsewhere) = counted(&trace);
    assert_eq!((blocks, here, elsewhere), (4500, 4000, 500));
    let sum = Summary::of(&trace).expect("a whole trace");
    assert_eq!((sum.threads, sum.lost, sum.twice), (6, 0, 0));
}

#[test]
fn conc_consecutive_threads_share_a_stream() {
    let dir = Dir::new("one-by-one");
    good(&dir.run("one-by-one"));
    let trace = dir.trace();
    assert_eq!(counted(&trace), (6000, 6000, 0));
    assert!(Summary::of(&trace).expect("a whole trace").threads > 300);
    assert!(trace.bytes < 600 << 10, "{} bytes for 300 threads", trace.bytes);
}

#[test]
fn a_child_of_a_fork_has_a_trace_of_its_own() {
    let dir = Dir::new("fork");
    good(&dir.run("fork"));
    let traces = dir.traces();
    let (child, parent): (Vec<_>, Vec<_>) =
        traces.iter().partition(|trace| trace.origin == Some(Origin::Fork));
    assert_eq!((child.len(), parent.len()), (1, 1));
    assert_eq!(child[0].parent, parent[0].pid);
    assert_eq!(counted(parent[0]), (41, 41, 0));
    assert_eq!(counted(child[0]), (20, 20, 0));
    let sum = Summary::of(child[0]).expect("a whole trace");
    assert_eq!(sum.unknown, 1, "the parent's block");
    assert!(child[0].caveats()[0].contains("fork"));
}

/// Reads a whole trace, and returns the times in its notes.
fn timing_of(trace: &Trace) -> Timing {
    let mut events = trace.events();
    assert!(events.by_ref().all(|event| event.is_ok()), "a whole trace");
    events.timing().clone()
}

#[test]
fn conc_every_thread_and_the_exit_note_processor_times() {
    let dir = Dir::new("clocks");
    good(&dir.run("threads"));
    let trace = dir.trace();
    let timing = timing_of(&trace);
    assert_eq!(timing.threads.len(), 6, "{:?}", timing.threads.keys());
    assert!(
        timing.threads.values().all(|thread| thread.first.time < thread.last.time),
        "its beginning and its end"
    );
    let end = trace.end.expect("the program exited");
    let (noted, process) = timing.process.expect("the program records its clocks");
    assert!(noted <= end.time, "{noted}, {end:?}: the thread that exits notes its clocks first");
    let process = process - trace.start_processor;
    // Times in the notes are rounded down to ticks.
    assert!(end.processor + 32 >= process && process > 0, "{end:?}, {process}");
    let threads: u64 = timing.threads.values().map(|thread| thread.last.thread - thread.first.thread).sum();
    assert!(threads > 0 && threads <= end.processor + 6 * 32, "{threads} of {}", end.processor);
}

#[test]
fn some_calls_of_each_kind_are_measured() {
    let dir = Dir::new("measured");
    good(&dir.run("many"));
    let trace = dir.trace();
    assert!(trace.clock_cost > 0.0);
    let timing = timing_of(&trace);
    let events: u64 = timing.kinds().map(|kind| kind.events).sum();
    let measured = timing.recorder().count + timing.left_out;
    assert!((events / 64..events / 16).contains(&measured), "{measured} of {events}: one in 32");
    for kind in timing.kinds().filter(|kind| kind.events > 10_000) {
        assert!((kind.events / 64..kind.events / 16).contains(&kind.allocator.count), "{kind:?}");
        assert!(kind.allocator.mean() > 0.0 && kind.recorder.mean() > 0.0, "{kind:?}");
    }
    assert!(timing.slow > 0, "packets were begun");
}

#[test]
fn a_killed_process_has_no_end_and_a_child_has_its_own() {
    let dir = Dir::new("no-end");
    assert!(!dir.run("abort").status.success());
    assert_eq!(dir.trace().end, None);
    let dir = Dir::new("ends");
    good(&dir.run("fork-exits"));
    let traces = dir.traces();
    assert_eq!(traces.len(), 2);
    for trace in traces {
        let end = trace.end.expect("the parent and the child exit");
        let noted = timing_of(&trace).process.map(|(time, _)| time);
        assert!(noted <= Some(end.time), "{end:?}, {noted:?}");
    }
}

#[test]
fn a_process_that_executes_another_program_has_two_traces() {
    let dir = Dir::new("exec");
    good(&dir.run("exec"));
    let traces = dir.traces();
    assert_eq!(traces.len(), 2);
    assert_eq!(traces[0].pid, traces[1].pid);
    assert_eq!(counted(&traces[0]).0, 40);
    assert_eq!(counted(&traces[1]).0, 60);
    assert!(traces[1].command.ends_with("recorder_busy churn"));
}

#[test]
fn an_aborted_or_killed_process_loses_no_event() {
    let dir = Dir::new("abort");
    assert!(!dir.run("abort").status.success());
    assert_eq!(counted(&dir.trace()), (70, 70, 0));

    let dir = Dir::new("killed");
    let mut child = dir.command(busy()).arg("endless").spawn().expect("the program was built");
    let begun = || std::fs::read_dir(&dir.0).is_ok_and(|mut entries| entries.next().is_some());
    while !begun() {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(20));
    child.kill().expect("it runs");
    child.wait().expect("it ran");
    let (blocks, here, elsewhere) = counted(&dir.trace());
    assert!(blocks > 0 && here + 1 >= blocks && elsewhere == 0, "{blocks} {here}");
}

#[test]
fn a_program_may_close_every_descriptor() {
    let dir = Dir::new("close");
    good(&dir.run("close"));
    let trace = dir.trace();
    assert_eq!(counted(&trace), (50_050, 50_050, 0));
    assert!(trace.bytes > 256 << 10, "the file grew after the descriptors were closed");
}

#[test]
fn every_function_of_the_family_is_recorded_and_works() {
    let dir = Dir::new("family");
    good(&dir.run("family"));
    let trace = dir.trace();
    let events: Vec<_> = trace.events().map(|event| event.expect("a whole trace").what).collect();
    for log2 in [6, 8, 12] {
        let found = events.iter().any(
            |what| matches!(what, What::Alloc { size: SIZE, align_log2, zeroed: false, .. } if *align_log2 == log2),
        );
        assert!(found, "aligned to 2^{log2}");
    }
    assert!(events.iter().any(|what| matches!(what, What::Alloc { size: SIZE, zeroed: true, .. })));
    assert!(events.iter().any(|what| matches!(what, What::Resized { size, .. } if *size == 5 * SIZE)));
    assert!(events.iter().any(|what| matches!(what, What::Resized { size: 0, .. })), "refused");
    let sum = Summary::of(&trace).expect("a whole trace");
    assert_eq!((sum.unknown, sum.twice, sum.lost), (0, 0, 0));
}

#[test]
fn the_limit_ends_the_trace_and_not_the_program() {
    let dir = Dir::new("limit");
    let output = dir.command(busy()).arg("many").env("EPHEMERA_TRACE_LIMIT", "200000").output();
    good(&output.expect("the program was built"));
    let trace = dir.trace();
    assert_eq!(trace.stop, Some(Stop::Limit));
    assert!(trace.bytes <= 200_704, "{}", trace.bytes);
    let (blocks, ..) = counted(&trace);
    assert!((10_000..200_000).contains(&blocks), "{blocks}");
    assert!(trace.caveats()[0].contains("limit of 200,704 bytes"), "{:?}", trace.caveats());
}

/// The kernel ends a program whose file exceeds the program's limit.
#[test]
fn a_limit_on_file_sizes_ends_the_trace_and_not_the_program() {
    let dir = Dir::new("large-file");
    good(&dir.run("large-file"));
    let trace = dir.trace();
    assert_eq!(trace.stop, Some(Stop::FileSize));
    assert!(trace.bytes <= 200_000 && counted(&trace).0 > 5000, "{} bytes", trace.bytes);
    assert!(trace.caveats()[0].contains("ulimit -f"), "{:?}", trace.caveats());

    let dir = Dir::new("any-file");
    good(&dir.run("any-file"));
    assert_eq!(counted(&dir.trace()).0, 40, "the second program has no trace, not even an empty one");
}

#[test]
fn a_renamed_trace_names_the_reason_of_its_end() {
    let dir = Dir::new("renamed");
    good(&dir.run("renamed"));
    let trace = dir.trace();
    assert_eq!(trace.stop, Some(Stop::Path));
    assert!(trace.caveats()[0].contains("privileges"), "{:?}", trace.caveats());
}

#[test]
fn conc_calls_in_last_destructors_keep_no_stream() {
    let dir = Dir::new("late");
    good(&dir.run("late"));
    let trace = dir.trace();
    assert_eq!(trace.stop, None, "{:?}", trace.caveats());
    let (blocks, here, _) = counted(&trace);
    assert!(blocks >= 5000 * 22 && here == blocks, "{blocks}: each of two destructors or more");
    assert!(trace.bytes < 10 << 20, "{} bytes", trace.bytes);
}

#[test]
fn conc_calls_after_the_last_destructors_keep_no_stream() {
    let dir = Dir::new("detached");
    good(&dir.run("detached"));
    let trace = dir.trace();
    assert_eq!(trace.stop, None, "{:?}", trace.caveats());
    assert_eq!(counted(&trace), (10, 10, 0));
    let threads = Summary::of(&trace).expect("a whole trace").threads;
    println!("{threads} threads called");
    assert!(trace.bytes < 10 << 20, "{} bytes", trace.bytes);
}

#[test]
fn without_a_path_nothing_is_recorded() {
    let dir = Dir::new("off");
    let output = dir.command(busy()).arg("family").env_remove("EPHEMERA_TRACE").output();
    good(&output.expect("the program was built"));
    let output = dir.command(busy()).arg("family").env("EPHEMERA_TRACE", "/no/such/directory/t").output();
    good(&output.expect("the program was built"));
    assert!(dir.traces().is_empty());
}

/// The test runs each of these programs that the machine has. For a program that is missing or
/// fails on its own, it prints a note.
#[test]
fn programs_of_the_machine_behave_as_without_the_recorder() {
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recorded.c");
    std::fs::write(&source, "#include <stdio.h>\nint main(void) { return printf(\"%d\\n\", 1) < 0; }\n")
        .expect("cargo's directory can be written");
    let source = source.to_string_lossy().into_owned();
    let programs: [&[&str]; 8] = [
        &["ls", "/"],
        &["git", "--version"],
        &["python3", "-c", "print(sum(len(str(i)) for i in range(10000)))"],
        &["gcc", "-c", &source, "-o", "/dev/null"],
        &["sqlite3", ":memory:", "create table t(a); insert into t values(1),(2); select sum(a) from t;"],
        &["rustc", "--version"],
        &["cargo", "metadata", "--no-deps", "--format-version", "1", "--manifest-path", MANIFEST],
        &["bash", "-c", "for i in 1 2 3; do (echo $i | cat); done"],
    ];
    let mut ran = Vec::new();
    for (index, words) in programs.into_iter().enumerate() {
        let Ok(alone) = Command::new(words[0]).args(&words[1..]).output() else {
            println!("not here: {}", words[0]);
            continue;
        };
        if !alone.status.success() {
            println!("does not work here: {}", words[0]);
            continue;
        }
        let dir = Dir::new(&format!("program-{index}"));
        let recorded =
            dir.command(Path::new(words[0])).args(&words[1..]).output().expect("the program is installed");
        good(&recorded);
        assert_eq!(recorded.stdout, alone.stdout, "{words:?}");
        let traces = dir.traces();
        assert!(!traces.is_empty(), "{words:?}");
        let mut events = 0;
        for trace in &traces {
            let sum = Summary::of(trace).expect("a whole trace");
            assert_eq!(sum.lost, 0, "{words:?}: {}", trace.command);
            events += sum.events;
        }
        assert!(events > 10, "{words:?}");
        if words[0] == "gcc" {
            assert!(
                traces.iter().any(|trace| trace.command.contains("cc1")),
                "the compiler proper is a child"
            );
        }
        ran.push(format!("{} ({} processes, {events} events)", words[0], traces.len()));
    }
    println!("ran: {}", ran.join(", "));
    assert!(!ran.is_empty(), "none of these programs is here");
}

/// The path of this package's manifest, which the recorded `cargo` reads.
const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
