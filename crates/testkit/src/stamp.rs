//! Defines the tests that [`allocator_suite!`](crate::allocator_suite) creates, as functions.
//!
//! Each test takes a function that creates a subject, and calls that function for every run of a
//! program.

use alloc::vec::Vec;
use core::alloc::Layout;

use allocator_api2::alloc::Allocator;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

use crate::config::{
    self, BYTE_STRING_LEN, BYTE_STRINGS, EXCHANGES, PROPTEST_CASES, PROPTEST_OPS, PROPTEST_SHRINKS,
    REFUSAL_OPS, REFUSAL_SEEDS, SEED_OPS,
};
use crate::oracle::Oracle;
use crate::program::{Profile, Program};
use crate::rng::SplitMix;
use crate::subject::Subject;
use crate::suite::{Report, is_modest, run, run_exchange, run_with_failures, take_turn, try_run};

/// Runs one program of `profile` for each seed, and returns the combined report. Panics if no
/// request was served.
fn seeds_of<S: Subject>(make: impl Fn() -> S, profile: Profile) -> Report {
    let program = |seed| Program::from_seed(seed, SEED_OPS, profile);
    let report =
        (0..config::seeds()).map(|seed| run(&make(), &program(seed))).fold(Report::default(), Report::and);
    assert!(report.served > 0, "{profile:?} served no request: {report:?}");
    report
}

/// Runs programs generated from seeds, with the profiles `Mixed`, `Resize` and `Trim`.
///
/// # Panics
///
/// Panics if the allocator fails a program, or if no request or no resize succeeds.
pub fn seeds<S: Subject>(make: impl Fn() -> S) {
    seeds_of(&make, Profile::Mixed);
    let report = seeds_of(&make, Profile::Resize);
    assert!(report.resized > 0, "no block was resized: {report:?}");
    seeds_of(&make, Profile::Trim);
}

/// Runs programs that free the oldest block first, like a queue.
///
/// # Panics
///
/// Panics if the allocator fails a program, or if no request succeeds.
pub fn fifo<S: Subject>(make: impl Fn() -> S) {
    seeds_of(make, Profile::Fifo);
}

/// Runs programs that free the newest block first, like a stack.
///
/// # Panics
///
/// Panics if the allocator fails a program, or if no request succeeds.
pub fn lifo<S: Subject>(make: impl Fn() -> S) {
    seeds_of(make, Profile::Lifo);
}

/// Runs programs that allocate and free some of their blocks on other threads. Then lets threads
/// exchange blocks.
///
/// A subject that cannot share its allocator runs the same programs on one thread.
///
/// # Panics
///
/// Panics if the allocator fails a program or an exchange, if no request succeeds, or if a subject
/// with [`Subject::HAND_OVER`] does not hand over any block.
pub fn hand_over<S: Subject>(make: impl Fn() -> S) {
    let report = seeds_of(&make, Profile::HandOver);
    assert!(report.handed_over > 0 || !S::HAND_OVER, "no block was handed over: {report:?}");
    (0..EXCHANGES as u64).for_each(|seed| run_exchange(&make(), seed));
}

/// Runs programs decoded from random bytes, as a fuzzer would.
///
/// # Panics
///
/// Panics if the allocator fails a program.
pub fn bytes<S: Subject>(make: impl Fn() -> S) {
    let mut rng = SplitMix::new(0xb17e5);
    for _ in 0..BYTE_STRINGS {
        let len = rng.below(BYTE_STRING_LEN + 1);
        let bytes: Vec<u8> = (0..len).map(|_| (rng.draw() >> 56) as u8).collect();
        run(&make(), &Program::from_bytes(&bytes));
    }
    run(&make(), &Program::from_bytes(&[]));
    run(&make(), &Program::from_bytes(&alloc::vec![0xff; BYTE_STRING_LEN]));
}

/// Runs programs that proptest generates. If a program fails, proptest shrinks it.
///
/// # Panics
///
/// If the allocator fails a program, panics with the simplest failing program that proptest found.
/// Also panics if proptest gives up.
pub fn properties<S: Subject>(make: impl Fn() -> S) {
    let defaults = Config::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { defaults.cases } else { PROPTEST_CASES };
    let config = Config { cases, max_shrink_iters: PROPTEST_SHRINKS, failure_persistence: None, ..defaults };
    let case = |program| match try_run(&make(), &program) {
        Ok(_) => Ok(()),
        Err(failure) => Err(TestCaseError::fail(alloc::format!("{failure}"))),
    };
    match TestRunner::new(config).run(&Program::strategy(PROPTEST_OPS), case) {
        Ok(()) => {}
        Err(TestError::Fail(reason, program)) => panic!("{reason}\nin the program {program:?}"),
        Err(TestError::Abort(reason)) => panic!("proptest gave up: {reason}"),
    }
}

