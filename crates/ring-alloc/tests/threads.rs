//! Tests that no block is lost if blocks move between threads or outlive their threads.
#![cfg(all(feature = "std", target_has_atomic = "64"))]

extern crate alloc;

#[path = "support/blocks.rs"]
mod blocks;

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Barrier;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread;

use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use blocks::{Balanced, Bytes, SIZES, check, check_all, filled, joined, some};
use ring_alloc::OneRingAlloc;

/// Returns `miri` under Miri, and `here` otherwise.
const fn here_or_miri(here: usize, miri: usize) -> usize {
    if cfg!(miri) { miri } else { here }
}

#[test]
fn conc_blocks_may_be_freed_on_another_thread() {
    let _balanced = Balanced::new();
    let blocks = some(24);
    joined(thread::spawn(move || {
        check_all(&blocks);
        drop(blocks);
    }));
    assert_eq!(OneRingAlloc.stats().blocks_live(), 0);
}

#[test]
fn conc_blocks_may_outlive_their_thread() {
    let _balanced = Balanced::new();
    let blocks = joined(thread::spawn(|| some(24)));
    check_all(&blocks);
    assert_eq!(OneRingAlloc.stats().blocks_live(), 24);
    drop(blocks);
    assert_eq!(OneRingAlloc.stats().blocks_live(), 0);
}

#[test]
fn conc_blocks_of_an_ended_thread_are_freed_while_another_thread_holds_its_record() {
    let _balanced = Balanced::new();
    let mut blocks = joined(thread::spawn(|| some(24)));
    let (to, from) = channel();
    let (leased, has_leased) = channel();
    let next = thread::spawn(move || {
        let own = some(12);
        leased.send(()).expect("the test waits");
        from.recv().expect("the signal to continue");
        let more = some(12);
        check_all(&own);
        check_all(&more);
        // The thread holds the record until the last block is freed.
        from.recv().expect("the signal to end");
    });
    has_leased.recv().expect("the thread runs");
    blocks.drain(..12).enumerate().for_each(|(number, bytes)| check(number, &bytes));
    to.send(()).expect("the thread waits");
    drop(blocks);
    to.send(()).expect("the thread waits");
    joined(next);
}

#[test]
fn conc_blocks_of_another_thread_grow_and_shrink() {
    let _balanced = Balanced::new();
    let mut blocks = some(12);
    let mut blocks = joined(thread::spawn(move || {
        for (number, bytes) in blocks.iter_mut().enumerate() {
            let old = bytes.capacity();
            bytes.reserve_exact(old + old / 2 + 9 - bytes.len());
            bytes.resize(bytes.len() + 9, number as u8);
            bytes.truncate(old / 2 + 1);
            bytes.shrink_to(old / 2 + 1);
        }
        check_all(&blocks);
        blocks
    }));
    check_all(&blocks);
    assert_eq!(OneRingAlloc.stats().blocks_live(), 12);
    assert_eq!(OneRingAlloc.stats().bytes_live(), blocks.iter().map(Vec::capacity).sum());
    // Resize the blocks on their own thread again.
    blocks.iter_mut().for_each(Vec::shrink_to_fit);
    blocks.iter_mut().enumerate().for_each(|(number, bytes)| bytes.push(number as u8));
    check_all(&blocks);
}

#[test]
fn conc_thread_frees_its_chunks_at_exit() {
    let balanced = Balanced::new();
    joined(thread::spawn(|| check_all(&some(60))));
    assert_eq!(OneRingAlloc.stats().bytes_held, balanced.before, "no thread trimmed");
}

#[test]
fn conc_chunks_of_an_ended_thread_are_freed_with_their_last_blocks() {
    let balanced = Balanced::new();
    let blocks: alloc::vec::Vec<_> = joined(thread::spawn(|| {
        (0..here_or_miri(90, 50)).map(|number| filled(number, SIZES[2 + number % 3])).collect()
    }));
    assert!(OneRingAlloc.stats().chunks() > 2);
    check_all(&blocks);
    drop(blocks);
    assert_eq!(OneRingAlloc.stats().bytes_held, balanced.before, "no thread trimmed");
}

#[test]
fn conc_remote_shrink_then_local_free_counts_every_byte_once() {
    let _balanced = Balanced::new();
    let mut bytes = filled(3, 600);
    let neighbour = filled(4, 600);
    let bytes = joined(thread::spawn(move || {
        bytes.truncate(100);
        bytes.shrink_to(100);
        bytes
    }));
    assert_eq!((OneRingAlloc.stats().blocks_live(), OneRingAlloc.stats().bytes_live()), (2, 700));
    check(3, &bytes);
    check(4, &neighbour);
    drop(bytes);
    assert_eq!((OneRingAlloc.stats().blocks_live(), OneRingAlloc.stats().bytes_live()), (1, 600));
}

#[test]
fn conc_producer_and_consumer_hold_bounded_memory() {
    let _balanced = Balanced::new();
    let (to, from) = sync_channel::<(usize, Bytes)>(8);
    let producer = thread::spawn(move || {
        for number in 0..here_or_miri(30_000, 60) {
            to.send((number, filled(number, 1 + number % 300))).expect("the consumer is running");
        }
    });
    let mut peak = 0;
    for (number, bytes) in &from {
        check(number, &bytes);
        if number % 1_000 == 0 {
            peak = peak.max(OneRingAlloc.stats().bytes_held);
        }
    }
    joined(producer);
    // At most eight blocks were in the channel, and the producer reuses the memory that the
    // consumer frees. Up to 2 MiB of chunks rest.
    assert!(peak < 3 << 20, "{peak} bytes held");
}

