//! Tests of scopes. The values name their allocator, so that Miri can run these tests.
//! `scope_global` has the tests of scopes under `PooledAllocator` as the global allocator.
#![cfg(all(feature = "std", target_has_atomic = "64"))]

extern crate alloc;

use core::panic::AssertUnwindSafe;
use std::panic::{catch_unwind, resume_unwind};
use std::sync::Barrier;
use std::sync::mpsc::channel;
use std::thread;

use allocator_api2::vec::Vec;
use typed_pool::{PooledAllocator, Scope, ScopeError};

#[path = "support/scopes.rs"]
mod support;

use support::{Block, alone, block, builder, held};

#[test]
fn blocks_of_a_closure_are_in_its_scope_and_its_end_frees_their_units() {
    alone(|| {
        let scope = builder().name("closure").build();
        assert_eq!(scope.usage().bytes_held, 0);
        let sum = scope.run(|| {
            let blocks: Vec<_, _> = (0..100).map(block).fold(Vec::new_in(PooledAllocator), |mut all, one| {
                all.push(one);
                all
            });
            blocks.iter().map(|block| block[3]).sum::<u64>()
        });
        assert_eq!(sum, 4_950);
        assert!(scope.usage().bytes_held > 0, "empty units stay until the end");
        assert_eq!(scope.usage().bytes_held, held());
        let usage = scope.finish();
        assert_eq!((usage.bytes_held, held()), (0, 0));
        assert!(usage.bytes_peak > 3_200 && usage.to_string().starts_with("closure: 0 bytes held"));
    });
}

#[test]
fn blocks_outside_are_not_in_a_scope() {
    alone(|| {
        let scope = builder().build();
        let outside = block(1);
        let inside = scope.run(|| block(2));
        let bytes = scope.usage().bytes_held;
        assert!(bytes > 0 && bytes < held());
        assert_eq!((outside[0], inside[0]), (1, 2));
        drop(inside);
        assert_eq!(scope.finish().bytes_held, 0);
        drop(outside);
    });
}

#[test]
fn an_escaped_block_keeps_its_unit_until_the_block_is_freed() {
    alone(|| {
        let scope = builder().build();
        let escaped = scope.run(|| {
            let before = block(1);
            let kept = block(7);
            drop(before);
            kept
        });
        let usage = scope.finish();
        assert_eq!(usage.bytes_held, held());
        assert!(usage.bytes_held > 0);
        assert_eq!(*escaped, [7; 4]);
        drop(escaped);
        // No thread trimmed in between.
        assert_eq!(held(), 0);
    });
}

#[test]
fn the_next_scope_allocates_from_units_that_escaped_blocks_keep() {
    alone(|| {
        let mut escaped = alloc::vec::Vec::new();
        for number in 0..if cfg!(miri) { 8 } else { 50 } {
            let scope = builder().build();
            let base = held();
            escaped.push(scope.run(|| {
                let garbage = block(number);
                assert_eq!(garbage[0], number);
                block(number)
            }));
            let usage = scope.usage();
            assert_eq!(usage.bytes_held, held() - base, "units of earlier scopes do not count");
        }
        assert!(PooledAllocator.stats().units <= 2, "{:?}", PooledAllocator.stats());
        assert!(escaped.iter().zip(0..).all(|(block, number)| **block == [number; 4]));
        drop(escaped);
        assert_eq!(held(), 0);
    });
}

#[test]
fn scopes_nest_and_each_block_is_in_the_innermost_one() {
    alone(|| {
        let (outer, inner) = (builder().build(), builder().build());
        let (first, second, third) = outer.run(|| {
            let first = block(1);
            let before = outer.usage().bytes_held;
            let second = inner.run(|| block(2));
            assert_eq!(outer.usage().bytes_held, before);
            assert_eq!(inner.usage().bytes_held, held() - before);
            // The thread enters the outer scope again from the inner one, so it leases another
            // record of the outer scope.
            let third = outer.run(|| block(3));
            (first, second, third)
        });
        assert_eq!((first[0], second[0], third[0]), (1, 2, 3));
        drop((first, second, third));
        assert_eq!((inner.finish().bytes_held, outer.finish().bytes_held, held()), (0, 0, 0));
    });
}

/// Enters `scope`, which the thread is in already, `depth` times, and allocates after each return.
/// Returns `depth`.
fn recurse(scope: &Scope, depth: usize) -> u64 {
    if depth == 0 {
        return 0;
    }
    let sum = scope.run(|| recurse(scope, depth - 1));
    let bytes = held();
    let here = block(1);
    assert_eq!(scope.usage().bytes_held, bytes, "the thread is still in the scope");
    sum + here[0]
}

#[test]
fn entering_the_scope_that_the_thread_is_in_needs_no_memory() {
    alone(|| {
        let scope = builder().build();
        scope.run(|| drop(block(0)));
        let state = PooledAllocator.stats().state_bytes;
        let depth = if cfg!(miri) { 10 } else { 1_000 };
        assert_eq!(scope.run(|| recurse(&scope, depth)), depth as u64);
        assert_eq!(PooledAllocator.stats().state_bytes, state);
        let outside = block(2);
        assert!(scope.usage().bytes_held < held() && outside[0] == 2);
        drop(outside);
        assert_eq!(scope.finish().bytes_held, 0);
    });
}

