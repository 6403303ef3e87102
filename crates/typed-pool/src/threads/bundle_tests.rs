//! Tests of bundles: which frees wait in a bundle, and when a thread publishes them.
#![expect(unreachable_pub, reason = "the methods of an allocator that the macro declares are public")]

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std_alloc::vec::Vec;

use allocator_api2::boxed::Box;
// The tests run one at a time, because they share a pool, and because a thread of one test may hold
// the record that has the heaps of another test.
use ephemera_testkit::suite::take_turn;

use super::bundle;
use crate::geometry::UNIT_MIN;
use crate::pooled_allocator;

pooled_allocator! {
    struct BundlePool;
}

type Value = Box<[usize; 4], BundlePool>;

/// Makes enough values to fill several units, or several groups under Miri.
fn values() -> Vec<Value> {
    let count = if cfg!(miri) { 150 } else { 5_000 };
    (0..count).map(|number| Box::new_in([number; 4], BundlePool)).collect()
}

/// Drops values, beginning with the values in the owner's front.
fn drop_front_first<V>(mut values: Vec<V>) {
    drop(values.split_off(values.len() / 2));
    drop(values);
}

/// Returns whether slots wait in this thread's bundle.
fn is_open() -> bool {
    bundle::current().is_some_and(bundle::Bundle::is_open)
}

/// Calls `work` with the values that another thread, the owner, makes. The owner sleeps during the
/// call, then calls `later` and ends.
fn while_owner_sleeps<V: Send>(
    make: impl FnOnce() -> Vec<V> + Send,
    work: impl FnOnce(Vec<V>),
    later: impl FnOnce() + Send,
) {
    let (send, values): (_, Receiver<Vec<V>>) = channel();
    let (wake, sleep): (Sender<()>, _) = channel();
    thread::scope(|threads| {
        let owner = threads.spawn(move || {
            send.send(make()).expect("the test receives");
            // A failed test drops the sender too, which ends the wait.
            let _ = sleep.recv();
            later();
        });
        work(values.recv().expect("the owner sends"));
        drop(wake);
        // `thread::scope` does not wait until thread exit is complete; `join` does.
        owner.join().expect("no panic");
    });
}

#[test]
fn slots_in_a_bundle_count_as_freed() {
    take_turn();
    let check = |values| {
        drop_front_first(values);
        assert!(is_open());
        let stats = BundlePool.stats();
        assert_eq!((stats.live(), stats.bytes_live), (0, 0), "{stats:?}");
    };
    while_owner_sleeps(values, check, || ());
    BundlePool.trim();
    assert_eq!(BundlePool.stats().bytes_held, 0);
}

/// Returns the bytes that are held after this thread has freed the values of another thread, and
/// the other thread has then trimmed and ended. This thread takes no slow path in between.
fn held_by_sleeper<V: Send>(make: impl FnOnce() -> Vec<V> + Send) -> usize {
    while_owner_sleeps(make, drop_front_first, || BundlePool.trim());
    BundlePool.stats().bytes_held
}

#[test]
fn sleeping_thread_keeps_one_unit_in_its_bundle() {
    take_turn();
    let held = held_by_sleeper(values);
    assert!(is_open());
    assert!(held <= UNIT_MIN, "{held} bytes wait");
    BundlePool.trim();
    assert_eq!(BundlePool.stats().bytes_held, 0);
    let large = || (0..200).map(|_| Box::new_in([0_u8; 8_192], BundlePool)).collect();
    assert_eq!(held_by_sleeper(large), 0, "the slots of large units do not wait");
}

#[test]
fn slow_path_publishes_the_bundle() {
    take_turn();
    pooled_allocator! {
        struct OwnBlocks;
    }
    let check = |values| {
        drop_front_first(values);
        assert!(is_open());
        // A thread cannot allocate 5,000 blocks of a family without taking the slow path.
        let mut own = (0..5_000).map(|number| Box::new_in([number; 4], OwnBlocks));
        assert!(own.any(|_block| !is_open()), "this thread took the slow path");
    };
    while_owner_sleeps(values, check, || BundlePool.trim());
    assert_eq!(BundlePool.stats().bytes_held, 0);
    OwnBlocks.trim();
}

#[test]
fn ended_thread_publishes_its_bundle() {
    take_turn();
    let check = |values| {
        let frees = thread::spawn(move || {
            drop_front_first(values);
            assert!(is_open());
        });
        frees.join().expect("no panic");
    };
    while_owner_sleeps(values, check, || BundlePool.trim());
    assert_eq!(BundlePool.stats().bytes_held, 0);
}

#[test]
fn last_free_of_an_ended_thread_frees_its_unit() {
    take_turn();
    drop_front_first(thread::spawn(values).join().expect("no panic"));
    assert_eq!(BundlePool.stats().bytes_held, 0);
}

#[test]
fn freed_slots_serve_a_thread_at_its_limit() {
    take_turn();
    pooled_allocator! {
        struct LimitedBlocks;
    }
    LimitedBlocks.set_limit(2 * UNIT_MIN);
    let fill =
        || -> Vec<_> { core::iter::from_fn(|| Box::try_new_in([1_u64; 32], LimitedBlocks).ok()).collect() };
    let (tell, told) = channel();
    let make = || {
        let values = fill();
        tell.send(values.len()).expect("the test receives");
        values
    };
    while_owner_sleeps(make, drop_front_first, move || {
        assert_eq!(fill().len(), told.recv().expect("a first count"), "a freed slot is not found");
    });
}

#[test]
fn frees_that_alternate_between_groups_do_not_wait() {
    take_turn();
    let check = |mut values: Vec<Value>| {
        let others = values.split_off(values.len() / 2);
        for pair in values.into_iter().zip(others) {
            drop(pair);
            assert!(!is_open());
        }
    };
    while_owner_sleeps(values, check, || BundlePool.trim());
    assert_eq!(BundlePool.stats().bytes_held, 0);
}

/// The owner sends values one by one and waits for the free of each value, so it can book each free
/// at once.
#[test]
fn slot_of_a_group_whose_frees_are_booked_does_not_wait() {
    take_turn();
    let (send, values) = channel::<Value>();
    let (tell, told) = channel();
    thread::scope(|threads| {
        let owner = threads.spawn(move || {
            for number in 0..10 {
                send.send(Box::new_in([number; 4], BundlePool)).expect("the test receives");
                told.recv().expect("the test frees");
                BundlePool.trim();
                assert_eq!(BundlePool.stats().bytes_held, 0, "value {number}");
            }
        });
        for value in values {
            drop(value);
            // The owner may have failed.
            let _ = tell.send(());
        }
        owner.join().expect("no panic");
    });
}
