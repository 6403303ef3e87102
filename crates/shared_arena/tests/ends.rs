//! Tests arenas that are dropped before their values. The tests check how much memory the process
//! still holds, and that no thread waits for another thread.
#![cfg(feature = "std")]

extern crate alloc;

#[path = "support/heap.rs"]
mod heap;

use core::cell::RefCell;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use ephemera_testkit::SplitMix;
use ephemera_testkit::suite::take_turn;
use heap::{GROUP, Heap};
use shared_arena::{ArenaBox, Pool, PoolBox, SharedArena};

#[global_allocator]
static HEAP: Heap = Heap::new();

/// A value of a kilobyte. The first group of an arena for these values has 64 KiB.
type Kilobyte = [u8; 1024];

/// Drops an arena, and then its only value.
fn end_one() {
    let arena = SharedArena::<Kilobyte>::new();
    let value = arena.alloc([1; 1024]);
    drop(arena);
    drop(value);
}

/// A point in a free at which one thread stops until the test releases the thread. The tests take
/// turns, so they share one such point.
struct Stop {
    reached: AtomicBool,
    released: AtomicBool,
}

static STOP: Stop = Stop { reached: AtomicBool::new(false), released: AtomicBool::new(false) };

/// Stops the calling thread until the test releases it.
fn stop() {
    STOP.reached.store(true, SeqCst);
    while !STOP.released.load(SeqCst) {
        thread::yield_now();
    }
}

impl Stop {
    fn reset(&self) {
        self.reached.store(false, SeqCst);
        self.released.store(false, SeqCst);
    }

    /// Waits until a thread has stopped.
    fn await_thread(&self) {
        while !self.reached.load(SeqCst) {
            thread::yield_now();
        }
    }

    fn release(&self) {
        self.released.store(true, SeqCst);
    }
}

/// Every thread has one arena at a time, so the process needs at most one group for each thread.
/// Any further group is memory that waits for another thread to free it.
#[test]
fn conc_arenas_dropped_before_their_values_hold_only_live_groups() {
    const THREADS: usize = if cfg!(miri) { 3 } else { 8 };
    const ROUNDS: usize = if cfg!(miri) { 5 } else { 10_000 };
    take_turn();
    let before = HEAP.groups();
    let most = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    end_one();
                    most.fetch_max(HEAP.groups(), SeqCst);
                }
            });
        }
    });
    let most = most.into_inner() - before;
    assert!(most <= THREADS * (256 << 10), "{most} bytes held for {THREADS} values");
    assert_eq!(HEAP.groups(), before);
}

/// One thread stops while it frees a group. In a forked child, a thread of the parent stops in the
/// same way, but permanently. All other arenas are freed as if the stopped thread did not exist.
#[test]
fn conc_a_thread_stopped_in_a_drop_delays_no_other_arena() {
    take_turn();
    for sent in [false, true] {
        STOP.reset();
        let (values, from) = channel();
        let arena = SharedArena::<Kilobyte>::new();
        if sent {
            values.send(arena.alloc([1; 1024])).unwrap();
        } else {
            claim_elsewhere(&arena, &values);
        }
        let before = HEAP.groups();
        let other = thread::spawn(move || {
            let value: ArenaBox<Kilobyte> = from.recv().unwrap();
            drop(arena);
            HEAP.at_the_next_free(GROUP.., stop);
            drop(value);
        });
        STOP.await_thread();
        for _ in 0..if cfg!(miri) { 3 } else { 300 } {
            end_one();
            end_one_claimed_elsewhere();
            assert_eq!(HEAP.groups(), before, "an arena waits for a stopped thread");
        }
        STOP.release();
        other.join().unwrap();
    }
}

/// Starts a thread that allocates a value, sends it to `to` and exits. Waits for the exit.
fn claim_elsewhere(arena: &SharedArena<Kilobyte>, to: &Sender<ArenaBox<Kilobyte>>) {
    thread::scope(|scope| {
        // Without the `join`, `thread::scope` might return before the thread's exit guard has run.
        scope.spawn(|| to.send(arena.alloc([1; 1024])).unwrap()).join().unwrap();
    });
}

/// Drops an arena, and then its last value, which another thread allocated.
fn end_one_claimed_elsewhere() {
    let arena = SharedArena::<Kilobyte>::new();
    let (values, from) = channel();
    claim_elsewhere(&arena, &values);
    let value = from.recv().unwrap();
    drop(arena);
    drop(value);
}

