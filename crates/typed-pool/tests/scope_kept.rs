//! Tests of the units that many scopes in a row leave for the next scope, and of the moment when
//! these units are freed. No test trims before its check, except the test of trims.
#![cfg(all(feature = "std", target_has_atomic = "64"))]

extern crate alloc;

#[path = "support/scopes.rs"]
mod support;

use std::thread;

use allocator_api2::vec::Vec;
use typed_pool::{PooledAllocator, Scope};

use support::{alone, block, builder, held};

/// The number of scopes in a row that the tests run so that the heaps keep units.
const MANY: usize = if cfg!(miri) { 6 } else { 300 };

/// A number of scopes in a row after which the heaps do not keep units yet.
const FEW: usize = if cfg!(miri) { 3 } else { 200 };

/// The maximum size, in bytes, of the units that the scopes of a thread leave for the next scope.
const ROOM: usize = 2 << 20;

fn bytes(size: usize) -> Vec<u8, PooledAllocator> {
    Vec::with_capacity_in(size, PooledAllocator)
}

/// Binds a record to the thread, by an allocation outside of scopes.
fn bind_thread() {
    drop(bytes(100_000));
}

/// Returns a scope that allocated and freed blocks of these sizes.
fn used(sizes: &[usize]) -> Scope {
    let scope = builder().build();
    scope.run(|| drop(sizes.iter().map(|size| bytes(*size)).collect::<alloc::vec::Vec<_>>()));
    scope
}

/// Finishes a scope that allocated and freed blocks of these sizes. Returns the peak of the bytes
/// that it held.
fn visit(sizes: &[usize]) -> usize {
    let usage = used(sizes).finish();
    assert_eq!(usage.bytes_held, 0);
    usage.bytes_peak
}

/// Drops a scope that allocated and freed blocks of these sizes, so that the scope sets its fronts
/// aside. Returns the peak of the bytes that the scope held.
fn visit_and_drop(sizes: &[usize]) -> usize {
    used(sizes).usage().bytes_peak
}

/// Allocates blocks of these sizes in a scope, and checks that the scope then holds exactly the
/// kept units. Returns the blocks first, so that they are dropped before the scope.
fn next_scope_holds_what_was_kept<const N: usize>(
    sizes: [usize; N],
) -> ([Vec<u8, PooledAllocator>; N], Scope) {
    let kept = held();
    assert!(kept > 0 && kept <= ROOM, "{kept}");
    let scope = builder().limit(kept).build();
    assert_eq!(scope.usage().bytes_held, 0, "kept units count for no scope");
    let blocks = scope.run(|| sizes.map(bytes));
    assert_eq!((scope.usage().bytes_held, held()), (kept, kept), "the scope needs no other units");
    assert!(!scope.is_over_limit());
    (blocks, scope)
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
        drop(next_scope_holds_what_was_kept([10, 500, 3_000]));
    });
}

#[test]
fn units_that_scopes_do_not_use_are_freed_within_sixteen_scopes() {
    for visit in [visit, visit_and_drop] {
        alone(|| {
            bind_thread();
            (0..MANY).for_each(|_| _ = visit(&[10, 500, 3_000, 20_000]));
            let kept = held();
            let peaks = [(); 16].map(|()| visit(&[10]));
            assert!(peaks[0] < kept && held() == peaks[15], "{peaks:?} of {kept}: {}", held());
        });
    }
}

#[test]
#[cfg(not(miri))]
fn scopes_that_use_other_classes_in_turn_need_no_new_units() {
    alone(|| {
        bind_thread();
        let visits = (0..MANY + 32).map(|turn| {
            visit_and_drop(if turn % 2 == 0 { &[10, 3_000] } else { &[500] });
            held()
        });
        let held: alloc::vec::Vec<_> = visits.skip(MANY).collect();
        let most = held.iter().max();
        // Two of these scopes free the units that they did not use.
        let fewer = held.iter().filter(|&bytes| Some(bytes) != most).count();
        assert!(fewer <= 4, "{held:?}");
    });
}

#[test]
fn a_front_that_an_earlier_scope_left_counts_for_the_scope_that_allocates_from_it() {
    alone(|| {
        bind_thread();
        (0..MANY).for_each(|_| _ = visit_and_drop(&[10, 500, 3_000]));
        drop(next_scope_holds_what_was_kept([10, 500, 3_000]));
        let one = builder().limit(1).build();
        one.run(|| drop(bytes(10)));
        assert!(one.is_over_limit());
    });
}

#[test]
fn a_block_of_an_earlier_scope_in_the_front_is_not_reported_as_held() {
    alone(|| {
        bind_thread();
        (0..MANY).for_each(|_| _ = visit_and_drop(&[32]));
        let scope = builder().build();
        let mut early = scope.run(|| block(1));
        drop(scope);
        let scope = builder().build();
        scope.run(|| drop((block(2), block(3))));
        assert_ne!(scope.usage().bytes_held, 0, "the scope allocates from the unit of `early`");
        assert_eq!(scope.finish().bytes_held, 0);
        early[0] += 1;
        assert_eq!(early[0], 2);
        drop(early);
    });
}