#[test]
fn a_panic_leaves_the_scope() {
    alone(|| {
        let scope = builder().build();
        let caught = catch_unwind(AssertUnwindSafe(|| {
            scope.run(|| {
                let _block = block(1);
                resume_unwind(alloc::boxed::Box::new(7_u8));
            });
        }));
        assert!(caught.is_err());
        let bytes = scope.usage().bytes_held;
        let outside = block(2);
        assert_eq!(scope.usage().bytes_held, bytes);
        let inside = scope.run(|| block(3));
        assert_eq!((outside[0], inside[0]), (2, 3));
        drop((inside, outside));
        assert_eq!(scope.finish().bytes_held, 0);
    });
}

#[test]
fn conc_threads_share_a_scope_and_free_each_others_blocks() {
    const THREADS: usize = if cfg!(miri) { 2 } else { 4 };
    const ROUNDS: u64 = if cfg!(miri) { 3 } else { 500 };
    alone(|| {
        let scope = builder().build();
        let barrier = Barrier::new(THREADS);
        thread::scope(|threads| {
            let (to, from) = channel::<Block>();
            for number in 0..THREADS as u64 {
                let (to, handle, barrier) = (to.clone(), scope.handle(), &barrier);
                threads.spawn(move || {
                    barrier.wait();
                    for round in 0..ROUNDS {
                        let (sent, kept) = handle.run(|| (block(number), block(round)));
                        to.send(sent).expect("received");
                        handle.run(|| assert_eq!(*kept, [round; 4]));
                        drop(kept);
                    }
                });
            }
            drop(to);
            let sum: u64 = from.iter().map(|block| block[3]).sum();
            assert_eq!(sum, ROUNDS * (0..THREADS as u64).sum::<u64>());
        });
        assert_eq!(scope.finish().bytes_held, 0);
    });
}

#[test]
fn conc_blocks_of_a_suspended_scope_are_freed_by_another_thread() {
    alone(|| {
        let scope = builder().build();
        let blocks = scope.run(|| (0..70).map(block).collect::<alloc::vec::Vec<_>>());
        let bytes = scope.usage().bytes_held;
        assert!(bytes > 0);
        thread::spawn(move || drop(blocks)).join().expect("no panic");
        assert_eq!((scope.usage().bytes_held, held()), (0, 0), "no thread is in the scope");
        assert_eq!(*scope.run(|| block(5)), [5; 4]);
    });
}

#[test]
fn conc_a_scope_ends_while_another_thread_frees_its_blocks() {
    alone(|| {
        for round in 0..if cfg!(miri) { 2 } else { 100 } {
            let scope = builder().build();
            let (first, second) = scope.run(|| (block(round), block(round)));
            let other = thread::spawn(move || drop(first));
            let usage = scope.finish();
            assert!(usage.bytes_held > 0, "a block is alive");
            drop(second);
            other.join().expect("no panic");
            assert_eq!(held(), 0);
        }
    });
}

#[test]
fn a_scope_outlives_the_thread_that_used_it() {
    alone(|| {
        let scope = builder().build();
        let handle = scope.handle();
        let kept = thread::spawn(move || handle.run(|| block(4))).join().expect("no panic");
        let more = scope.run(|| block(5));
        assert_eq!((kept[0], more[0]), (4, 5));
        drop((kept, more));
        assert_eq!(scope.finish().bytes_held, 0);
    });
}

#[test]
fn handles_keep_a_scope_alive() {
    alone(|| {
        let scope = builder().build();
        let handle = scope.handle();
        drop(scope);
        let kept = handle.run(|| block(1));
        assert!(handle.usage().bytes_held > 0);
        drop((kept, handle));
        assert_eq!(held(), 0);
    });
}

#[test]
fn many_scopes_are_alive_at_once() {
    const SCOPES: u64 = if cfg!(miri) { 3 } else { 500 };
    alone(|| {
        let scopes: alloc::vec::Vec<_> = (0..SCOPES).map(|_| builder().build()).collect();
        let blocks: alloc::vec::Vec<_> =
            scopes.iter().zip(0..).map(|(scope, number)| scope.run(|| block(number))).collect();
        assert!(scopes.iter().all(|scope| scope.usage().bytes_held > 0));
        assert!(blocks.iter().zip(0..).all(|(block, number)| **block == [number; 4]));
        drop((blocks, scopes));
        assert_eq!(held(), 0);
        let state = PooledAllocator.stats().state_bytes;
        let again: alloc::vec::Vec<_> = (0..SCOPES).map(|_| builder().build()).collect();
        again.iter().for_each(|scope| scope.run(|| drop(block(1))));
        assert_eq!(PooledAllocator.stats().state_bytes, state, "heaps of ended scopes are reused");
    });
}

#[test]
fn building_a_scope_fails_under_another_global_allocator() {
    alone(|| {
        let error = Scope::builder().try_build().expect_err("the global allocator is the system's");
        assert_eq!(error, ScopeError::NotGlobal);
        assert!(catch_unwind(|| Scope::builder().build()).is_err());
    });
}
