//! Tests that values are not lost when they move from thread to thread and outlive their threads.
//!
//! The tests take turns, so that no thread of another test holds a record and books frees late.
#![cfg(feature = "std")]

extern crate alloc;

#[path = "support/threads.rs"]
mod support;

use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Barrier;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread;

use ephemera_testkit::suite::take_turn;
use support::{here_or_miri, joined};
use typed_pool::{AnyPool, Pooled, PooledBox, Stats, pooled, pooled_allocator, unsize};

/// A type of numbered values. Each test declares its own type, with a pool.
trait Numbered: Pooled + Send {
    fn new(number: usize) -> Self;
    fn number(&self) -> usize;
    fn is_whole(&self) -> bool;

    fn boxed(number: usize) -> PooledBox<Self> {
        PooledBox::new(Self::new(number))
    }

    fn some(count: usize) -> Vec<PooledBox<Self>> {
        (0..count).map(Self::boxed).collect()
    }

    fn check_all(values: &[PooledBox<Self>]) {
        assert!(values.iter().all(|value| value.is_whole()));
    }

    fn stats() -> Stats {
        PooledBox::<Self>::stats()
    }

    /// Checks that no memory is held after a trim of all threads.
    fn assert_nothing_held() {
        PooledBox::<Self>::trim_all();
        let stats = Self::stats();
        assert_eq!((stats.slots_live, stats.bytes_held, stats.unread_heaps), (0, 0, 0), "{stats:?}");
    }
}

macro_rules! value {
    ($name:ident $(, chunk_len = $len:literal)?) => {
        struct $name(usize, [u64; 3]);
        pooled!($name $(, chunk_len = $len)?);

        impl Numbered for $name {
            fn new(number: usize) -> Self {
                Self(number, [number as u64 + 1; 3])
            }

            fn number(&self) -> usize {
                self.0
            }

            fn is_whole(&self) -> bool {
                self.1 == [self.0 as u64 + 1; 3]
            }
        }
    };
}

#[test]
fn conc_values_are_dropped_on_another_thread() {
    take_turn();
    value!(Value);
    let values = Value::some(here_or_miri(300, 40));
    joined(thread::spawn(move || {
        Value::check_all(&values);
        drop(values);
    }));
    assert_eq!(Value::stats().slots_live, 0);
    Value::assert_nothing_held();
}

#[test]
fn conc_values_outlive_their_thread() {
    take_turn();
    const COUNT: usize = here_or_miri(100, 30);
    value!(Value);
    let values = joined(thread::spawn(|| Value::some(COUNT)));
    Value::check_all(&values);
    assert_eq!(Value::stats().slots_live, COUNT);
    drop(values);
    let stats = Value::stats();
    assert_eq!((stats.slots_live, stats.bytes_held), (0, 0), "no thread trimmed");
}

#[test]
fn conc_values_of_an_ended_thread_are_dropped_while_another_has_its_record() {
    take_turn();
    value!(Value);
    let mut values = joined(thread::spawn(|| Value::some(40)));
    let ((to, from), (ready, holds)) = (channel(), channel());
    let next = thread::spawn(move || {
        let own = Value::some(40);
        ready.send(()).expect("the test waits");
        from.recv().expect("the test sends");
        [own, Value::some(40)].iter().for_each(|values| Value::check_all(values));
    });
    holds.recv().expect("the thread has a record");
    Value::check_all(&values);
    values.truncate(20);
    to.send(()).expect("the thread waits");
    drop(values);
    joined(next);
    Value::assert_nothing_held();
}

/// The next holder of a record also books remote frees to pools that it does not use itself.
#[test]
fn conc_remote_frees_to_a_record_are_booked_by_its_next_holder() {
    take_turn();
    value!(Left, chunk_len = 8);
    value!(Used, chunk_len = 2);
    let booked = || {
        let left = joined(thread::spawn(|| Left::some(40)));
        let (to_test, from_thread) = channel();
        let (to_thread, from_test) = channel::<()>();
        let next = thread::spawn(move || {
            let _first = Used::boxed(0);
            to_test.send(()).expect("the test waits");
            from_test.recv().expect("the test sends");
            // 70 units of two slots each take more than 64 visits to the slow path.
            Used::check_all(&Used::some(2 * 70));
            to_test.send(()).expect("the test waits");
            from_test.recv().expect("the test sends");
        });
        from_thread.recv().expect("the thread is running");
        Left::check_all(&left);
        joined(thread::spawn(move || drop(left)));
        let before = Left::stats().units;
        to_thread.send(()).expect("the thread waits");
        from_thread.recv().expect("the thread is running");
        // The heap keeps four of five empty units.
        let booked = (before, Left::stats().units) == (5, 4);
        to_thread.send(()).expect("the thread waits");
        joined(next);
        Left::assert_nothing_held();
        booked
    };
    // `next` may lease the record of an earlier test's thread, so one success in five is enough.
    assert!((0..5).any(|_| booked()));
    Used::assert_nothing_held();
}

