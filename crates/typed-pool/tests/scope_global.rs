//! Tests of scopes in a program whose global allocator is `PooledAllocator`.
//!
//! The tests run in parallel on purpose, because allocations of other threads must not count. Miri
//! does not run them, for the reason that `tests/global.rs` gives.
#![cfg(all(feature = "std", target_has_atomic = "64", not(miri)))]

extern crate alloc;

use alloc::collections::BTreeMap;
use core::cell::RefCell;
use core::hint::black_box;
use std::panic::catch_unwind;
use std::sync::mpsc::channel;
use std::thread;

use typed_pool::{Counts, PooledAllocator, Scope, Usage, measure};

#[global_allocator]
static HEAP: PooledAllocator = PooledAllocator;

fn counts(usage: &Usage) -> Counts {
    usage.counts.expect("`measure` counts")
}

/// Joins the words, with a space after each. The functions below test that this function allocates
/// only once.
fn join(words: &[&str], reserve: bool) -> String {
    let len = words.iter().map(|word| word.len() + 1).sum();
    let mut text = if reserve { String::with_capacity(len) } else { String::new() };
    for word in words {
        text.push_str(word);
        text.push(' ');
    }
    text
}

/// A test as a user would write it: it fails if `join` allocates more than once.
fn join_allocates_once(reserve: bool) {
    let usage = measure(|| join(&["exact", "counts", "of one closure"], reserve));
    assert_eq!(counts(&usage).allocations, 1, "{usage}");
}

#[test]
fn a_test_with_measure_fails_if_one_allocation_too_many_is_made() {
    join_allocates_once(true);
    let failed = catch_unwind(|| join_allocates_once(false));
    assert!(failed.is_err(), "the string grew, so there is more than one allocation");
}

/// Allocates `blocks` blocks, frees all but the last one at once, and returns that one.
fn known_blocks(blocks: usize) -> Vec<u8> {
    for number in 1..blocks {
        drop(black_box(vec![number as u8; 100]));
    }
    vec![7; 100]
}

fn check_exact(rounds: usize) {
    for round in 1..=rounds {
        let usage = measure(|| known_blocks(round));
        let counted = counts(&usage);
        assert_eq!((counted.allocations, counted.frees), (round, round), "{usage}");
        assert_eq!((counted.bytes, counted.bytes_live_peak, counted.bytes_live), (round * 112, 112, 0));
    }
}

// Each of the next two tests runs in parallel with the other tests, whose blocks it must not count.
#[test]
fn conc_measure_is_exact_beside_other_tests_1() {
    check_exact(200);
}

#[test]
fn conc_measure_is_exact_beside_other_tests_2() {
    check_exact(200);
}

#[test]
fn conc_measure_is_exact_beside_threads_that_allocate() {
    thread::scope(|threads| {
        let (stop, stopped) = channel::<()>();
        threads.spawn(move || {
            while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                black_box((0..50).map(|number| vec![number; 12]).collect::<Vec<_>>());
            }
        });
        check_exact(100);
        drop(stop);
    });
}

#[test]
fn measure_counts_containers() {
    let usage = measure(|| (0..1_000).map(|number| (number, number.to_string())).collect::<BTreeMap<_, _>>());
    let counted = counts(&usage);
    assert!(counted.allocations > 1_000 && counted.frees == counted.allocations, "{usage}");
    assert_eq!((counted.bytes_live, usage.bytes_held), (0, 0));
    let nothing = measure(|| 7);
    assert_eq!((counts(&nothing).allocations, nothing.bytes_peak), (0, 0));
}

#[test]
fn nested_measures_count_their_own_blocks() {
    let mut inner = None;
    let outer = measure(|| {
        let first = vec![1_u8; 10];
        inner = Some(measure(|| vec![2_u8; 10]));
        first
    });
    assert_eq!(counts(&outer).allocations, 1, "{outer}");
    assert_eq!(counts(&inner.expect("it ran")).allocations, 1);
}

#[test]
fn unchanged_code_runs_in_a_scope_and_its_answer_escapes() {
    let cache: Vec<String> = (0..200)
        .map(|number| {
            let scope = Scope::builder().name("request").limit(1 << 20).build();
            let kept = scope.run(|| {
                let words: BTreeMap<_, _> = (0..100).map(|word| (word, vec![word as u8; word])).collect();
                format!("{number}: {}", words.len())
            });
            assert!(!scope.is_over_limit());
            assert!(scope.finish().bytes_peak < 1 << 20);
            kept
        })
        .collect();
    assert!(cache.iter().enumerate().all(|(number, text)| *text == format!("{number}: 100")));
}