/// A thread allocates one value in each of many arenas and sleeps. Another thread drops the arenas,
/// and then the values. All groups are freed while the first thread sleeps.
#[test]
fn conc_arenas_are_freed_while_the_owner_of_their_values_sleeps() {
    const ARENAS: usize = if cfg!(miri) { 5 } else { 1_000 };
    take_turn();
    let (to, from) = channel();
    let (wake, asleep) = channel::<()>();
    let (mut arenas, mut values) = (Vec::with_capacity(ARENAS), Vec::with_capacity(ARENAS));
    let owner = thread::spawn(move || {
        drop(SharedArena::<Kilobyte>::new().alloc([0; 1024]));
        for number in 0..ARENAS {
            let arena = SharedArena::<Kilobyte>::new();
            let value = arena.alloc([number as u8; 1024]);
            to.send((arena, value)).unwrap();
        }
        drop(to);
        let _ = Receiver::recv(&asleep);
    });
    for (arena, value) in &from {
        arenas.push(arena);
        values.push(value);
    }
    let (before, held) = (HEAP.groups(), HEAP.held());
    drop(arenas);
    assert!(HEAP.groups() >= before, "values keep their groups");
    // Drop the values in a pseudo-random order.
    let mut order = SplitMix::new(1);
    while !values.is_empty() {
        drop(values.swap_remove(order.below(values.len())));
    }
    let groups = HEAP.groups();
    let state = HEAP.held();
    wake.send(()).unwrap();
    owner.join().unwrap();
    assert_eq!(groups, 0, "groups wait for a sleeping thread");
    // The state of an arena takes about a kilobyte. The states of some arenas can stay until the
    // next drop of an arena.
    let stays = state.saturating_sub(HEAP.held());
    assert!(stays <= 16 << 10, "{stays} of {held} bytes stay for {ARENAS} arenas");
}

/// This thread has one value in each of many arenas. Another thread drops the arenas. Then a third
/// thread frees some of the values, and stops while it frees an arena during its visit to the bag
/// of this thread's record. Other threads free the remaining values and find the bag in use. The
/// third thread then serves the requests of all these threads.
#[test]
fn conc_arenas_freed_during_a_visit_to_the_bag_leave_no_memory() {
    const ARENAS: usize = if cfg!(miri) { 20 } else { 1_000 };
    const OTHERS: usize = if cfg!(miri) { 2 } else { 7 };
    take_turn();
    STOP.reset();
    drop(SharedArena::<Kilobyte>::new().alloc([0; 1024]));
    let (groups, held) = (HEAP.groups(), HEAP.held());
    let arenas: Vec<_> = (0..ARENAS).map(|_| SharedArena::<Kilobyte>::new()).collect();
    let values: Vec<_> = arenas.iter().map(|arena| arena.alloc([1; 1024])).collect();
    thread::spawn(move || drop(arenas)).join().unwrap();
    let values = Mutex::new(values);
    let free_values = || {
        let next = || values.lock().unwrap().pop();
        while let Some(value) = next() {
            drop(value);
        }
    };
    thread::scope(|scope| {
        let stopped = scope.spawn(|| {
            // Blocks with a smaller alignment than a group's belong to the state of an arena, which
            // is freed during a visit to the bag.
            HEAP.at_the_next_free(..GROUP, stop);
            free_values();
        });
        STOP.await_thread();
        let others = [(); OTHERS].map(|()| scope.spawn(free_values));
        others.into_iter().for_each(|other| other.join().unwrap());
        assert!(HEAP.groups() <= groups, "groups wait for the stopped thread");
        STOP.release();
        stopped.join().unwrap();
    });
    drop(values);
    // The test harness starts threads during the test, and their memory is part of this figure. The
    // state of an arena takes about a kilobyte.
    let stays = HEAP.held().saturating_sub(held);
    assert!(stays <= ARENAS * 256, "{stays} bytes of {ARENAS} arenas stay");
}

/// The global allocator drops the last value of an arena while the arena's drop returns a group to
/// the allocator.
#[test]
fn the_global_allocator_may_drop_a_value_during_the_drop_of_its_arena() {
    std::thread_local! {
        static VALUE: RefCell<Option<PoolBox<Kilobyte>>> = const { RefCell::new(None) };
        static SHARED: RefCell<Option<ArenaBox<Kilobyte>>> = const { RefCell::new(None) };
    }
    fn drop_value() {
        drop((VALUE.take(), SHARED.take()));
    }
    take_turn();
    let before = HEAP.held();
    // Successive rounds put the value into different groups. All other groups are empty.
    let (some, rounds) = if cfg!(miri) { (1, 1) } else { (4, 20) };
    for number in [70, 0, 200, 400][..some].repeat(rounds) {
        let pool = Pool::<Kilobyte>::new();
        let mut values: Vec<_> = (0..450).map(|_| pool.alloc([1; 1024])).collect();
        VALUE.set(Some(values.swap_remove(number)));
        drop(values);
        HEAP.at_the_next_free(GROUP.., drop_value);
        drop(pool);
        let arena = SharedArena::<Kilobyte>::new();
        let mut values: Vec<_> = (0..450).map(|_| arena.alloc([1; 1024])).collect();
        SHARED.set(Some(values.swap_remove(number)));
        drop(values);
        HEAP.at_the_next_free(GROUP.., drop_value);
        drop(arena);
        assert_eq!((HEAP.groups(), VALUE.take().is_some(), SHARED.take().is_some()), (0, false, false));
    }
    // The test harness starts threads during the test, and their memory is part of this figure. If
    // each round leaked a store, the figure would exceed the bound.
    let stays = HEAP.held().saturating_sub(before);
    assert!(stays <= 32 << 10, "{stays} bytes of stores are left");
}