#[test]
fn conc_slots_with_remote_frees_are_reused() {
    take_turn();
    value!(Value, chunk_len = 16);
    let kept: Vec<_> = Value::some(64).into_iter().step_by(8).collect();
    for _ in 0..here_or_miri(50, 2) {
        let values = Value::some(56);
        joined(thread::spawn(move || drop(values)));
    }
    Value::check_all(&kept);
    // Eight values are live, one in each half of a unit. The slots around them are reused.
    let stats = Value::stats();
    assert!(stats.units <= 4 + 5 + 1, "{stats:?}");
    drop(kept);
    Value::assert_nothing_held();
}

#[test]
fn conc_thread_exit_frees_all_empty_units() {
    take_turn();
    value!(Value);
    joined(thread::spawn(|| Value::check_all(&Value::some(200))));
    let stats = Value::stats();
    assert_eq!((stats.units, stats.bytes_held), (0, 0), "no thread trimmed");
    assert!(stats.state_bytes > 0);
}

#[test]
fn conc_a_producer_reuses_the_slots_that_a_consumer_frees() {
    take_turn();
    value!(Value);
    let (to, from) = sync_channel::<PooledBox<Value>>(8);
    let producer = thread::spawn(move || {
        for number in 0..here_or_miri(100_000, 90) {
            to.send(Value::boxed(number)).expect("the consumer is running");
        }
    });
    for value in &from {
        assert!(value.is_whole());
        // At most ten values are in flight, and up to 2 MiB of empty units rest.
        assert!(value.number() % 1_000 != 0 || Value::stats().bytes_held < (2 << 20) + (256 << 10));
    }
    joined(producer);
    Value::assert_nothing_held();
}

#[test]
fn conc_values_passed_around_threads_are_not_lost() {
    take_turn();
    value!(Value, chunk_len = 8);
    type Ends = (Vec<Sender<PooledBox<Value>>>, Vec<Receiver<PooledBox<Value>>>);
    let (senders, receivers): Ends = (0..3).map(|_| channel()).unzip();
    let threads: Vec<_> = receivers
        .into_iter()
        .enumerate()
        .map(|(index, from)| {
            let to = senders[(index + 1) % 3].clone();
            thread::spawn(move || {
                let mut own = Vec::new();
                for number in 0..here_or_miri(5_000, 20) {
                    to.send(Value::boxed(number)).expect("the neighbour is running");
                    own.push(Value::boxed(number));
                    if number % 3 == 0 {
                        own.swap_remove(number % own.len());
                    }
                    own.truncate(40);
                    from.try_iter().take(2).for_each(|value| Value::check_all(&[value]));
                }
                drop(to);
                Value::check_all(&own);
                from.iter().for_each(|value| Value::check_all(&[value]));
            })
        })
        .collect();
    drop(senders);
    threads.into_iter().for_each(joined);
    Value::assert_nothing_held();
}

#[test]
fn conc_trim_all_during_allocations_loses_nothing() {
    take_turn();
    value!(Value, chunk_len = 4);
    let done = Arc::new(AtomicBool::new(false));
    let workers: [_; 2] = core::array::from_fn(|_| {
        let done = Arc::clone(&done);
        thread::spawn(move || {
            for round in 0..here_or_miri(500, 4) {
                Value::check_all(&Value::some(6 + round % 17));
            }
            done.store(true, Relaxed);
        })
    });
    while !done.load(Relaxed) {
        PooledBox::<Value>::trim_all();
        let stats = Value::stats();
        assert!(stats.units < 100, "{stats:?}");
        thread::yield_now();
    }
    workers.into_iter().for_each(joined);
    Value::assert_nothing_held();
}

#[test]
fn conc_trait_objects_are_dropped_on_any_thread() {
    take_turn();
    trait Number: Send {
        fn get(&self) -> usize;
    }
    value!(Value, chunk_len = 4);
    impl Number for Value {
        fn get(&self) -> usize {
            self.number()
        }
    }
    let mut objects: Vec<PooledBox<dyn Number, AnyPool>> =
        Value::some(12).into_iter().map(|value| unsize!(value => dyn Number)).collect();
    let mut other = joined(thread::spawn(move || {
        let here: PooledBox<dyn Number, AnyPool> = unsize!(Value::boxed(12) => dyn Number);
        objects.drain(..6).enumerate().for_each(|(index, object)| assert_eq!(object.get(), index));
        objects.push(here);
        objects
    }));
    assert_eq!(Value::stats().slots_live, 7);
    let last = other.pop().expect("the other thread adds one");
    assert_eq!((last.get(), other[0].get()), (12, 6));
    drop((last, other));
    Value::assert_nothing_held();
}

