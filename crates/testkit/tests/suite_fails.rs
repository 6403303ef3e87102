//! Tests that the suite can fail: it finds each fault and reports the right kind of violation.

extern crate alloc;

mod broken;

use broken::{Broken, Fault};
use ephemera_testkit::program::{Profile, Program};
use ephemera_testkit::stamp;
use ephemera_testkit::suite::{try_run, try_run_with_failures};
use ephemera_testkit::violation::{Failure, Refusing, Violation};

/// The largest number of seeds to try until one reveals the fault.
const TRIES: u64 = 12;

/// Returns a program that is long enough to reveal each fault.
fn program(seed: u64) -> Program {
    Program::from_seed(seed, if cfg!(miri) { 60 } else { 300 }, Profile::Mixed)
}

/// Returns the suite's first failure for an allocator with `fault`.
fn find(fault: Fault) -> Failure {
    let found = (0..TRIES).find_map(|seed| try_run(&Broken::new(fault), &program(seed)).err());
    found.unwrap_or_else(|| panic!("{fault:?} was not found"))
}

/// Returns the suite's first failure for an allocator with `fault` whose backing calls are refused.
/// The program passes without refusals.
fn find_by_refusing(fault: Fault) -> Failure {
    let found = (0..TRIES)
        .map(|seed| Program::from_seed(seed, 30, Profile::Resize))
        .filter(|program| try_run(&Broken::new(fault), program).is_ok())
        .find_map(|program| try_run_with_failures(|| Broken::new(fault), &program).err());
    found.unwrap_or_else(|| panic!("{fault:?} was not found"))
}

macro_rules! found {
    ($($test:ident: $fault:ident => $violation:pat,)+) => {
        $(
            #[test]
            fn $test() {
                let failure = find(Fault::$fault);
                assert!(matches!(failure.violation, $violation), "{failure}");
            }
        )+
    };
}

found! {
    overlapping_blocks_are_found: Overlaps => Violation::Overlap { .. },
    misaligned_blocks_are_found: Misaligns => Violation::Misaligned { .. },
    leaks_are_found: Leaks => Violation::BytesLeft { before: 0, after: 1.. },
    leaks_of_remote_frees_are_found: LeaksForeign => Violation::BytesLeft { before: 0, after: 1.. },
    leaks_of_frees_during_thread_exit_are_found: LeaksLate => Violation::BytesLeft { before: 0, after: 1.. },
    lost_bytes_are_found: LosesBytes => Violation::Changed { found: 0xee, .. },
    memory_that_is_not_zeroed_is_found: NeverZeroes => Violation::NotZero { offset: 0, .. },
    tail_that_is_not_zeroed_is_found: ZeroesTooLate => Violation::NotZero { .. },
    corrupted_neighbours_are_found: Corrupts => Violation::Changed { .. },
    short_slices_are_found: GivesLess => Violation::WrongLength { .. },
    long_slices_are_found: GivesMore => Violation::WrongLength { .. },
    groundless_refusals_are_found: Refuses => Violation::Refused { .. },
    jobs_on_the_same_thread_are_found: StaysHere => Violation::NotElsewhere,
}

#[test]
fn allocator_without_a_fault_passes() {
    for seed in 0..TRIES {
        let outcome = try_run(&Broken::new(Fault::Nothing), &program(seed));
        assert!(outcome.is_ok(), "{outcome:?}");
    }
    let outcome = try_run_with_failures(|| Broken::new(Fault::Nothing), &program(0));
    assert!(outcome.as_ref().is_ok_and(|report| report.refused > 0), "{outcome:?}");
}

#[test]
fn block_overwritten_by_a_refused_grow_is_found() {
    let failure = find_by_refusing(Fault::SpoilsOnRefusal);
    assert!(matches!(failure.violation, Violation::Changed { .. }), "{failure}");
    assert_ne!(failure.refusing, Refusing::Nothing);
}

#[test]
fn block_leaked_after_a_refusal_is_found() {
    let failure = find_by_refusing(Fault::LeaksOnRefusal);
    assert!(matches!(failure.violation, Violation::BytesLeft { before: 0, after: 16.. }), "{failure}");
    assert_ne!(failure.refusing, Refusing::Nothing);
}

#[test]
fn failure_contains_a_reproducing_program() {
    let failure = find(Fault::Overlaps);
    let again = try_run(&Broken::new(Fault::Overlaps), &Program::from_bytes(&failure.program));
    let again = again.expect_err("the program reproduces the failure");
    assert_eq!(again.stage, failure.stage);
    assert!(failure.to_string().contains("overlaps the live block"), "{failure}");
    assert!(failure.to_string().contains("Program::from_bytes(&["), "{failure}");
}

#[test]
#[should_panic(expected = "overlaps the live block")]
fn seeds_test_fails_for_a_faulty_allocator() {
    stamp::seeds(|| Broken::new(Fault::Overlaps));
}

#[test]
#[should_panic(expected = "is not aligned to")]
fn sizes_test_fails_for_a_faulty_allocator() {
    stamp::sizes(|| Broken::new(Fault::Misaligns));
}

#[test]
#[should_panic(expected = "bytes are held after every block was freed")]
fn hand_over_test_fails_for_a_faulty_allocator() {
    stamp::hand_over(|| Broken::new(Fault::LeaksForeign));
}

#[test]
#[should_panic(expected = "[backing call")]
fn refusals_test_fails_for_a_faulty_allocator() {
    stamp::refusals(|| Broken::new(Fault::SpoilsOnRefusal));
}

#[test]
#[should_panic(expected = "in the program [Allocate")]
#[cfg_attr(miri, ignore = "too slow: it runs many cases and shrinks them")]
fn properties_test_fails_with_a_short_program() {
    stamp::properties(|| Broken::new(Fault::Misaligns));
}