/// Runs programs with [`run_with_failures`], which refuses calls to the backing allocator in turn.
///
/// Does nothing for a subject whose [`Subject::refusals`] returns `None`.
///
/// # Panics
///
/// Panics if the allocator fails a program, or if no request was refused.
pub fn refusals<S: Subject>(make: impl Fn() -> S) {
    let mut report = Report::default();
    for seed in 0..REFUSAL_SEEDS as u64 {
        for profile in [Profile::Mixed, Profile::Resize] {
            report = report.and(run_with_failures(&make, &Program::from_seed(seed, REFUSAL_OPS, profile)));
        }
    }
    assert!(report.refused > 0 || make().refusals().is_none(), "no request was refused: {report:?}");
}

/// Allocates every interesting size and its two neighbours, with every alignment up to 64 KiB: one
/// block by `allocate` and one by `allocate_zeroed`. Under Miri, tests only one or two alignments
/// for each size.
///
/// # Panics
///
/// Panics if the allocator violates a property of the oracle, refuses an ordinary request without a
/// reason, or holds more bytes at the end than at the start.
pub fn sizes<S: Subject>(make: impl Fn() -> S) {
    if S::GLOBAL_STATE {
        take_turn();
    }
    let subject = make();
    let before = subject.finish(subject.fresh());
    let alloc = subject.fresh();
    let mut oracle = Oracle::new(S::EXACT);
    let edges = [0, 1, 2, 8, 16, 64, 256, 4096].into_iter().chain(subject.sizes().iter().copied());
    let sizes: Vec<usize> =
        edges.flat_map(|edge| [edge.saturating_sub(1), edge, edge.saturating_add(1)]).collect();
    // Under Miri, each size gets one or two of the alignments, and the next size gets others.
    let step = if cfg!(miri) { 11 } else { 1 };
    for (number, size) in sizes.into_iter().enumerate() {
        let powers = (number * 5 % step..=16).step_by(step);
        for layout in powers.filter_map(|power| Layout::from_size_align(size, 1 << power).ok()) {
            for zeroed in [false, true] {
                let given = if zeroed { alloc.allocate_zeroed(layout) } else { alloc.allocate(layout) };
                let Ok(given) = given else {
                    assert!(!is_modest(layout) || subject.may_refuse(layout), "{layout:?} was refused");
                    continue;
                };
                // SAFETY: the allocator has just returned `given` for `layout`. The block is freed
                // only after `Oracle::remove` returned it.
                let kept = unsafe { oracle.insert(given, layout, zeroed) };
                kept.unwrap_or_else(|violation| panic!("{layout:?}: {violation}"));
            }
            while !oracle.is_empty() {
                let block = oracle.remove(0).unwrap_or_else(|violation| panic!("{layout:?}: {violation}"));
                // SAFETY: this allocator allocated the block.
                unsafe { block.free(&alloc) };
            }
        }
    }
    let after = subject.finish(alloc);
    assert!(
        after <= before,
        "{after} bytes are held after every block was freed, and {before} were held before"
    );
}

/// Creates a module of tests for one subject. The arguments are the name of the module and an
/// expression that creates the subject.
///
/// The expression can use all names of the surrounding module, and is evaluated for every run of a
/// program.
///
/// # Examples
///
/// ```
/// use allocator_api2::alloc::Global;
/// use ephemera_testkit::allocator_suite;
/// use ephemera_testkit::subject::Subject;
///
/// struct Plain;
///
/// impl Subject for Plain {
///     type Alloc<'s> = Global;
///
///     fn fresh(&self) -> Global {
///         Global
///     }
///
///     fn finish(&self, _alloc: Global) -> usize {
///         0
///     }
/// }
///
/// allocator_suite!(plain, Plain);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! allocator_suite {
    ($(#[$attribute:meta])* $name:ident, $subject:expr $(,)?) => {
        $(#[$attribute])*
        mod $name {
            use super::*;

            $crate::allocator_suite!(@tests $subject; seeds fifo lifo hand_over bytes properties refusals sizes);
        }
    };
    (@tests $subject:expr; $($test:ident)+) => {
        $(
            #[test]
            fn $test() {
                $crate::stamp::$test(|| $subject);
            }
        )+
    };
}