#[test]
fn conc_threads_free_blocks_of_their_neighbours() {
    let _balanced = Balanced::new();
    let (senders, receivers): (alloc::vec::Vec<Sender<Bytes>>, alloc::vec::Vec<Receiver<Bytes>>) =
        (0..3).map(|_| channel()).unzip();
    let threads: alloc::vec::Vec<_> = receivers
        .into_iter()
        .enumerate()
        .map(|(index, from)| {
            let to = senders[(index + 1) % 3].clone();
            thread::spawn(move || {
                for number in 0..here_or_miri(5_000, 12) {
                    to.send(filled(number, 1 + number % 90)).expect("the neighbour is running");
                    from.try_iter().take(2).for_each(|bytes| check(usize::from(bytes[0]), &bytes));
                }
                drop(to);
                from.iter().for_each(|bytes| check(usize::from(bytes[0]), &bytes));
            })
        })
        .collect();
    drop(senders);
    threads.into_iter().for_each(joined);
}

#[test]
fn conc_clean_global_runs_beside_threads_that_allocate() {
    let _balanced = Balanced::new();
    let done = Arc::new(AtomicBool::new(false));
    let workers: [_; 2] = core::array::from_fn(|_| {
        let done = Arc::clone(&done);
        thread::spawn(move || {
            for round in 0..here_or_miri(300, 4) {
                check_all(&some(6 + round % 7));
            }
            done.store(true, Relaxed);
        })
    });
    while !done.load(Relaxed) {
        OneRingAlloc.clean_global();
        let stats = OneRingAlloc.stats();
        assert!(stats.blocks_live() <= 2 * 12 && stats.chunks() < 100, "{stats:?}");
        thread::yield_now();
    }
    workers.into_iter().for_each(joined);
}

#[test]
fn conc_threads_of_a_scope_return_blocks() {
    let _balanced = Balanced::new();
    let blocks = some(12);
    thread::scope(|scope| {
        let mine: [_; 2] = core::array::from_fn(|_| {
            scope.spawn(|| {
                check_all(&blocks);
                some(12)
            })
        });
        // Join the threads, because `thread::scope` does not wait for the destructors of their
        // thread-locals.
        for thread in mine {
            check_all(&thread.join().expect("the thread does not panic"));
        }
    });
}

/// Runs threads one after another. Each thread frees the blocks of the previous thread, and leaves
/// some of its own blocks live.
fn one_after_another(threads: usize) {
    let _balanced = Balanced::new();
    let records = OneRingAlloc.stats().extra_records;
    let mut left: alloc::vec::Vec<Bytes> = alloc::vec::Vec::new();
    for _ in 0..threads {
        left = joined(thread::spawn(move || {
            check_all(&left);
            drop(left);
            // The blocks are in chunks of both classes.
            let mut blocks: alloc::vec::Vec<_> =
                (0..60).map(|number| filled(number, SIZES[number % 4])).collect();
            blocks.truncate(12);
            blocks
        }));
        let stats = OneRingAlloc.stats();
        assert_eq!(stats.blocks_live(), 12);
        assert!(stats.bytes_held < 3 << 20 && stats.chunks() < 20, "{stats:?}");
    }
    assert_eq!(OneRingAlloc.stats().extra_records, records, "a thread did not take over a record");
}

#[test]
fn conc_threads_one_after_another_reuse_memory() {
    one_after_another(here_or_miri(200, 3));
}

#[test]
fn many_threads_one_after_another_hold_bounded_memory() {
    one_after_another(here_or_miri(2_000, 5));
}

#[test]
fn records_are_added_for_more_threads_and_then_reused() {
    let _balanced = Balanced::new();
    // The number of static records.
    let first = here_or_miri(64, 4);
    let count = first + here_or_miri(16, 4);
    let barrier = Arc::new(Barrier::new(count));
    let threads: alloc::vec::Vec<_> = (0..count)
        .map(|number| {
            let barrier = Arc::clone(&barrier);
            thread::spawn(move || {
                let bytes = filled(number, 100);
                // After this wait, every thread has a record.
                barrier.wait();
                check(number, &bytes);
                bytes
            })
        })
        .collect();
    for (number, thread) in threads.into_iter().enumerate() {
        check(number, &joined(thread));
    }
    let extra = OneRingAlloc.stats().extra_records;
    assert!(extra >= count - first, "{extra} records beyond the first {first}");
    // The next thread reuses a record.
    let _again = joined(thread::spawn(|| filled(1, 1)));
    assert_eq!(OneRingAlloc.stats().extra_records, extra);
}

#[test]
fn conc_thread_that_panics_frees_its_blocks() {
    let _balanced = Balanced::new();
    let thread = thread::spawn(|| {
        let blocks = some(12);
        let boxed = Box::new_in([5_u64; 4], OneRingAlloc);
        check_all(&blocks);
        std::panic::resume_unwind(alloc::boxed::Box::new(boxed[0]));
    });
    let panic = thread.join().expect_err("it panics");
    assert_eq!(panic.downcast_ref(), Some(&5_u64));
    assert_eq!(OneRingAlloc.stats().blocks_live(), 0);
}
