//! Tests of the report.

use super::{HEAD, ProgramFacts, ProgramReport, facts, lines};
use crate::programs::catalogue::{ALLOCATORS, OURS, PROGRAMS, ProgramPlan};
use crate::programs::figures::{ProgramEnd, ProgramRun};
use crate::programs::process::ProcessFigures;
use crate::workspace::Workspace;

fn plan() -> ProgramPlan {
    ProgramPlan { programs: PROGRAMS[..2].to_vec(), allocators: ALLOCATORS.to_vec(), rounds: 3, seed: 1 }
}

/// Returns the end of a process that took `time` milliseconds and at most `peak` MiB.
fn ended(time: u64, peak: u64) -> ProgramEnd {
    let figures = ProcessFigures {
        wall_ns: time * 1_000_000,
        user_ns: time * 1_000_000,
        system_ns: 0,
        peak_bytes: peak << 20,
        resident: vec![(0, peak << 20)],
    };
    ProgramEnd::Ran { checksum: "c".to_owned(), figures }
}

/// Returns a report in which `end` decides the end of each process from the program's name and the
/// allocator's key.
fn report(end: impl Fn(&str, &str) -> ProgramEnd) -> ProgramReport {
    let plan = plan();
    let mut runs = Vec::new();
    for round in 0..plan.rounds {
        for program in &plan.programs {
            for allocator in &plan.allocators {
                let ended = end(program.name, allocator.key);
                runs.push(ProgramRun {
                    program: program.name.to_owned(),
                    contender: allocator.key,
                    round,
                    ended,
                });
            }
        }
    }
    let facts = ProgramFacts {
        facts: vec![("commit", "abc".to_owned())],
        programs: vec![("syn 3".to_owned(), "parses")],
    };
    ProgramReport::new(&plan, facts, &runs)
}

fn usual(_program: &str, key: &str) -> ProgramEnd {
    match key {
        "mimalloc" => ended(80, 20),
        "jemalloc" => ended(70, 10),
        "snmalloc" => ended(90, 30),
        key if key == OURS => ended(56, 15),
        _ => ended(100, 10),
    }
}

#[test]
fn a_failure_and_a_wrong_result_are_rows_with_their_reasons() {
    let report = report(|program, key| match (program, key) {
        ("syn", "snmalloc") => ProgramEnd::Failed { reason: "signal 11 ended it".to_owned() },
        ("syn", "jemalloc") => match ended(1, 1) {
            ProgramEnd::Ran { figures, .. } => ProgramEnd::Ran { checksum: "d".to_owned(), figures },
            failed => failed,
        },
        _ => usual(program, key),
    });
    assert!(!report.is_whole());
    for text in [report.text(), report.markdown()] {
        assert!(text.contains("failed") && text.contains("signal 11 ended it"), "{text}");
        assert!(
            text.contains("wrong") && text.contains("its checksum is d, and the reference's c"),
            "{text}"
        );
        assert!(text.contains("Programs that not every contender ran are left out: 1."), "{text}");
        assert!(text.contains("Geometric means, linked programs: 1"), "{text}");
    }
}

#[test]
fn the_page_has_ratios_bars_and_memory_over_time() {
    let report = report(usual);
    assert!(report.is_whole());
    let page = report.markdown();
    for line in [
        "* commit: abc",
        "| syn 3 | parses |",
        "| jemalloc | 0.700 [0.700, 0.700] | faster | 0.700 [0.700, 0.700] | 70 | 70 | 0 | 10.0 | 1.000 | 10.0 |  |",
        "| glibc | 1.000 | ref | 1.000 | 100 | 100 | 0 | 10.0 | 1.000 | 10.0 |  |",
        "| time, of the best by its mean: jemalloc | 0.90 | 0.800 | yes |",
        "| time of syn, of the best: jemalloc | 1.05 | 0.800 | yes |",
        "| peak memory, of jemalloc | 1.00 | 1.500 | no |",
        "| peak memory, of mimalloc | 0.70 | 0.750 | no |",
        "| program | allocator | 5 % | 15 % | 25 % | 35 % | 45 % | 55 % | 65 % | 75 % | 85 % | 95 % |",
    ] {
        assert!(page.contains(line), "{line} is not in:\n{page}");
    }
    assert!(!page.contains("Not trusted"), "{page}");
}

#[test]
fn a_reference_that_differs_from_itself_marks_its_table() {
    let report =
        report(|program, key| if key == "glibc-again" { ended(120, 10) } else { usual(program, key) });
    assert!(report.markdown().contains("Not trusted: the reference against itself is 1.200"));
}

#[test]
fn the_head_names_the_commit_the_machine_and_every_version() {
    let ProgramFacts { facts, programs } = facts(&Workspace::load().unwrap(), &plan(), None).unwrap();
    let of = |name: &str| &facts.iter().find(|(what, _)| *what == name).unwrap().1;
    assert!(of("contenders").contains("jemalloc 0."), "{facts:?}");
    assert!(of("build").starts_with("rustc 1."), "{facts:?}");
    assert!(of("run").starts_with("3 rounds, seed 1"), "{facts:?}");
    assert!(programs[0].0.starts_with("syn ") && programs.len() == 2, "{programs:?}");
}

#[test]
fn figures_are_aligned_to_the_right() {
    let grid = vec![
        vec!["a".to_owned(), "b".to_owned(), "notes".to_owned()],
        vec!["long".into(), "1".into(), "x|y".into()],
    ];
    assert_eq!(lines(&grid), "a     b  notes\nlong  1  x|y\n");
    assert_eq!(HEAD[HEAD.len() - 1], "notes");
}
