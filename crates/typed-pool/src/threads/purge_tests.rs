//! Tests that the owner of purged units can use them after it wakes up. In these tests, an owner is
//! idle at once.
#![expect(unreachable_pub, reason = "the methods of an allocator that the macro declares are public")]

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Barrier;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std_alloc::vec::Vec;

use allocator_api2::boxed::Box;
// The tests run one at a time, because a thread of one test may hold the record that has the heaps
// of another test.
use ephemera_testkit::suite::take_turn;

use ephemera_prim::idle::LOOKS;

use super::idle_queue::{IDLE_MS, QUEUE, look};
use super::publish::publish_own;
use crate::geometry::UNIT_MIN;
use crate::pooled_allocator;

pooled_allocator! {
    struct IdlePool;
}

/// A block that fills its size class and has the same number in all of its words.
type Value = Box<[u64; WORDS], IdlePool>;

/// The number of words in a block. A unit has 253 slots for such blocks, or 63 under Miri.
const WORDS: usize = if cfg!(miri) { 64 } else { 16 };

/// The number of values: enough for more than four units, or for more than three under Miri.
const VALUES: usize = if cfg!(miri) { 200 } else { 1_200 };

fn value(number: usize) -> Value {
    Box::new_in([number as u64; WORDS], IdlePool)
}

/// Looks at the queue until units have been purged. Fails after a bounded number of looks.
fn look_until_purged() {
    for _ in 0..1_000 {
        if IdlePool.stats().purged_units != 0 {
            return;
        }
        look();
        #[cfg(not(miri))]
        thread::sleep(core::time::Duration::from_millis(1));
    }
    panic!("no unit was purged");
}

/// Checks that the slots that this thread freed last pin at most one unit, then publishes them.
fn publish_bundle_of_this_thread() {
    let held = IdlePool.stats().bytes_held;
    assert!(held <= UNIT_MIN, "{held} bytes are held");
    publish_own();
}

/// The owner allocates values and drops those that `keeps` does not select. The test's thread drops
/// the selected values and purges the units. Then the owner allocates again and checks that no slot
/// has two users.
fn purged_after(keeps: fn(usize) -> bool) {
    take_turn();
    assert_eq!(IDLE_MS, 0);
    let (asleep, awake) = (Barrier::new(2), Barrier::new(2));
    let (send, values) = sync_channel::<Vec<Value>>(1);
    thread::scope(|threads| {
        let owner = threads.spawn(|| {
            let all: Vec<_> = (0..VALUES).map(value).collect();
            let numbered = all.into_iter().enumerate();
            let kept = numbered.filter_map(|(number, value)| keeps(number).then_some(value));
            send.send(kept.collect()).expect("the test receives");
            asleep.wait();
            awake.wait();
            let again: Vec<_> = (0..VALUES).map(value).collect();
            for (number, value) in again.iter().enumerate() {
                assert!(value.iter().all(|word| *word == number as u64), "a slot has two users");
            }
        });
        asleep.wait();
        drop(values.recv().expect("the owner sends"));
        look_until_purged();
        assert_eq!(IdlePool.stats().live(), 0);
        awake.wait();
        owner.join().expect("no panic");
    });
    publish_bundle_of_this_thread();
    // A lost slot would pin its unit.
    assert_eq!((IdlePool.stats().bytes_held, IdlePool.stats().purged_units), (0, 0));
}

#[test]
fn an_owner_reuses_purged_units_whose_slots_another_thread_freed() {
    purged_after(|_| true);
}

#[test]
fn an_owner_reuses_purged_units_of_which_it_freed_half() {
    purged_after(|number| number % 2 == 0);
}

#[test]
fn an_owner_reuses_purged_units_of_which_it_freed_most() {
    purged_after(|number| number % 16 == 0);
}

#[test]
fn a_thread_that_ends_leaves_no_purged_unit() {
    take_turn();
    let (asleep, awake) = (Barrier::new(2), Barrier::new(2));
    let (send, values) = sync_channel::<Vec<Value>>(1);
    thread::scope(|threads| {
        let owner = threads.spawn(|| {
            send.send((0..VALUES).map(value).collect()).expect("the test receives");
            asleep.wait();
            awake.wait();
        });
        asleep.wait();
        drop(values.recv().expect("the owner sends"));
        look_until_purged();
        awake.wait();
        // `thread::scope` does not wait until thread exit is complete; `join` does.
        owner.join().expect("no panic");
    });
    publish_bundle_of_this_thread();
    assert_eq!(IdlePool.stats().bytes_held, 0);
}

/// After a look that purges nothing, the next look must wait for a clock tick, because a sleeping
/// owner may have any number of units with a live slot.
#[test]
fn a_look_that_purges_nothing_waits_for_the_clock() {
    take_turn();
    let (asleep, awake) = (Barrier::new(2), Barrier::new(2));
    let (send, values) = sync_channel::<Vec<Value>>(1);
    thread::scope(|threads| {
        let owner = threads.spawn(|| {
            send.send((0..VALUES).map(value).collect()).expect("the test receives");
            asleep.wait();
            awake.wait();
        });
        asleep.wait();
        // One value in 32 stays, so each unit has at least one live slot.
        let mut number = 0;
        let mut values = values.recv().expect("the owner sends");
        values.retain(|_| {
            number += 1;
            number % 32 == 0
        });
        // After an earlier test, a limited number of looks may still run without a pause. Each look
        // reduces that number.
        for _ in 0..2 * LOOKS {
            look();
            #[cfg(not(miri))]
            thread::sleep(core::time::Duration::from_millis(1));
        }
        let without_a_pause = QUEUE.looks_without_a_pause();
        let purged = IdlePool.stats().purged_units;
        awake.wait();
        // `thread::scope` does not wait until thread exit is complete; `join` does.
        owner.join().expect("no panic");
        assert_eq!((without_a_pause, purged), (0, 0));
    });
}

/// Checks the values that it receives, then drops them.
fn drops(values: Receiver<(usize, Value)>) {
    for (number, value) in values {
        assert!(value.iter().all(|word| *word == number as u64), "a live slot was purged");
    }
}

#[test]
fn conc_an_owner_allocates_and_frees_while_other_threads_free_and_purge() {
    const ROUNDS: usize = if cfg!(miri) { 3 } else { 60 };
    take_turn();
    let (send, values) = sync_channel::<(usize, Value)>(VALUES);
    let done = AtomicBool::new(false);
    thread::scope(|threads| {
        let drops = threads.spawn(|| drops(values));
        let looks = threads.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                look();
                thread::yield_now();
            }
        });
        let owner = threads.spawn(move || {
            for round in 0..ROUNDS {
                let mut kept = Vec::new();
                for number in round..round + VALUES / 4 {
                    let value = value(number);
                    match number % 3 {
                        0 => kept.push((number, value)),
                        _ => send.send((number, value)).expect("a thread receives"),
                    }
                }
                thread::yield_now();
                for (number, value) in kept {
                    assert!(value.iter().all(|word| *word == number as u64), "a live slot was purged");
                }
            }
            drop(send);
        });
        // `thread::scope` does not wait until thread exit is complete; `join` does.
        owner.join().expect("no panic");
        drops.join().expect("no panic");
        done.store(true, Ordering::Relaxed);
        looks.join().expect("no panic");
    });
    assert_eq!(IdlePool.stats().bytes_held, 0);
}
