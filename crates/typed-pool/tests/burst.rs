//! Tests that a pool that stays in use frees the memory of earlier bursts, although the bursts
//! taught it to keep more units. No test trims before its check.
#![cfg(feature = "std")]

use std::sync::mpsc::sync_channel;
use std::thread;

use ephemera_testkit::suite::take_turn;
use typed_pool::{PooledBox, TypedPool, pooled};

type Words = [u64; 8];

const BURST: u64 = if cfg!(miri) { 24 } else { 20_000 };

/// The number of values in a burst that another thread drops. These values fill more units than a
/// heap needs while its units rest.
const LARGE_BURST: u64 = 60_000;

/// The number of bursts after which the pool has learned to keep all of a burst's units.
const BURSTS: usize = 3;

/// The number of values that are allocated after the bursts; a hand-over has three times this
/// number. It is large enough for two looks for unneeded units, and for the frees of these units.
const STEADY: u64 = 200_000;

/// The number of units, 2 MiB in total, that a heap needs while the units that another thread
/// emptied rest.
const RESTING: usize = 64;

/// The maximum number of units, of at most 32 KiB each, that the pool may keep for a few live
/// values.
const FEW: usize = 12;

#[test]
#[cfg_attr(miri, ignore = "780,000 values take hours; handing over 200 takes a minute")]
fn hand_over_after_bursts_that_another_thread_dropped_frees_the_bursts() {
    take_turn();
    let units = units_after_bursts_and_hand_over();
    assert!(units <= RESTING + FEW, "{units} units");
}

#[test]
#[cfg_attr(miri, ignore = "780,000 values take hours; handing over 200 takes a minute")]
fn hand_over_under_a_limit_keeps_few_units() {
    take_turn();
    PooledBox::<Job>::set_limit(1 << 30);
    let units = units_after_bursts_and_hand_over();
    PooledBox::<Job>::set_limit(usize::MAX);
    assert!(units <= FEW, "{units} units");
}

struct Job(Words);
pooled!(Job);

/// Makes bursts of values that another thread drops, then hands over values one by one. Returns the
/// number of units that the pool holds after that.
fn units_after_bursts_and_hand_over() -> usize {
    let burst = || (0..LARGE_BURST).map(|value| PooledBox::new(Job([value; 8]))).collect::<Vec<_>>();
    for _ in 0..BURSTS {
        let values = burst();
        thread::spawn(move || drop(values)).join().expect("no drop panics");
    }
    let held = PooledBox::<Job>::stats().bytes_held;
    assert!(held >= LARGE_BURST as usize * size_of::<Job>(), "the pool holds the bursts: {held}");
    thread::scope(|scope| {
        let (out, from) = sync_channel::<PooledBox<Job>>(32);
        scope.spawn(move || from.iter().for_each(|job| assert_eq!(job.0[0], job.0[7])));
        for value in 0..3 * STEADY {
            out.send(PooledBox::new(Job([value; 8]))).expect("the other thread runs");
        }
    });
    PooledBox::<Job>::stats().units
}

#[test]
#[cfg_attr(miri, ignore = "260,000 values take hours; the test of short units below runs instead")]
fn rounds_that_need_few_units_after_bursts_free_the_bursts() {
    let pool = TypedPool::<Words>::new();
    let round = |count: u64| drop((0..count).map(|value| pool.alloc([value; 8])).collect::<Vec<_>>());
    for _ in 0..BURSTS {
        round(BURST);
    }
    let burst = pool.stats().bytes_held;
    assert!(burst >= BURST as usize * size_of::<Words>(), "the pool holds the bursts: {burst}");
    for _ in 0..STEADY / 2_000 {
        round(2_000);
    }
    let held = pool.stats().bytes_held;
    assert!(held <= FEW << 15, "{held} bytes for at most 2,000 values");
}

/// Each round needs all units again, so none of them is freed.
#[test]
fn rounds_of_bursts_keep_their_units() {
    let pool = if cfg!(miri) { TypedPool::<Words>::with_chunk_len(1) } else { TypedPool::new() };
    let round = || drop((0..BURST).map(|value| pool.alloc([value; 8])).collect::<Vec<_>>());
    for _ in 0..BURSTS {
        round();
    }
    let held = pool.stats().units;
    for _ in 0..if cfg!(miri) { 8 } else { 20 } {
        round();
        assert_eq!(pool.stats().units, held);
    }
}

/// Each unit has one slot, so that a few values take many slow paths.
#[test]
fn rounds_of_few_values_after_bursts_free_short_units() {
    let pool = TypedPool::<Words>::with_chunk_len(1);
    let round = |count: u64| drop((0..count).map(|value| pool.alloc([value; 8])).collect::<Vec<_>>());
    for _ in 0..BURSTS {
        round(20);
    }
    assert!(pool.stats().units >= 20);
    for _ in 0..60 {
        round(5);
    }
    // The pool keeps 4 empty units and its front, and learns again to keep a few more.
    let units = pool.stats().units;
    assert!(units <= 12, "{units} units for at most 5 values");
}
