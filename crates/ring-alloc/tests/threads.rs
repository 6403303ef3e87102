//! Blocks go from thread to thread and outlive their threads; nothing is lost.
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

/// Picks the second value under Miri.
const fn here_or_miri(here: usize, miri: usize) -> usize {
    if cfg!(miri) { miri } else { here }
}

#[test]
fn conc_blocks_are_freed_on_another_thread() {
    let _balanced = Balanced::new();
    let blocks = some(24);
    joined(thread::spawn(move || {
        check_all(&blocks);
        drop(blocks);
    }));
    assert_eq!(OneRingAlloc.stats().blocks_live(), 0);
}

#[test]
fn conc_blocks_outlive_their_thread() {
    let _balanced = Balanced::new();
    let blocks = joined(thread::spawn(|| some(24)));
    check_all(&blocks);
    assert_eq!(OneRingAlloc.stats().blocks_live(), 24);
    drop(blocks);
    assert_eq!(OneRingAlloc.stats().blocks_live(), 0);
}

#[test]
fn conc_blocks_of_an_ended_thread_are_freed_while_another_has_its_record() {
    let _balanced = Balanced::new();
    let mut blocks = joined(thread::spawn(|| some(24)));
    let (to, from) = channel();
    let next = thread::spawn(move || {
        let own = some(12);
        from.recv().expect("the word to go on");
        let more = some(12);
        check_all(&own);
        check_all(&more);
    });
    blocks.drain(..12).enumerate().for_each(|(number, bytes)| check(number, &bytes));
    to.send(()).expect("the thread waits");
    drop(blocks);
    joined(next);
}

#[test]
fn conc_foreign_blocks_grow_and_shrink() {
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
    // And home again, from what the other thread made of them.
    blocks.iter_mut().for_each(Vec::shrink_to_fit);
    blocks.iter_mut().enumerate().for_each(|(number, bytes)| bytes.push(number as u8));
    check_all(&blocks);
}

#[test]
fn conc_a_thread_gives_its_chunks_back_when_it_ends() {
    let balanced = Balanced::new();
    joined(thread::spawn(|| check_all(&some(60))));
    assert_eq!(OneRingAlloc.stats().bytes_held, balanced.before, "without anybody cleaning");
}

#[test]
fn conc_what_an_ended_thread_sent_off_goes_back_with_its_last_block() {
    let balanced = Balanced::new();
    let blocks: alloc::vec::Vec<_> = joined(thread::spawn(|| {
        (0..here_or_miri(90, 50)).map(|number| filled(number, SIZES[2 + number % 3])).collect()
    }));
    assert!(OneRingAlloc.stats().chunks() > 2);
    check_all(&blocks);
    drop(blocks);
    assert_eq!(OneRingAlloc.stats().bytes_held, balanced.before, "without anybody cleaning");
}

#[test]
fn conc_shrunk_abroad_then_freed_at_home() {
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
fn conc_a_producer_and_a_consumer() {
    let _balanced = Balanced::new();
    let (to, from) = sync_channel::<(usize, Bytes)>(8);
    let producer = thread::spawn(move || {
        for number in 0..here_or_miri(30_000, 60) {
            to.send((number, filled(number, 1 + number % 300))).expect("the consumer is there");
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
    // At most eight blocks were on their way: what the consumer frees, the producer uses again.
    assert!(peak < 1 << 20, "{peak} bytes held");
}

#[test]
fn conc_threads_pass_blocks_around() {
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
                    to.send(filled(number, 1 + number % 90)).expect("the neighbour is there");
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
fn conc_clean_global_while_others_work() {
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
fn conc_threads_of_a_scope() {
    let _balanced = Balanced::new();
    let blocks = some(12);
    thread::scope(|scope| {
        let mine: [_; 2] = core::array::from_fn(|_| {
            scope.spawn(|| {
                check_all(&blocks);
                some(12)
            })
        });
        // The end of the scope would not wait for the threads' destructors; a handle does.
        for thread in mine {
            check_all(&thread.join().expect("the thread does not panic"));
        }
    });
}

/// Threads that come one after another, each with blocks that the next one frees.
fn one_after_another(threads: usize) {
    let _balanced = Balanced::new();
    let mut left: alloc::vec::Vec<Bytes> = alloc::vec::Vec::new();
    for _ in 0..threads {
        left = joined(thread::spawn(move || {
            check_all(&left);
            drop(left);
            // Two classes; more than a chunk of each is filled.
            let mut blocks: alloc::vec::Vec<_> =
                (0..60).map(|number| filled(number, SIZES[number % 4])).collect();
            blocks.truncate(12);
            blocks
        }));
        let stats = OneRingAlloc.stats();
        assert_eq!(stats.blocks_live(), 12);
        assert!(stats.bytes_held < 3 << 20 && stats.chunks() < 20, "{stats:?}");
    }
}

#[test]
fn conc_threads_one_after_another_use_the_same_memory() {
    one_after_another(here_or_miri(200, 3));
}

#[test]
fn many_threads_one_after_another_leave_bounded_memory() {
    let records = OneRingAlloc.stats().extra_records;
    one_after_another(here_or_miri(2_000, 8));
    assert!(OneRingAlloc.stats().extra_records >= records, "records are for ever");
}

#[test]
fn more_threads_at_once_than_records() {
    let _balanced = Balanced::new();
    // So many records are static.
    let first = here_or_miri(64, 4);
    let count = first + 16;
    let barrier = Arc::new(Barrier::new(count));
    let threads: alloc::vec::Vec<_> = (0..count)
        .map(|number| {
            let barrier = Arc::clone(&barrier);
            thread::spawn(move || {
                let bytes = filled(number, 100);
                // All have a record now.
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
    // They are used again.
    let _again = joined(thread::spawn(|| filled(1, 1)));
    assert_eq!(OneRingAlloc.stats().extra_records, extra);
}

#[test]
fn conc_a_thread_that_panics_gives_its_blocks_back() {
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
