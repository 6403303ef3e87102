//! The tests that [`allocator_suite!`](crate::allocator_suite) stamps, as functions.
//!
//! Each takes a function that makes the subject, and makes one for every program.

use alloc::vec::Vec;
use core::alloc::Layout;

use allocator_api2::alloc::Allocator;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

use crate::config::{
    BYTE_STRING_LEN, BYTE_STRINGS, EXCHANGES, PROPTEST_CASES, PROPTEST_OPS, PROPTEST_SHRINKS, REFUSAL_OPS,
    REFUSAL_SEEDS, SEED_OPS, SEEDS,
};
use crate::oracle::Oracle;
use crate::program::{Profile, Program};
use crate::rng::SplitMix;
use crate::subject::Subject;
use crate::suite::{Report, is_modest, run, run_exchange, run_with_failures, try_run, turn};

/// Runs programs of one profile, one for each seed.
fn seeds_of<S: Subject>(make: impl Fn() -> S, profile: Profile) -> Report {
    let program = |seed| Program::from_seed(seed, SEED_OPS, profile);
    let report =
        (0..SEEDS as u64).map(|seed| run(&make(), &program(seed))).fold(Report::default(), Report::and);
    assert!(report.served > 0, "{profile:?} served nothing: {report:?}");
    report
}

/// All operations, from seeds; then the same with much resizing and with much trimming.
///
/// # Panics
///
/// If the allocator fails a program.
pub fn seeds<S: Subject>(make: impl Fn() -> S) {
    seeds_of(&make, Profile::Mixed);
    let report = seeds_of(&make, Profile::Resize);
    assert!(report.resized > 0, "nothing was resized: {report:?}");
    seeds_of(&make, Profile::Trim);
}

/// Queues.
///
/// # Panics
///
/// If the allocator fails a program.
pub fn fifo<S: Subject>(make: impl Fn() -> S) {
    seeds_of(make, Profile::Fifo);
}

/// Stacks.
///
/// # Panics
///
/// If the allocator fails a program.
pub fn lifo<S: Subject>(make: impl Fn() -> S) {
    seeds_of(make, Profile::Lifo);
}

/// Blocks that are freed, or were allocated, on other threads; then threads that exchange blocks.
///
/// A subject that cannot do so runs the same programs on one thread.
///
/// # Panics
///
/// If the allocator fails a program.
pub fn hand_over<S: Subject>(make: impl Fn() -> S) {
    let report = seeds_of(&make, Profile::HandOver);
    assert!(report.handed_over > 0 || !S::HAND_OVER, "nothing was handed over: {report:?}");
    (0..EXCHANGES as u64).for_each(|seed| run_exchange(&make(), seed));
}

/// Random bytes, as a fuzzer's corpus would have them.
///
/// # Panics
///
/// If the allocator fails a program.
pub fn bytes<S: Subject>(make: impl Fn() -> S) {
    let mut rng = SplitMix::new(0xb17e5);
    for _ in 0..BYTE_STRINGS {
        let len = rng.below(BYTE_STRING_LEN + 1);
        let bytes: Vec<u8> = (0..len).map(|_| (rng.next() >> 56) as u8).collect();
        run(&make(), &Program::from_bytes(&bytes));
    }
    run(&make(), &Program::from_bytes(&[]));
    run(&make(), &Program::from_bytes(&alloc::vec![0xff; BYTE_STRING_LEN]));
}

/// Programs that proptest draws, and makes shorter and simpler where one fails.
///
/// # Panics
///
/// If the allocator fails a program, with the simplest one found.
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

/// The backing allocator refuses, at each of its calls in turn.
///
/// Does nothing for a subject without refusals.
///
/// # Panics
///
/// If the allocator fails a program, or if nothing was ever refused.
pub fn refusals<S: Subject>(make: impl Fn() -> S) {
    let mut report = Report::default();
    for seed in 0..REFUSAL_SEEDS as u64 {
        for profile in [Profile::Mixed, Profile::Resize] {
            report = report.and(run_with_failures(&make, &Program::from_seed(seed, REFUSAL_OPS, profile)));
        }
    }
    assert!(report.refused > 0 || make().refusals().is_none(), "nothing was refused: {report:?}");
}

/// Every interesting size and its neighbours with every alignment to 64 KiB, two blocks of each at a time.
///
/// # Panics
///
/// If the allocator fails.
pub fn sizes<S: Subject>(make: impl Fn() -> S) {
    let _turn = S::GLOBAL_STATE.then(turn);
    let subject = make();
    let before = subject.finish(subject.fresh());
    let alloc = subject.fresh();
    let mut oracle = Oracle::new(S::EXACT);
    let edges = [0, 1, 2, 8, 16, 64, 256, 4096].into_iter().chain(subject.sizes().iter().copied());
    let sizes: Vec<usize> =
        edges.flat_map(|edge| [edge.saturating_sub(1), edge, edge.saturating_add(1)]).collect();
    // Under Miri each size meets two or three alignments, and its neighbours others.
    let step = if cfg!(miri) { 6 } else { 1 };
    for (number, size) in sizes.into_iter().enumerate() {
        let powers = (number * 5 % step..=16).step_by(step);
        for layout in powers.filter_map(|power| Layout::from_size_align(size, 1 << power).ok()) {
            for zeroed in [false, true] {
                let given = if zeroed { alloc.allocate_zeroed(layout) } else { alloc.allocate(layout) };
                let Ok(given) = given else {
                    assert!(!is_modest(layout) || subject.may_refuse(layout), "{layout:?} was refused");
                    continue;
                };
                // SAFETY: the allocator just served `given` for `layout`; it is freed only after it is removed.
                let kept = unsafe { oracle.insert(given, layout, zeroed) };
                kept.unwrap_or_else(|violation| panic!("{layout:?}: {violation}"));
            }
            while !oracle.is_empty() {
                let block = oracle.remove(0).unwrap_or_else(|violation| panic!("{layout:?}: {violation}"));
                // SAFETY: this allocator served the block.
                unsafe { block.free(&alloc) };
            }
        }
    }
    let after = subject.finish(alloc);
    assert!(after <= before, "{after} bytes are held after every block was freed, {before} were before");
}

/// Stamps a module of tests for one subject: its name, and an expression that makes the subject.
///
/// The expression sees what the surrounding module sees, and is evaluated once for each program.
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