#[test]
fn slots_that_are_freed_while_their_front_is_set_aside_are_allocated_again() {
    const BLOCKS: u64 = 20;
    alone(|| {
        bind_thread();
        (0..MANY).for_each(|_| _ = visit_and_drop(&[32]));
        let scope = builder().build();
        let blocks = || scope.run(|| (0..BLOCKS).map(block).collect::<alloc::vec::Vec<_>>());
        let (first, second) = (blocks(), blocks());
        drop(scope);
        let bytes = held();
        // The thread frees half of the blocks outside of scopes, and the other half in the next
        // scope.
        drop(first);
        let scope = builder().build();
        let again: alloc::vec::Vec<_> = scope.run(|| {
            drop(second);
            (0..2 * BLOCKS).map(block).collect()
        });
        assert!(again.iter().zip(0..).all(|(block, number)| block[0] == number));
        assert_eq!(scope.stats().slots_live, again.len());
        drop(again);
        assert_eq!(scope.stats().slots_live, 0);
        assert!(held() <= bytes, "{} of {bytes}", held());
    });
}

#[test]
fn slots_that_a_scope_frees_and_does_not_use_count_for_the_next_one() {
    alone(|| {
        bind_thread();
        (0..MANY).for_each(|_| _ = visit_and_drop(&[32]));
        let scope = builder().build();
        let mut escaped: alloc::vec::Vec<_> = scope.run(|| (0..60).map(block).collect());
        // These frees leave free slots in the front, which the scope sets aside. If such a slot
        // were lost, the unit would never be freed.
        scope.run(|| escaped.truncate(40));
        drop(scope);
        builder().build().run(|| drop(escaped));
        let scope = builder().build();
        let blocks: alloc::vec::Vec<_> = scope.run(|| (0..40).map(block).collect());
        assert_ne!(scope.usage().bytes_held, 0);
        drop(blocks);
    });
}

/// The sizes of many blocks of one class, more than fit in the first units of a heap.
static MANY_BLOCKS: [usize; if cfg!(miri) { 300 } else { 3_000 }] =
    [32; if cfg!(miri) { 300 } else { 3_000 }];

#[test]
fn a_class_that_scopes_stopped_using_starts_with_a_short_unit() {
    alone(|| {
        bind_thread();
        (0..MANY).for_each(|_| _ = visit_and_drop(&MANY_BLOCKS));
        (0..32).for_each(|_| _ = visit_and_drop(&[500]));
        let peak = visit_and_drop(&[32]);
        assert!(peak <= 4 << 10, "{peak}");
    });
}

#[test]
fn a_scope_at_its_limit_requests_a_short_unit_after_longer_ones() {
    alone(|| {
        bind_thread();
        (0..MANY).for_each(|_| _ = visit_and_drop(&MANY_BLOCKS));
        let scope = builder().build();
        let escaped = scope.run(|| block(1));
        drop(scope);
        // The remote free drains the heap, which then has no unit.
        drop(escaped);
        assert_eq!(held(), 0);
        let scope = builder().limit(4 << 10).build();
        scope.run(|| drop(block(1)));
        assert!(!scope.is_over_limit(), "{}", scope.usage());
    });
}

#[test]
fn the_last_free_of_a_block_in_a_front_set_aside_frees_the_unit() {
    alone(|| {
        bind_thread();
        (0..MANY).for_each(|_| _ = visit_and_drop(&[32, 500]));
        let scope = builder().build();
        let escaped = scope.run(|| (block(1), bytes(500)));
        drop(scope);
        assert_ne!(held(), 0);
        drop(escaped);
        assert_eq!(held(), 0);
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
        (0..MANY).for_each(|_| assert!(visit_and_drop(&sizes) > ROOM));
        assert!(held() <= ROOM, "{}", held());
    });
}

#[test]
fn conc_kept_units_are_freed_by_a_trim_and_when_their_thread_ends() {
    alone(|| {
        bind_thread();
        // This closure returns whether bytes are held in addition to the unit that the thread's own
        // heap keeps.
        let kept = |visit: fn(&[usize]) -> usize| {
            drop(block(1));
            let own = held();
            (0..MANY).for_each(|_| _ = visit(&[10, 500, 3_000]));
            held() > own
        };
        assert!(kept(visit));
        PooledAllocator.trim();
        assert_eq!(held(), 0, "the thread's own trim");
        let many = move || kept(visit_and_drop);
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

/// A thread without a record does not have an exit hook that would free the units.
#[test]
fn a_thread_without_a_record_keeps_no_units() {
    alone(|| {
        thread::spawn(|| (0..2 * MANY).for_each(|_| _ = visit(&[10, 500, 3_000]))).join().expect("no panic");
        assert_eq!(held(), 0);
    });
}
