//! Arenas that end before their values: what is held meanwhile, and that nobody waits for anybody.
#![cfg(feature = "std")]

extern crate alloc;

#[path = "support/heap.rs"]
mod heap;
#[path = "support/turn.rs"]
mod turn;

use core::cell::RefCell;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use heap::Heap;
use shared_arena::{ArenaBox, Pool, PoolBox, SharedArena};
use turn::turn;

#[global_allocator]
static HEAP: Heap = Heap::new();

/// 64 KiB a group.
type Kilobyte = [u8; 1024];

/// One arena with one value, which goes after the arena.
fn end_one() {
    let arena = SharedArena::<Kilobyte>::new();
    let value = arena.alloc([1; 1024]);
    drop(arena);
    drop(value);
}

/// Every thread has one arena at a time, so that eight groups are alive at most. Whatever is held beyond that waits for a thread
/// that works for the others.
#[test]
fn conc_arenas_dropped_before_their_values_hold_no_more_than_is_alive() {
    const THREADS: usize = if cfg!(miri) { 3 } else { 8 };
    const ROUNDS: usize = if cfg!(miri) { 5 } else { 10_000 };
    let _turn = turn();
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

/// One thread stands still while it frees a group, as a thread of the parent does for ever in a forked child. All other arenas end
/// as if it were not there.
#[test]
fn conc_a_thread_that_stands_still_in_the_end_of_an_arena_holds_up_no_other() {
    static STANDS: AtomicBool = AtomicBool::new(false);
    static GOES_ON: AtomicBool = AtomicBool::new(false);
    fn stand() {
        STANDS.store(true, SeqCst);
        while !GOES_ON.load(SeqCst) {
            thread::yield_now();
        }
    }
    let _turn = turn();
    for sent in [false, true] {
        STANDS.store(false, SeqCst);
        GOES_ON.store(false, SeqCst);
        let (values, from) = channel();
        let arena = SharedArena::<Kilobyte>::new();
        if sent {
            values.send(arena.alloc([1; 1024])).unwrap();
        } else {
            claim_abroad(&arena, &values);
        }
        let before = HEAP.groups();
        let other = thread::spawn(move || {
            let value: ArenaBox<Kilobyte> = from.recv().unwrap();
            drop(arena);
            HEAP.at_the_next_group(stand);
            drop(value);
        });
        while !STANDS.load(SeqCst) {
            thread::yield_now();
        }
        for _ in 0..if cfg!(miri) { 3 } else { 300 } {
            end_one();
            end_abroad();
            assert_eq!(HEAP.groups(), before, "an arena waits for a thread that stands still");
        }
        GOES_ON.store(true, SeqCst);
        other.join().unwrap();
    }
}

/// Has another thread claim a value, and waits for its very end: a scope alone does not wait for what a thread does as it ends.
fn claim_abroad(arena: &SharedArena<Kilobyte>, to: &Sender<ArenaBox<Kilobyte>>) {
    thread::scope(|scope| {
        let claims = scope.spawn(|| to.send(arena.alloc([1; 1024])).unwrap());
        claims.join().unwrap();
    });
}

/// One arena of which another thread owns the value that goes last.
fn end_abroad() {
    let arena = SharedArena::<Kilobyte>::new();
    let (values, from) = channel();
    claim_abroad(&arena, &values);
    let value = from.recv().unwrap();
    drop(arena);
    drop(value);
}

/// A thread claims one value in each of many arenas and sleeps. Others drop the arenas, and after them the values: nothing stays,
/// whatever the thread does.
#[test]
fn conc_arenas_end_while_the_owner_of_their_values_sleeps() {
    const ARENAS: usize = if cfg!(miri) { 5 } else { 1_000 };
    let _turn = turn();
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
    // In no order.
    let mut order = 1_usize;
    while !values.is_empty() {
        order = order.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        drop(values.swap_remove((order >> 33) % values.len()));
    }
    let groups = HEAP.groups();
    let state = HEAP.held();
    wake.send(()).unwrap();
    owner.join().unwrap();
    assert_eq!(groups, 0, "groups wait for a thread that sleeps");
    // Each arena's own state is about a kilobyte: a few may wait for the next end of an arena.
    let stays = state.saturating_sub(HEAP.held());
    assert!(stays <= 16 << 10, "{stays} of {held} bytes stay for {ARENAS} arenas");
}

/// The heap drops the last value of a pool while that very pool gives a group back to it.
#[test]
fn a_heap_may_drop_a_value_of_the_pool_that_is_being_dropped() {
    std::thread_local! {
        static VALUE: RefCell<Option<PoolBox<Kilobyte>>> = const { RefCell::new(None) };
        static SHARED: RefCell<Option<ArenaBox<Kilobyte>>> = const { RefCell::new(None) };
    }
    fn drop_value() {
        drop((VALUE.take(), SHARED.take()));
    }
    let _turn = turn();
    let before = HEAP.held();
    // The value lies in each of the groups once, the others are empty: before it, and after it.
    let rounds = if cfg!(miri) { 1 } else { 20 };
    for number in [0, 70, 200, 400].repeat(rounds) {
        let pool = Pool::<Kilobyte>::new();
        let mut values: Vec<_> = (0..450).map(|_| pool.alloc([1; 1024])).collect();
        VALUE.set(Some(values.swap_remove(number)));
        drop(values);
        HEAP.at_the_next_group(drop_value);
        drop(pool);
        let arena = SharedArena::<Kilobyte>::new();
        let mut values: Vec<_> = (0..450).map(|_| arena.alloc([1; 1024])).collect();
        SHARED.set(Some(values.swap_remove(number)));
        drop(values);
        HEAP.at_the_next_group(drop_value);
        drop(arena);
        assert_eq!((HEAP.groups(), VALUE.take().is_some(), SHARED.take().is_some()), (0, false, false));
    }
    // The harness starts threads meanwhile. A store that stays in each round is more.
    let stays = HEAP.held().saturating_sub(before);
    assert!(stays <= 32 << 10, "stores stay: {stays} bytes");
}
