//! Tests of the ratios, the tables and the means.

use super::{ProgramEnd, ProgramRun, ProgramState, ProgramTable, course, mean, means, table};
use crate::programs::catalogue::{ALLOCATORS, GeneralAllocator, TWIN};
use crate::programs::process::ProcessFigures;

/// Returns figures of a process that held a constant number of bytes.
fn figures(wall_ms: f64, bytes: u64) -> ProcessFigures {
    ProcessFigures {
        wall_ns: (wall_ms * 1e6) as u64,
        user_ns: (wall_ms * 0.9e6) as u64,
        system_ns: 1_000_000,
        peak_bytes: bytes,
        resident: vec![(0, bytes)],
    }
}

fn run(contender: &'static str, round: u32, checksum: &str, figures: ProcessFigures) -> ProgramRun {
    let ended = ProgramEnd::Ran { checksum: checksum.to_owned(), figures };
    ProgramRun { program: "syn".to_owned(), contender, round, ended }
}

/// Returns the runs of four rounds, each slower than the round before. Within a round, the times
/// are proportional to the times in `times`.
fn runs(times: &[(&'static str, f64, u64)]) -> Vec<ProgramRun> {
    let round = |round: u32| {
        let drift = 100.0 * (1.0 + f64::from(round));
        times.iter().map(move |&(key, time, bytes)| run(key, round, "c", figures(drift * time, bytes)))
    };
    (0..4).flat_map(round).collect()
}

fn allocators(keys: &[&str]) -> Vec<GeneralAllocator> {
    ALLOCATORS.into_iter().filter(|allocator| keys.contains(&allocator.key)).collect()
}

fn of(runs: &[ProgramRun], keys: &[&str]) -> ProgramTable {
    table("syn", &allocators(keys), 4, runs)
}

#[test]
fn a_drift_that_affects_both_sides_of_a_pair_cancels() {
    let runs = runs(&[("glibc", 1.0, 100), (TWIN, 1.0, 100), ("jemalloc", 0.5, 300)]);
    let table = of(&runs, &["glibc", TWIN, "jemalloc"]);
    let ratio = table.of("jemalloc").unwrap().ratio.unwrap();
    assert!((ratio.mid - 0.5).abs() < 1e-9 && (ratio.high99 - 0.5).abs() < 1e-9, "{ratio:?}");
    assert_eq!(table.of("jemalloc").unwrap().verdict.unwrap().word(), "faster");
    assert!((table.aa.unwrap().mid - 1.0).abs() < 1e-9);
    assert_eq!(table.of(TWIN).unwrap().verdict.unwrap().word(), "≈");
}

#[test]
fn a_single_round_gives_a_ratio_without_a_verdict() {
    let runs = [run("glibc", 0, "c", figures(2.0, 1)), run("jemalloc", 0, "c", figures(1.0, 1))];
    let table = table("syn", &allocators(&["glibc", "jemalloc"]), 1, &runs);
    let jemalloc = table.of("jemalloc").unwrap();
    let ratio = jemalloc.ratio.unwrap();
    assert!((ratio.mid - 0.5).abs() < 1e-9 && ratio.low95 == 0.0 && ratio.high95.is_infinite(), "{ratio:?}");
    assert_eq!(jemalloc.verdict.unwrap().word(), "≈");
}

#[test]
fn a_failed_contender_is_a_cell_with_the_reason_and_the_others_keep_their_figures() {
    let mut runs = runs(&[("glibc", 1.0, 100), ("mimalloc", 0.9, 100), ("snmalloc", 0.8, 100)]);
    let third = runs.iter_mut().find(|run| run.contender == "snmalloc" && run.round == 2).unwrap();
    third.ended = ProgramEnd::Failed { reason: "signal 11 ended it".to_owned() };
    let table = of(&runs, &["glibc", "mimalloc", "snmalloc", "jemalloc"]);
    let state = |key: &str| &table.cells.iter().find(|cell| cell.allocator.key == key).unwrap().state;
    assert!(matches!(state("snmalloc"), ProgramState::Failed(why) if why == "signal 11 ended it"));
    assert!(matches!(state("jemalloc"), ProgramState::Failed(why) if why == "it did not run"));
    assert!((table.of("mimalloc").unwrap().ratio.unwrap().mid - 0.9).abs() < 1e-9);
}

#[test]
fn a_checksum_that_differs_from_the_reference_is_reported_with_both() {
    let mut runs = runs(&[("glibc", 1.0, 100), ("mimalloc", 0.1, 100)]);
    let last = runs.last_mut().unwrap();
    *last = run("mimalloc", 3, "other", figures(1.0, 1));
    let table = of(&runs, &["glibc", "mimalloc"]);
    let ProgramState::Wrong(what) = &table.cells[1].state else { panic!("{:?}", table.cells[1]) };
    assert!(what.contains("other") && what.contains("reference's c"), "{what}");
    assert!(table.of("mimalloc").is_none(), "a wrong result has no figure");
}

#[test]
fn a_program_that_prints_something_else_in_each_run_is_reported_as_the_references_fault() {
    let runs = [run("glibc", 0, "a", figures(1.0, 1)), run("glibc", 1, "b", figures(1.0, 1))];
    assert!(matches!(of(&runs, &["glibc"]).cells[0].state, ProgramState::Wrong(_)));
}

#[test]
fn without_the_reference_there_is_no_ratio() {
    let mut runs = runs(&[("glibc", 1.0, 100), ("mimalloc", 0.9, 100)]);
    for run in runs.iter_mut().filter(|run| run.contender == "glibc") {
        run.ended = ProgramEnd::Failed { reason: "no".to_owned() };
    }
    let table = of(&runs, &["glibc", "mimalloc"]);
    let mimalloc = table.of("mimalloc").unwrap();
    assert!(mimalloc.ratio.is_none() && mimalloc.verdict.is_none());
    assert!((mimalloc.peak - 100.0).abs() < 1e-9);
}

#[test]
fn memory_over_time_weighs_each_observation_by_its_duration() {
    let figures = ProcessFigures { resident: vec![(0, 10), (900_000, 110)], ..figures(1.0, 110) };
    assert!((mean(&figures) - 20.0).abs() < 1e-9);
    let course = course(&figures);
    assert!(course[..9].iter().all(|bytes| (bytes - 10.0).abs() < 1e-9), "{course:?}");
    assert!((course[9] - 110.0).abs() < 1e-9, "{course:?}");
}

#[test]
fn a_mean_over_programs_is_geometric_and_leaves_out_programs_that_an_allocator_failed() {
    let keys = ["glibc", "mimalloc", "jemalloc"];
    let named = |program: &str, mimalloc: f64, bytes: u64| -> Vec<ProgramRun> {
        let runs = runs(&[("glibc", 1.0, 100), ("mimalloc", mimalloc, bytes), ("jemalloc", 1.0, 100)]);
        runs.into_iter().map(|run| ProgramRun { program: program.to_owned(), ..run }).collect()
    };
    let mut all = [named("a", 0.5, 400), named("b", 2.0, 100), named("c", 9.0, 900)].concat();
    let broken = all.iter_mut().find(|run| run.program == "c" && run.contender == "jemalloc").unwrap();
    broken.ended = ProgramEnd::Failed { reason: "no".to_owned() };
    let tables: Vec<_> =
        ["a", "b", "c"].iter().map(|program| table(program, &allocators(&keys), 4, &all)).collect();
    let (means, programs) = means(&tables.iter().collect::<Vec<_>>());
    assert_eq!(programs, 2);
    let mimalloc = means.iter().find(|means| means.allocator.key == "mimalloc").unwrap();
    assert!((mimalloc.ratio.unwrap().mid - 1.0).abs() < 1e-9, "{mimalloc:?}");
    assert!((mimalloc.peak - 2.0).abs() < 1e-9 && (mimalloc.mean - 2.0).abs() < 1e-9, "{mimalloc:?}");
}

#[test]
fn an_allocator_that_ran_nothing_does_not_empty_the_means() {
    let mut runs = runs(&[("glibc", 1.0, 100), ("mimalloc", 0.5, 100)]);
    let ended = ProgramEnd::Failed { reason: "it does not build".to_owned() };
    runs.push(ProgramRun { program: "syn".to_owned(), contender: "snmalloc", round: 0, ended });
    let (means, programs) = means(&[&of(&runs, &["glibc", "mimalloc", "snmalloc"])]);
    assert_eq!((means.len(), programs), (2, 1));
}