#[test]
fn a_scope_serves_a_thread_that_owns_no_heap_and_one_that_is_ending() {
    struct Late(Option<Scope>);
    impl Drop for Late {
        fn drop(&mut self) {
            let scope = self.0.take().expect("set below");
            let kept = scope.run(|| vec![5_u8; 1_000]);
            assert!(scope.usage().bytes_held > 0);
            drop(scope);
            assert_eq!(kept[999], 5);
        }
    }
    thread_local! {
        static LATE: RefCell<Late> = const { RefCell::new(Late(None)) };
    }
    for _ in 0..20 {
        thread::spawn(|| {
            // The destructor may run after the exit hook of the allocator.
            LATE.with(|late| late.borrow_mut().0 = Some(Scope::builder().build()));
            drop(black_box(vec![1_u8; 100]));
        })
        .join()
        .expect("no panic");
    }
}

#[test]
fn threads_that_a_closure_starts_are_outside_unless_they_have_a_handle() {
    let scope = Scope::builder().counting().build();
    let handle = scope.handle();
    let before = |scope: &Scope| counts(&scope.usage()).allocations;
    let outside = scope.run(|| {
        let started = before(&scope);
        // Starting a thread takes a few allocations of this thread. The new thread makes far more.
        let work = || (0..1_000).for_each(|_| drop(black_box(vec![1_u8; 300])));
        thread::scope(|threads| threads.spawn(work).join().expect("no panic"));
        before(&scope) - started < 50
    });
    assert!(outside);
    let allocations = before(&scope);
    thread::spawn(move || handle.run(|| drop(black_box(vec![1_u8; 300])))).join().expect("no panic");
    assert_eq!(before(&scope), allocations + 1);
}

/// The maximum size, in bytes, of the state that a scope adds: a table of 44 heaps, its record and
/// its ledger.
const STATE_OF_A_SCOPE: usize = 24 << 10;

/// The number of scopes that the other tests of this program may start during the test below.
const OTHERS: usize = 200;

#[test]
fn ten_thousand_scopes_are_alive_at_once_with_one_table_each() {
    // AddressSanitizer adds a lot of memory to each scope, so the test starts fewer of them under
    // it.
    let count = if cfg!(ephemera_poison = "asan") { 500 } else { 10_000 };
    let state = || HEAP.stats().state_bytes;
    let mut bound = state() + (count + OTHERS) * STATE_OF_A_SCOPE;
    for _ in 0..2 {
        let scopes: Vec<_> = (0..count).map(|_| Scope::builder().build()).collect();
        let kept: Vec<_> = scopes.iter().enumerate().map(|(at, scope)| scope.run(|| Box::new(at))).collect();
        assert!(kept.iter().enumerate().all(|(at, kept)| **kept == at));
        // Check `live`, not `bytes_held`: a block may be in a unit that an earlier scope left,
        // which need not count for the new scope.
        assert!(scopes.iter().all(|scope| scope.stats().live() > 0));
        drop(kept);
        assert!(scopes.into_iter().all(|scope| scope.finish().bytes_held == 0));
        assert!(state() <= bound);
        // The next scopes reuse the heaps.
        bound = state() + OTHERS * STATE_OF_A_SCOPE;
    }
}

#[test]
#[cfg(unix)]
fn a_child_that_is_forked_inside_a_scope_leaves_and_ends_it() {
    use ephemera_testkit::fork::holds_in_a_child;

    let (go, turns) = channel::<()>();
    let shared = Scope::builder().build();
    let handle = shared.handle();
    // The other thread is in the shared scope, and does not exist in the child.
    let other = thread::spawn(move || {
        handle.run(|| {
            let kept = vec![1_u8; 500];
            turns.recv().expect("the test asks");
            kept.len()
        })
    });
    while shared.usage().bytes_held == 0 {
        thread::yield_now();
    }
    let right = {
        let scope = Scope::builder().build();
        let shared = &shared;
        scope.run(|| {
            let before = vec![3_u8; 2_000];
            holds_in_a_child(|| {
                let more = vec![4_u8; 2_000];
                let right = before[1_999] == 3 && more[1_999] == 4 && scope.usage().bytes_held > 0;
                let next = Scope::builder().build();
                let kept = next.run(|| vec![5_u8; 100]);
                let ended = next.finish().bytes_held > 0;
                let both = shared.run(|| vec![6_u8; 100]);
                right && ended && kept[99] == 5 && both[99] == 6
            })
        })
    };
    go.send(()).expect("the other thread waits");
    assert_eq!(other.join().expect("no panic"), 500);
    assert!(right);
}
