//! Tests that the memory of blocks that outlive their thread is freed together with the blocks,
//! without a trim.
#![cfg(all(feature = "std", target_has_atomic = "64"))]

extern crate alloc;

#[path = "support/threads.rs"]
mod support;

use alloc::vec::Vec;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use allocator_api2::boxed::Box as Block;
use ephemera_testkit::suite::take_turn;
use support::{here_or_miri, joined};
use typed_pool::{PooledBox, pooled, pooled_allocator};

/// A value of a type whose units have two slots.
struct Value([u64; 4]);
pooled!(Value, chunk_len = 2);

fn held() -> (usize, usize) {
    let stats = PooledBox::<Value>::stats();
    (stats.bytes_held, stats.slots_live)
}

#[test]
fn conc_a_remote_free_during_thread_exit_leaves_no_unit() {
    take_turn();
    pooled_allocator! {
        /// An exiting thread drains the heaps of this allocator after the heaps of `Value`, which
        /// leaves time for a remote free in between.
        struct Others;
    }
    let rounds = if cfg!(debug_assertions) { here_or_miri(5_000, 4) } else { 100_000 };
    let round = AtomicUsize::new(0);
    let (to, from) = channel();
    thread::scope(|scope| {
        // This thread frees each value while the thread that made it exits, after a different delay
        // each time.
        let freed = scope.spawn(|| {
            for (number, value) in from.into_iter().enumerate() {
                (0..number * 7 % 3_000).for_each(|_| spin_loop());
                drop::<PooledBox<Value>>(value);
                round.store(number + 1, Ordering::Release);
            }
        });
        for number in 0..rounds {
            let to = to.clone();
            joined(thread::spawn(move || {
                drop(Block::new_in(number, Others));
                to.send(PooledBox::new(Value([number as u64; 4]))).expect("the other end is open");
            }));
            while round.load(Ordering::Acquire) <= number {
                thread::yield_now();
            }
            assert_eq!(held(), (0, 0), "round {number}");
        }
        drop(to);
        freed.join().expect("no panic");
    });
}

/// A thread leaves a live value in each of many units. Another thread frees half of these values
/// before the first thread ends, and the other half while it ends.
#[test]
fn conc_remote_frees_before_and_during_thread_exit_leave_no_unit() {
    take_turn();
    static GO: AtomicBool = AtomicBool::new(false);
    let units = here_or_miri(4_000, 10);
    for _ in 0..here_or_miri(5, 1) {
        GO.store(false, Ordering::Relaxed);
        let (to, from) = channel();
        let owner = thread::spawn(move || {
            let pairs: Vec<_> =
                (0..2 * units).map(|number| PooledBox::new(Value([number as u64; 4]))).collect();
            for (number, value) in pairs.into_iter().enumerate() {
                if number % 2 == 0 {
                    to.send(value).expect("the other end is open");
                }
            }
            while !GO.load(Ordering::Acquire) {
                thread::yield_now();
            }
        });
        let mut values: Vec<_> = from.iter().take(units).collect();
        assert!(values.iter().enumerate().all(|(number, value)| value.0 == [2 * number as u64; 4]));
        values.truncate(units / 2);
        GO.store(true, Ordering::Release);
        drop(values);
        joined(owner);
        assert_eq!(held(), (0, 0));
    }
}

/// Two threads free the values of an ended thread in parallel. Each thread frees slots of all
/// units, so either may complete a countdown.
#[test]
fn conc_two_threads_that_free_an_ended_threads_values_leave_no_unit() {
    struct Small(u64);
    pooled!(Small);
    take_turn();
    let count = here_or_miri(20_000, 100);
    for _ in 0..here_or_miri(5, 1) {
        let values = joined(thread::spawn(move || {
            (0..count as u64).map(|number| PooledBox::new(Small(number))).collect::<Vec<_>>()
        }));
        assert!(values.iter().enumerate().all(|(number, value)| value.0 == number as u64));
        let (mut even, mut odd) = (Vec::new(), Vec::new());
        for (number, value) in values.into_iter().enumerate() {
            if number % 2 == 0 { even.push(value) } else { odd.push(value) }
        }
        let other = thread::spawn(move || drop(odd));
        drop(even);
        joined(other);
        let stats = PooledBox::<Small>::stats();
        assert_eq!((stats.bytes_held, stats.slots_live), (0, 0), "{stats:?}");
    }
}
