//! Bundles: which frees wait in one, and when they are published.
#![expect(unreachable_pub, reason = "the methods of an allocator that the macro declares are public")]

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std_alloc::vec::Vec;

use allocator_api2::boxed::Box;
// The tests take turns, because a thread of one may hold the record that has another one's heaps.
use ephemera_testkit::suite::turn;

use super::bundle;
use crate::geometry::UNIT_MIN;
use crate::pooled_allocator;

/// Enough slots for several units, or for several groups under Miri.
const VALUES: usize = if cfg!(miri) { 150 } else { 5_000 };

fn is_open() -> bool {
    bundle::current().is_some_and(|bundle| bundle.is_open())
}

/// Calls `work` with the values that another thread makes. That thread sleeps meanwhile, and then
/// calls `later`.
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
            // The test ends the wait also if it fails.
            let _ = sleep.recv();
            later();
        });
        work(values.recv().expect("the owner sends"));
        drop(wake);
        // A scope does not wait for the end of thread exit.
        owner.join().expect("no panic");
    });
}

/// Drops values, those of the owner's front first.
fn drop_front_first<V>(mut values: Vec<V>) {
    drop(values.split_off(values.len() / 2));
    drop(values);
}

#[test]
fn slots_in_a_bundle_count_as_freed() {
    let _turn = turn();
    pooled_allocator! {
        struct CountedBlocks;
    }
    let make = || (0..VALUES).map(|number| Box::new_in([number; 4], CountedBlocks)).collect();
    while_owner_sleeps(
        make,
        |values: Vec<Box<[usize; 4], CountedBlocks>>| {
            drop_front_first(values);
            assert!(is_open());
            let stats = CountedBlocks.stats();
            assert_eq!((stats.live(), stats.bytes_live), (0, 0), "{stats:?}");
        },
        || (),
    );
}

/// Returns the bytes that stay after a thread freed blocks of `N` bytes and sleeps, and their owner
/// trimmed and ended.
macro_rules! held_by_sleeper {
    ($bytes:expr, $count:expr) => {{
        pooled_allocator! {
            struct LeftBlocks;
        }
        let make = || (0..$count).map(|_| Box::new_in([0_u8; $bytes], LeftBlocks)).collect();
        while_owner_sleeps(
            make,
            |values: Vec<Box<[u8; $bytes], LeftBlocks>>| drop_front_first(values),
            || LeftBlocks.trim(),
        );
        let held = LeftBlocks.stats().bytes_held;
        LeftBlocks.trim();
        (held, LeftBlocks.stats().bytes_held)
    }};
}

#[test]
fn sleeping_thread_keeps_one_unit_in_its_bundle() {
    let _turn = turn();
    let (held, after_trim) = held_by_sleeper!(32, VALUES);
    assert!(held <= UNIT_MIN, "{held} bytes wait");
    assert_eq!(after_trim, 0);
    let (held, after_trim) = held_by_sleeper!(8_192, 200);
    assert_eq!((held, after_trim), (0, 0), "the slots of large units do not wait");
}

#[test]
fn slow_path_publishes_the_bundle() {
    let _turn = turn();
    pooled_allocator! {
        struct FreedBlocks;
    }
    pooled_allocator! {
        struct Own;
    }
    let make = || (0..VALUES).map(|number| Box::new_in([number; 4], FreedBlocks)).collect();
    while_owner_sleeps(
        make,
        |values: Vec<Box<[usize; 4], FreedBlocks>>| {
            drop_front_first(values);
            assert!(is_open());
            let own: Vec<_> = (0..VALUES).map(|number| Box::new_in([number; 4], Own)).collect();
            assert!(!is_open(), "this thread took the slow path");
            drop(own);
        },
        || FreedBlocks.trim(),
    );
    assert_eq!(FreedBlocks.stats().bytes_held, 0);
    Own.trim();
}

#[test]
fn ended_thread_publishes_its_bundle() {
    let _turn = turn();
    pooled_allocator! {
        struct Sent;
    }
    let make = || (0..VALUES).map(|number| Box::new_in([number; 4], Sent)).collect();
    while_owner_sleeps(
        make,
        |values: Vec<Box<[usize; 4], Sent>>| {
            let frees = thread::spawn(move || {
                drop_front_first(values);
                assert!(is_open());
            });
            frees.join().expect("no panic");
        },
        || Sent.trim(),
    );
    assert_eq!(Sent.stats().bytes_held, 0);
}

#[test]
fn last_free_of_an_ended_thread_frees_its_unit() {
    let _turn = turn();
    pooled_allocator! {
        struct Left;
    }
    let make = || -> Vec<_> { (0..VALUES).map(|number| Box::new_in([number; 4], Left)).collect() };
    let left = thread::spawn(make).join().expect("no panic");
    drop_front_first(left);
    assert_eq!(Left.stats().bytes_held, 0);
}

#[test]
fn freed_slots_serve_a_thread_at_its_limit() {
    let _turn = turn();
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
        assert_eq!(fill().len(), told.recv().expect("it was told"), "a freed slot is not found");
    });
}

#[test]
fn frees_that_alternate_between_groups_do_not_wait() {
    let _turn = turn();
    pooled_allocator! {
        struct Mixed;
    }
    let make = || (0..VALUES).map(|number| Box::new_in([number; 4], Mixed)).collect();
    while_owner_sleeps(
        make,
        |mut values: Vec<Box<[usize; 4], Mixed>>| {
            let others = values.split_off(values.len() / 2);
            for pair in values.into_iter().zip(others) {
                drop(pair);
                assert!(!is_open());
            }
        },
        || Mixed.trim(),
    );
    assert_eq!(Mixed.stats().bytes_held, 0);
}