/// Runs threads one after another. Each thread drops the values that the previous one left.
fn one_after_another(threads: usize) {
    value!(Value);
    let mut left = Vec::new();
    for _ in 0..threads {
        left = joined(thread::spawn(move || {
            Value::check_all(&left);
            drop(left);
            let mut values = Value::some(here_or_miri(300, 40));
            values.truncate(12);
            values
        }));
        let stats = Value::stats();
        assert_eq!(stats.slots_live, 12);
        assert!(stats.units < 10, "{stats:?}");
    }
    drop(left);
    Value::assert_nothing_held();
}

#[test]
fn conc_threads_one_after_another_reuse_the_same_memory() {
    take_turn();
    one_after_another(here_or_miri(50, 3));
}

#[test]
#[cfg_attr(miri, ignore = "a thousand threads")]
fn many_threads_one_after_another_leave_bounded_memory() {
    take_turn();
    one_after_another(1_000);
}

#[test]
fn threads_beyond_the_static_records_get_further_records() {
    take_turn();
    value!(Value);
    // The number of static records.
    let first = here_or_miri(64, 4);
    let count = first + here_or_miri(16, 2);
    let barrier = Arc::new(Barrier::new(count));
    let threads: Vec<_> = (0..count)
        .map(|number| {
            let barrier = Arc::clone(&barrier);
            thread::spawn(move || {
                let value = Value::boxed(number);
                // At this point, all threads have a record at the same time.
                barrier.wait();
                value
            })
        })
        .collect();
    let values: Vec<_> = threads.into_iter().map(joined).collect();
    Value::check_all(&values);
    assert!(Value::stats().extra_records >= count - first);
    drop(values);
    Value::assert_nothing_held();
}

#[test]
fn conc_statistics_report_unsettled_slots_of_a_running_thread() {
    take_turn();
    value!(Value, chunk_len = 64);
    let (to_thread, from_test) = channel::<()>();
    let (to_test, from_thread) = channel();
    let thread = thread::spawn(move || {
        let values = Value::some(70);
        to_test.send(()).expect("the test waits");
        from_test.recv().expect("the test sends");
        values
    });
    from_thread.recv().expect("the thread is running");
    let stats = Value::stats();
    assert_eq!((stats.slots, stats.slots_live, stats.unsettled_slots), (128, 64, 64));
    to_thread.send(()).expect("the thread waits");
    let values = joined(thread);
    let stats = Value::stats();
    assert_eq!((stats.slots_live, stats.unsettled_slots), (70, 0));
    drop(values);
    Value::assert_nothing_held();
}

#[test]
fn conc_blocks_are_resized_and_freed_on_another_thread() {
    take_turn();
    pooled_allocator! {
        struct Blocks;
    }
    type Bytes = allocator_api2::vec::Vec<u8, Blocks>;
    // The last size has no class, except under Miri, where each byte is expensive.
    const SIZES: &[usize] = if cfg!(miri) { &[3, 24, 1_100] } else { &[3, 24, 700, 1_024, 5_000, 40_000] };
    const HALF: usize = if cfg!(miri) { 4 } else { 14 };
    let filled = |number: usize| {
        let mut bytes = Bytes::new_in(Blocks);
        bytes.resize(SIZES[number % SIZES.len()], number as u8);
        bytes
    };
    let check = |number: usize, bytes: &Bytes| assert!(bytes.iter().all(|&byte| byte == number as u8));
    let mut blocks: Vec<_> = (0..2 * HALF).map(filled).collect();
    let blocks = joined(thread::spawn(move || {
        blocks.iter().enumerate().for_each(|(number, bytes)| check(number, bytes));
        // This thread grows and shrinks the blocks, and frees half of them.
        for (number, bytes) in blocks.iter_mut().enumerate() {
            bytes.resize(bytes.len() + 9, number as u8);
            bytes.shrink_to_fit();
        }
        blocks.truncate(HALF);
        blocks
    }));
    blocks.iter().enumerate().for_each(|(number, bytes)| check(number, bytes));
    assert_eq!(Blocks.stats().live(), HALF);
    drop(blocks);
    Blocks.trim_all();
    assert_eq!((Blocks.stats().live(), Blocks.stats().bytes_held), (0, 0));
}
