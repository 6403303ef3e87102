//! Tests arenas while threads claim slots, send and drop values, shrink arenas and exit at the same
//! time.
//!
//! The tests take turns. Otherwise a thread of another test might take over the record of an exited
//! thread, and no other thread could then free that record's pages.
#![cfg(feature = "std")]

extern crate alloc;

#[path = "support/tally.rs"]
mod tally;

use alloc::sync::Arc;
use std::sync::Barrier;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use ephemera_testkit::suite::take_turn;
use shared_arena::{Arena, ArenaArc, ArenaBox, SharedArena};
use tally::{Counted, Tally};

const ROUNDS: usize = if cfg!(miri) { 25 } else { 20_000 };

#[test]
fn conc_each_thread_claims_and_drops_its_own_values() {
    take_turn();
    let tally = Tally::default();
    let arena = Arc::new(SharedArena::with_capacity(200));
    let threads: Vec<_> = (0..3)
        .map(|thread| {
            let (arena, tally) = (Arc::clone(&arena), tally.clone());
            thread::spawn(move || {
                let mut window = Vec::new();
                for round in 0..ROUNDS {
                    window.push(arena.alloc(tally.value(thread * ROUNDS + round)));
                    if window.len() > 20 {
                        let value: ArenaBox<Counted> = window.swap_remove(round % window.len());
                        assert_eq!(value.number() / ROUNDS, thread);
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!((tally.alive(), arena.stats().0), (0, 0));
    assert!(arena.shrink_to_fit());
    assert_eq!(arena.stats(), (0, 0));
}

/// Makes values and sends them to `to`. Drops the values that it receives from `from`: odd ones at
/// once, even ones in batches.
fn exchange(
    arena: &SharedArena<Counted>,
    tally: &Tally,
    to: &Sender<ArenaBox<Counted>>,
    from: &Receiver<ArenaBox<Counted>>,
) {
    let mut kept = Vec::new();
    for round in 0..ROUNDS {
        to.send(arena.alloc(tally.value(round))).unwrap();
        if let Ok(value) = from.try_recv() {
            if value.number() % 2 == 0 {
                kept.push(value);
            }
        }
        if kept.len() > 30 {
            kept.clear();
        }
    }
}

#[test]
fn conc_values_are_dropped_by_other_threads() {
    take_turn();
    let tally = Tally::default();
    let arena = Arc::new(SharedArena::new());
    let ((to_one, from_two), (to_two, from_one)) = (channel(), channel());
    let ends = [(to_one, from_one), (to_two, from_two)];
    let threads = ends.map(|(to, from)| {
        let (arena, tally) = (Arc::clone(&arena), tally.clone());
        thread::spawn(move || {
            exchange(&arena, &tally, &to, &from);
            drop(to);
            from.iter().for_each(drop);
        })
    });
    for round in 0..if cfg!(miri) { 3 } else { 200 } {
        if round % 2 == 0 {
            arena.shrink_to_fit();
        }
        let (used, free) = arena.stats();
        assert_eq!((used + free) % 63, 0);
        thread::yield_now();
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!((tally.alive(), arena.stats().0), (0, 0));
    arena.shrink_to_fit();
    assert_eq!(arena.stats(), (0, 0), "all threads have exited, so all pages are in reach");
}

#[test]
fn conc_a_thread_that_only_drops_holds_no_pages() {
    take_turn();
    let arena = Arc::new(SharedArena::new());
    let (to, from) = channel::<Vec<ArenaBox<[usize; 4]>>>();
    let dropper = thread::spawn(move || from.iter().for_each(drop));
    let mut most = 0;
    let batch = if cfg!(miri) { 70 } else { 630 };
    for round in 0..if cfg!(miri) { 4 } else { 300 } {
        let values: Vec<_> = (0..batch).map(|number| arena.alloc([number + round; 4])).collect();
        to.send(values).unwrap();
        while arena.stats().0 > 2 * batch {
            thread::yield_now();
        }
        most = most.max(arena.statistics().pages);
    }
    drop(to);
    dropper.join().unwrap();
    // Up to three batches are live, each new group can double the number of pages, and 2 MiB of
    // pages can rest.
    let resting = (2 << 20) / (64 * size_of::<[usize; 4]>());
    assert!(most <= 2 * (4 * batch).div_ceil(63) + resting, "{most} pages");
    assert_eq!(arena.stats().0, 0);
}

#[test]
fn conc_arcs_are_cloned_and_dropped_on_all_threads() {
    take_turn();
    let tally = Tally::default();
    let arena = SharedArena::new();
    for round in 0..if cfg!(miri) { 2 } else { 300 } {
        let arc = arena.alloc_arc(tally.value(round));
        let weak = ArenaArc::downgrade(&arc);
        let barrier = Arc::new(Barrier::new(3));
        let threads = [0, 1].map(|which| {
            let (arc, weak, barrier) = (arc.clone(), weak.clone(), Arc::clone(&barrier));
            thread::spawn(move || {
                barrier.wait();
                let again = (which == 0).then(|| arc.clone());
                assert_eq!(arc.number(), round);
                drop(arc);
                let up = weak.upgrade();
                drop(again);
                up.map(|value| value.number())
            })
        });
        barrier.wait();
        drop(arc);
        for thread in threads {
            assert!(thread.join().unwrap().is_none_or(|number| number == round));
        }
        assert!(weak.upgrade().is_none());
        assert_eq!(tally.alive(), 0);
    }
    assert_eq!(arena.stats().0, 0);
}

#[test]
fn conc_only_one_thread_unwraps_an_arc() {
    take_turn();
    let tally = Tally::default();
    let arena = Arena::new();
    for round in 0..if cfg!(miri) { 2 } else { 300 } {
        let arc = arena.alloc_arc(tally.value(round));
        let handles = [arc.clone(), arc];
        let got: usize = handles
            .map(|arc| thread::spawn(move || ArenaArc::try_unwrap(arc).is_ok()))
            .into_iter()
            .map(|thread| usize::from(thread.join().unwrap()))
            .sum();
        assert!(got <= 1);
        assert_eq!(tally.alive(), 0);
    }
    assert_eq!(arena.stats().0, 0);
}

#[test]
fn conc_threads_bind_reserved_groups() {
    take_turn();
    let arena = Arc::new(SharedArena::<[u64; 16]>::with_capacity(if cfg!(miri) { 200 } else { 2_000 }));
    let (_, before) = arena.stats();
    let barrier = Arc::new(Barrier::new(2));
    let threads = [0, 1].map(|which| {
        let (arena, barrier) = (Arc::clone(&arena), Arc::clone(&barrier));
        thread::spawn(move || {
            barrier.wait();
            let values: Vec<_> = (0..before / 8)
                .map(|number| arena.alloc([which, number as u64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]))
                .collect();
            // If one thread exited before the other had its values, the other could use the groups
            // of the exited thread.
            barrier.wait();
            assert!(values.iter().enumerate().all(|(number, value)| value[..2] == [which, number as u64]));
        })
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    // Without the reserved groups, the threads would allocate this many pages.
    let pages = 2 * (before / 8).div_ceil(63);
    assert!(arena.stats().1 < before + pages * 63, "no thread bound a reserved group");
    assert_eq!(arena.stats().0, 0);
}

#[test]
fn conc_successive_threads_reuse_pages() {
    take_turn();
    let arena = Arc::new(SharedArena::new());
    for number in 0..if cfg!(miri) { 6 } else { 2_000_u64 } {
        let there = Arc::clone(&arena);
        thread::spawn(move || {
            let values: Vec<_> = (0..30).map(|value| there.alloc(value + number)).collect();
            assert!(values.iter().enumerate().all(|(at, value)| **value == at as u64 + number));
        })
        .join()
        .unwrap();
    }
    let statistics = arena.statistics();
    assert!(statistics.pages <= 64, "{statistics:?}");
    assert_eq!(statistics.slots_live, 0);
}

#[test]
fn conc_pages_of_an_exited_thread_are_reused() {
    take_turn();
    let arena = Arc::new(SharedArena::<[u64; 8]>::new());
    let count = if cfg!(miri) { 100 } else { 5_000 };
    let there = Arc::clone(&arena);
    // This claim binds this thread to a record, so the second thread gets another record.
    let mine = arena.alloc([0; 8]);
    thread::spawn(move || drop((0..count).map(|number| there.alloc([number; 8])).collect::<Vec<_>>()))
        .join()
        .unwrap();
    let before = arena.statistics().pages;
    let values: Vec<_> = (0..count).map(|number| arena.alloc([number; 8])).collect();
    let after = arena.statistics().pages;
    assert!(after <= before + 8, "{before} pages, then {after}");
    drop((values, mine));
}

/// An exited thread's groups are reused even if another thread empties each of them with one free,
/// long after it has freed the other slots.
#[test]
#[cfg_attr(miri, ignore = "too slow: a group of many pages has many slots")]
fn conc_groups_of_an_exited_thread_are_reused_after_few_frees_empty_them() {
    // The number of slots in the largest group of this type.
    const GROUP: usize = 28 * 63;
    take_turn();
    let arena = Arc::new(SharedArena::<u64>::new());
    // This claim binds this thread to a record, so the second thread gets another record.
    let mine = arena.alloc(0);
    let there = Arc::clone(&arena);
    let theirs = thread::spawn(move || (0..20_000).map(|number| there.alloc(number)).collect::<Vec<_>>());
    let one_per_group: Vec<_> = theirs.join().unwrap().into_iter().step_by(GROUP).collect();
    let fill = |count: u64| (0..count).map(|number| arena.alloc(number)).collect::<Vec<_>>();
    let early = fill(5_000);
    drop(one_per_group);
    let before = arena.statistics().pages;
    let late = fill(20_000);
    let after = arena.statistics().pages;
    assert!(after <= before + 40, "{before} pages, then {after}");
    drop((mine, early, late));
}

#[test]
fn conc_an_arena_may_be_dropped_beside_its_values() {
    take_turn();
    let tally = Tally::default();
    for round in 0..if cfg!(miri) { 3 } else { 500 } {
        let arena = SharedArena::new();
        let mut there: Vec<_> = (0..70).map(|number| arena.alloc(tally.value(number))).collect();
        let here = there.split_off(35);
        let arc = arena.alloc_arc(tally.value(1_000));
        let theirs = arc.clone();
        let barrier = Arc::new(Barrier::new(3));
        let (first, second) = (Arc::clone(&barrier), Arc::clone(&barrier));
        let dropper = thread::spawn(move || {
            first.wait();
            drop(arena);
        });
        let other = thread::spawn(move || {
            second.wait();
            drop(there);
            drop(theirs);
        });
        barrier.wait();
        if round % 2 == 0 {
            drop(arc);
            drop(here);
        } else {
            drop(here);
            drop(arc);
        }
        dropper.join().unwrap();
        other.join().unwrap();
        assert_eq!(tally.alive(), 0);
    }
    shared_arena::reclaim();
}

/// Two threads drop one box each after the drop of the arena. Users of the published crate reported
/// a bug in this case.
#[test]
fn conc_regression_two_threads_drop_boxes_after_the_arena() {
    take_turn();
    for _ in 0..if cfg!(miri) { 4 } else { 1_000 } {
        let arena = SharedArena::new();
        let boxes = [arena.alloc(String::from("one")), arena.alloc(String::from("two"))];
        drop(arena);
        boxes
            .map(|boxed| thread::spawn(move || drop(boxed)))
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn conc_statistics_are_consistent_beside_all_operations() {
    take_turn();
    let arena = Arc::new(SharedArena::new());
    let threads = [0, 1].map(|_| {
        let arena = Arc::clone(&arena);
        thread::spawn(move || {
            for round in 0..ROUNDS / 10 {
                let values: Vec<_> = (0..70).map(|value| arena.alloc(value)).collect();
                if round % 10 == 0 {
                    arena.shrink_to_fit();
                }
                drop(values);
            }
        })
    });
    while threads.iter().any(|thread| !thread.is_finished()) {
        let statistics = arena.statistics();
        assert!(statistics.slots_live <= statistics.slots && statistics.empty_pages <= statistics.pages);
        assert!(format!("{arena:?}").starts_with("SharedArena { used: "));
        thread::yield_now();
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(arena.stats().0, 0);
}

#[test]
#[cfg_attr(miri, ignore = "too slow: it runs hundreds of threads at once")]
fn conc_hundreds_of_threads_share_an_arena() {
    take_turn();
    const THREADS: usize = 300;
    let tally = Tally::default();
    let arena = Arc::new(SharedArena::new());
    let barrier = Arc::new(Barrier::new(THREADS));
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let (arena, tally, barrier) = (Arc::clone(&arena), tally.clone(), Arc::clone(&barrier));
            thread::spawn(move || {
                let value = arena.alloc(tally.value(number));
                barrier.wait();
                assert_eq!(value.number(), number);
                value
            })
        })
        .collect();
    let values: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!((tally.alive(), arena.stats().0), (THREADS, THREADS));
    drop(values);
    assert!(arena.shrink_to_fit());
    assert_eq!((tally.alive(), arena.stats()), (0, (0, 0)));
}
