//! The units that many scopes in a row leave for the next one, and when they are freed. No test
//! trims before it looks, except for the one that looks at trims.
#![cfg(all(feature = "std", target_has_atomic = "64"))]

extern crate alloc;

#[path = "support/scopes.rs"]
mod support;

use std::thread;

use allocator_api2::vec::Vec;
use typed_pool::PooledAllocator;

use support::{alone, block, builder, held};

/// More scopes in a row than heaps serve before they keep units.
const MANY: usize = if cfg!(miri) { 6 } else { 300 };

/// Fewer scopes than that.
const FEW: usize = if cfg!(miri) { 3 } else { 200 };

/// The most bytes that the heaps of a thread keep.
const ROOM: usize = 2 << 20;

fn bytes(size: usize) -> Vec<u8, PooledAllocator> {
    Vec::with_capacity_in(size, PooledAllocator)
}

/// Gives the thread a record, as its first allocation outside of scopes does.
fn bind_thread() {
    drop(bytes(100_000));
}

/// Ends a scope that allocated and freed blocks of these sizes. Returns the most bytes that it
/// held.
fn visit(sizes: &[usize]) -> usize {
    let scope = builder().build();
    scope.run(|| drop(sizes.iter().map(|size| bytes(*size)).collect::<alloc::vec::Vec<_>>()));
    let usage = scope.finish();
    assert_eq!(usage.bytes_held, 0);
    usage.bytes_peak
}

#[test]
fn scopes_keep_units_for_the_next_one_after_many_in_a_row() {
    alone(|| {
        bind_thread();
        (0..FEW).for_each(|_| {
            visit(&[10, 500, 3_000]);
            assert_eq!(held(), 0, "few scopes keep nothing");
        });
        (0..MANY).for_each(|_| _ = visit(&[10, 500, 3_000]));
        let kept = held();
        assert!(kept > 0 && kept <= ROOM, "{kept}");
        let scope = builder().limit(kept).build();
        assert_eq!(scope.usage().bytes_held, 0, "kept units count for no scope");
        let blocks = scope.run(|| [10, 500, 3_000].map(bytes));
        assert_eq!((scope.usage().bytes_held, held()), (kept, kept), "the scope needs no other units");
        assert!(!scope.is_over_limit());
        drop(blocks);
    });
}

#[test]
fn units_that_the_last_scope_did_not_use_are_freed() {
    alone(|| {
        bind_thread();
        (0..MANY).for_each(|_| _ = visit(&[10, 500, 3_000, 20_000]));
        let kept = held();
        let peak = visit(&[10]);
        assert!(peak < kept && held() == peak, "{peak} of {kept}: {}", held());
    });
}

#[test]
fn scopes_of_all_classes_keep_a_bounded_number_of_bytes() {
    let sizes: alloc::vec::Vec<_> =
        (1..120).step_by(if cfg!(miri) { 4 } else { 1 }).map(|number| number * 270).collect();
    alone(|| {
        bind_thread();
        (0..MANY).for_each(|_| assert!(visit(&sizes) > ROOM));
        assert!(held() <= ROOM, "{}", held());
    });
}

#[test]
fn conc_kept_units_are_freed_by_a_trim_and_when_their_thread_ends() {
    alone(|| {
        bind_thread();
        // Returns whether more is held than the unit that the thread's own heap keeps.
        let many = || {
            drop(block(1));
            let own = held();
            (0..MANY).for_each(|_| _ = visit(&[10, 500, 3_000]));
            held() > own
        };
        assert!(many());
        PooledAllocator.trim();
        assert_eq!(held(), 0, "the thread's own trim");
        assert!(many());
        PooledAllocator.trim_all();
        assert_eq!(held(), 0, "the trim of all threads");
        assert!(thread::spawn(many).join().expect("no panic"));
        assert_eq!(held(), 0, "the end of the thread");
    });
}

/// Such a thread has no exit hook that would free them.
#[test]
fn a_thread_without_a_record_keeps_no_units() {
    alone(|| {
        thread::spawn(|| (0..2 * MANY).for_each(|_| _ = visit(&[10, 500, 3_000]))).join().expect("no panic");
        assert_eq!(held(), 0);
    });
}
