//! Tests that bugs of similar crates do not occur in this crate. Each test names the report of the
//! bug.
//!
//! Other files test the following bugs. `handles`: `Send` and `Sync` without bounds
//! (RUSTSEC-2020-0142, lockfree-object-pool 1). `panics`: a panicking initialiser and a panicking
//! destructor (the published crate). `threads`: two boxes on two threads (the published crate).
//! `refused`: a drop that allocates (bumpalo-herd 17).
#![cfg(feature = "std")]

extern crate alloc;

#[path = "support/tally.rs"]
mod tally;

use alloc::sync::Arc;
use core::cell::RefCell;
use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Mutex;

use shared_arena::{Arena, ArenaArc, ArenaBox, Pool, SharedArena, Weak};
use tally::{Counted, Tally};

/// Compaction freed one page too many, and this page had values in use.
#[test]
fn tokio_3019_shrinking_frees_no_page_in_use() {
    let tally = Tally::default();
    let (arena, pool) = (SharedArena::new(), Pool::new());
    let count = if cfg!(miri) { 200 } else { 5_000 };
    let mut boxes: Vec<_> = (0..count).map(|number| Some(arena.alloc(tally.value(number)))).collect();
    let mut pooled: Vec<_> = (0..count).map(|number| Some(pool.alloc(tally.value(number)))).collect();
    for stride in [2, 5, 64, 63, 7] {
        for number in (stride..count).step_by(stride + 1) {
            boxes[number] = None;
            pooled[count - number] = None;
        }
        arena.shrink_to_fit();
        pool.shrink_to_fit();
        for number in 0..count {
            assert!(boxes[number].as_ref().is_none_or(|value| value.number() == number));
            assert!(pooled[number].as_ref().is_none_or(|value| value.number() == number));
        }
        // A freed slot is claimed again, and only once.
        let alive = tally.alive();
        let more: Vec<_> = (0..100).map(|number| (arena.alloc(tally.value(number)), number)).collect();
        assert!(more.iter().all(|(value, number)| value.number() == *number));
        drop(more);
        assert_eq!(tally.alive(), alive);
    }
}

/// The pointer to a zero-sized value was not aligned.
#[test]
fn heapless_235_zero_sized_values_are_aligned() {
    #[repr(align(64))]
    struct Aligned;
    let (arena, pool) = (Arena::new(), Pool::new());
    let boxes: Vec<ArenaBox<Aligned>> = (0..10).map(|_| arena.alloc(Aligned)).collect();
    let pooled: Vec<_> = (0..10).map(|_| pool.alloc_rc(Aligned)).collect();
    assert!(boxes.iter().all(|value| (&raw const **value).addr() % 64 == 0));
    assert!(pooled.iter().all(|value| (&raw const **value).addr() % 64 == 0));
}

/// A free list with compare-and-swap handed one slot to two threads (heapless 315 and 180, Odin
/// 6822, rpmalloc 32).
#[test]
fn conc_aba_no_slot_has_two_owners() {
    let arena = Arc::new(SharedArena::new());
    let exchange = Arc::new(Mutex::new(Vec::<ArenaBox<(usize, usize)>>::new()));
    let rounds = if cfg!(miri) { 30 } else { 20_000 };
    let threads = [1, 2, 3].map(|thread| {
        let (arena, exchange) = (Arc::clone(&arena), Arc::clone(&exchange));
        std::thread::spawn(move || {
            for round in 0..rounds {
                let mut value = arena.alloc((thread, round));
                let theirs = exchange.lock().unwrap().pop();
                assert_eq!(*value, (thread, round), "another thread wrote to the value");
                value.1 += 1;
                drop(theirs);
                assert_eq!(*value, (thread, round + 1), "another thread wrote to the value");
                if round % 2 == 0 {
                    exchange.lock().unwrap().push(value);
                }
            }
        })
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    exchange.lock().unwrap().clear();
    assert_eq!(arena.stats().0, 0);
}

/// A copy of a handle was not counted (RUSTSEC-2026-0143), or values were dropped twice after a
/// panic (RUSTSEC-2021-0040).
#[test]
fn rustsec_2021_0040_a_panic_drops_nothing_twice() {
    struct Panics(Counted);
    impl Drop for Panics {
        fn drop(&mut self) {
            self.0.number();
            std::panic::resume_unwind(Box::new("a destructor panicked"));
        }
    }
    let tally = Tally::default();
    let (arena, pool) = (SharedArena::new(), Pool::new());
    let arc = arena.alloc_arc(Panics(tally.value(1)));
    let clones: Vec<_> = (0..5).map(|_| arc.clone()).collect();
    drop(arc);
    assert_eq!(tally.alive(), 1);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(clones))).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| drop(pool.alloc_rc(Panics(tally.value(2)))))).is_err());
    assert_eq!((tally.alive(), arena.stats().0, pool.stats().0), (0, 0, 0));
}

/// The counts were updated only after the destructor had run, so the destructor saw outdated counts
/// (RUSTSEC-2026-0256).
#[test]
fn rustsec_2026_0256_destructors_see_current_counts() {
    struct Selfish {
        own: RefCell<Option<Weak<Selfish>>>,
        _tally: Counted,
    }
    impl Drop for Selfish {
        fn drop(&mut self) {
            let own = self.own.borrow_mut().take().expect("the value has a weak handle to itself");
            assert_eq!(own.strong_count(), 0);
            assert!(own.upgrade().is_none(), "a value that is being dropped cannot be upgraded");
        }
    }
    let tally = Tally::default();
    let arena = Arena::new();
    let arc = arena.alloc_arc(Selfish { own: RefCell::new(None), _tally: tally.value(1) });
    *arc.own.borrow_mut() = Some(ArenaArc::downgrade(&arc));
    drop(arc);
    assert_eq!((tally.alive(), arena.stats().0), (0, 0));
}

/// A pool wrote to its memory after its blocks were freed (hrx-system 25). In this test, one value
/// of the arena owns another value of the arena, and the drop of the outer value frees the arena.
#[test]
fn hrx_system_25_the_last_value_frees_the_arena_around_it() {
    struct Nested {
        _inner: Option<ArenaBox<Nested>>,
        _tally: Counted,
    }
    let tally = Tally::default();
    let arena = SharedArena::new();
    let inner = arena.alloc(Nested { _inner: None, _tally: tally.value(1) });
    let outer = arena.alloc(Nested { _inner: Some(inner), _tally: tally.value(2) });
    drop(arena);
    drop(outer);
    assert_eq!((tally.alive(), shared_arena::reclaim()), (0, 0));
}
