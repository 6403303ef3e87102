//! Tests when an arena frees the memory of a burst. No test trims the arena before it measures the
//! memory.
#![cfg(feature = "std")]

extern crate alloc;

use alloc::sync::Arc;
use core::mem::MaybeUninit;
use std::sync::Barrier;
use std::sync::mpsc::sync_channel;
use std::thread;

use ephemera_testkit::SplitMix;
use ephemera_testkit::backing::CountingGlobal;
use ephemera_testkit::suite::take_turn;
use shared_arena::{ArenaBox, SharedArena};

#[global_allocator]
static GLOBAL: CountingGlobal = CountingGlobal::new(16 << 10);

type Job = [u64; 8];

/// The number of values in a burst. They fill more than the 2 MiB of pages that can rest.
const BURST: u64 = 50_000;
/// The number of values that a hand-over makes after the burst: enough claims for at least two
/// looks for idle groups.
const STEADY: u64 = 200_000;

/// The capacity of the channel between two threads, in values.
const QUEUE: usize = 32;

/// The maximum number of bytes that an arena may hold for at most 202 live values: about two groups
/// of the largest size.
const FEW: usize = 128 << 10;

/// The number of bytes to which an arena grows so that its pages rest.
const RESTING: usize = 2 << 20;

fn burst(arena: &SharedArena<Job>) -> Vec<ArenaBox<Job>> {
    let values: Vec<_> = (0..BURST).map(|value| arena.alloc([value; 8])).collect();
    assert!(arena.statistics().bytes_held >= values.len() * size_of::<Job>());
    values
}

fn drop_elsewhere(values: Vec<ArenaBox<Job>>) {
    thread::spawn(move || drop(values)).join().expect("no drop panics");
}

/// Makes values on this thread and drops them on another thread. At most `queue + 2` of the values
/// are live at a time. Returns the bytes that the arena holds afterwards.
fn hand_over(arena: &SharedArena<Job>, queue: usize) -> usize {
    thread::scope(|scope| {
        let (out, from) = sync_channel::<ArenaBox<Job>>(queue);
        scope.spawn(move || from.iter().for_each(drop));
        for value in 0..STEADY {
            out.send(arena.alloc([value; 8])).expect("the other thread runs");
        }
    });
    arena.statistics().bytes_held
}

#[test]
#[cfg_attr(
    miri,
    ignore = "this number of values takes minutes, and a shorter run never looks for idle groups twice"
)]
fn hand_over_after_a_burst_that_another_thread_dropped_frees_the_burst() {
    take_turn();
    for queue in [0, QUEUE, 200] {
        let arena = SharedArena::new();
        drop_elsewhere(burst(&arena));
        let held = hand_over(&arena, queue);
        assert!(held <= RESTING + FEW, "{held} bytes for at most {} values", queue + 2);
    }
}

/// No page rests under a limit.
#[test]
#[cfg_attr(
    miri,
    ignore = "this number of values takes minutes, and a shorter run never looks for idle groups twice"
)]
fn hand_over_under_a_limit_after_a_burst_frees_the_burst() {
    take_turn();
    for queue in [QUEUE, 200] {
        let arena = SharedArena::builder().limit(1 << 30).build();
        drop_elsewhere(burst(&arena));
        let held = hand_over(&arena, queue);
        assert!(held <= FEW, "{held} bytes for at most {} values", queue + 2);
    }
}

#[test]
#[cfg_attr(
    miri,
    ignore = "this number of values takes minutes, and a shorter run never looks for idle groups twice"
)]
fn hand_over_after_a_burst_that_the_same_thread_dropped_frees_the_burst() {
    take_turn();
    let arena = SharedArena::new();
    let mut values = burst(&arena);
    let mut random = SplitMix::new(1);
    while !values.is_empty() {
        let at = random.below(values.len());
        drop(values.swap_remove(at));
    }
    let held = hand_over(&arena, QUEUE);
    assert!(held <= RESTING + FEW, "{held} bytes for at most {} values", QUEUE + 2);
}

#[test]
#[cfg_attr(
    miri,
    ignore = "this number of values takes minutes, and a shorter run never looks for idle groups twice"
)]
fn local_frees_in_random_order_after_a_burst_free_the_burst() {
    take_turn();
    for elsewhere in [false, true] {
        let arena = SharedArena::new();
        let (mut values, mut random) = (burst(&arena), SplitMix::new(1));
        if elsewhere {
            drop_elsewhere(core::mem::take(&mut values));
        }
        while values.len() > QUEUE {
            let at = random.below(values.len());
            drop(values.swap_remove(at));
        }
        // Many of these claims take the hot slot, so looks are less frequent.
        for value in 0..2 * STEADY {
            if values.len() >= QUEUE || random.below(2) == 0 && !values.is_empty() {
                let at = random.below(values.len());
                drop(values.swap_remove(at));
            } else {
                values.push(arena.alloc([value; 8]));
            }
        }
        let held = arena.statistics().bytes_held;
        assert!(held <= FEW, "{held} bytes for at most {QUEUE} values");
    }
}

/// Each round needs all pages again, so no page is idle.
#[test]
#[cfg_attr(
    miri,
    ignore = "this number of values takes minutes, and a shorter run never looks for idle groups twice"
)]
fn rounds_of_bursts_that_another_thread_drops_keep_their_pages() {
    take_turn();
    let arena = SharedArena::new();
    drop_elsewhere(burst(&arena));
    let before = (arena.statistics().pages, GLOBAL.aligned().taken);
    for _ in 0..20 {
        drop_elsewhere(burst(&arena));
    }
    assert_eq!((arena.statistics().pages, GLOBAL.aligned().taken), before, "pages were freed and allocated");
}

/// A page has room for only a few of these values, so 800 claims take many slow paths.
#[test]
#[cfg_attr(miri, ignore = "150 values, each of a page, take half a minute and a gigabyte")]
fn hand_over_of_large_values_after_a_burst_frees_the_burst() {
    type Large = MaybeUninit<[u8; 60_000]>;
    take_turn();
    let arena = SharedArena::<Large>::new();
    // SAFETY: a `MaybeUninit` does not need initialised bytes.
    let make = || arena.alloc_with(|slot| unsafe { slot.assume_init_mut() });
    let values: Vec<_> = (0..60).map(|_| make()).collect();
    let most = arena.statistics().pages;
    thread::spawn(move || drop(values)).join().expect("no drop panics");
    thread::scope(|scope| {
        let (out, from) = sync_channel::<ArenaBox<Large>>(1);
        scope.spawn(move || from.iter().for_each(drop));
        for _ in 0..800 {
            out.send(make()).expect("the other thread runs");
        }
    });
    let kept = arena.statistics().pages;
    assert!(most >= 15 && kept <= 4, "{kept} of {most} pages kept");
}

/// Only an owner finds empty groups, so the groups of a sleeping thread stay until the arena is
/// dropped.
#[test]
#[cfg_attr(miri, ignore = "this number of values takes minutes")]
fn groups_of_a_sleeping_thread_are_freed_with_the_arena() {
    take_turn();
    let before = GLOBAL.aligned().bytes;
    let arena = Arc::new(SharedArena::new());
    let (asleep, awake) = (Barrier::new(2), Barrier::new(2));
    let (send, values) = sync_channel(1);
    let theirs = Arc::clone(&arena);
    let (held, after_work, after_drop) = thread::scope(|threads| {
        threads.spawn(|| {
            let values = burst(&theirs);
            drop(theirs);
            send.send(values).expect("the test receives");
            asleep.wait();
            awake.wait();
        });
        asleep.wait();
        let held = arena.statistics().bytes_held;
        drop_elsewhere(values.recv().expect("the owner sends"));
        // The thread that makes values in the hand-over cannot use the groups of the sleeping
        // thread, and the pages of its own groups rest.
        let shared = Arc::clone(&arena);
        threads.spawn(move || hand_over(&shared, QUEUE)).join().expect("no panic");
        let after_work = arena.statistics().bytes_held;
        drop(arena);
        let after_drop = GLOBAL.aligned().bytes;
        awake.wait();
        (held, after_work, after_drop)
    });
    assert!(after_work <= held + RESTING + FEW, "{after_work} bytes after the work of others, {held} before");
    assert_eq!(after_drop, before, "groups outlive their arena while their owner sleeps");
}
