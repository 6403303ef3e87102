//! Tests that a block counts for the scope that allocated it, wherever and whenever it is freed.
#![cfg(all(feature = "std", target_has_atomic = "64"))]

extern crate alloc;

#[path = "support/scopes.rs"]
mod support;

use std::thread;

use allocator_api2::vec::Vec;
use typed_pool::{Counts, PooledAllocator, Scope};

use support::{Block, alone, block, builder, held};

type Bytes = Vec<u8, PooledAllocator>;

fn bytes(size: usize) -> Bytes {
    Bytes::with_capacity_in(size, PooledAllocator)
}

fn counts(scope: &Scope) -> Counts {
    scope.usage().counts.expect("it counts")
}

/// Starts a scope, leaves `blocks` blocks of 16 KiB in units of its heaps, and ends the scope.
fn leave_units(blocks: usize) -> alloc::vec::Vec<Bytes> {
    let scope = builder().build();
    let left = scope.run(|| (0..blocks).map(|_| bytes(16 << 10)).collect());
    assert!(scope.finish().bytes_held >= blocks * (16 << 10));
    left
}

#[test]
fn units_of_earlier_scopes_that_are_freed_do_not_raise_the_limit() {
    const LIMIT: usize = 1 << 20;
    alone(|| {
        let left = leave_units(200);
        let scope = builder().limit(LIMIT).build();
        scope.run(|| {
            drop(left);
            let mut own = alloc::vec::Vec::new();
            while scope.usage().bytes_held <= LIMIT {
                assert!(!scope.is_over_limit());
                own.push(bytes(16 << 10));
                assert!(own.len() < 200, "{:?}", scope.usage());
            }
            assert!(scope.is_over_limit());
        });
        assert!(scope.usage().bytes_peak > LIMIT);
        assert_eq!(scope.finish().bytes_held, 0);
    });
}

#[test]
fn units_of_earlier_scopes_that_are_freed_do_not_lower_the_figures() {
    alone(|| {
        let left = leave_units(50);
        let others = held();
        let scope = builder().build();
        let own = scope.run(|| [(); 80].map(|()| bytes(5_000)));
        let usage = scope.usage();
        assert_eq!(usage.bytes_held, held() - others);
        thread::spawn(move || drop(left)).join().expect("no panic");
        assert_eq!((scope.usage(), held()), (usage, usage.bytes_held));
        drop(own);
        assert_eq!(scope.finish().bytes_held, 0);
    });
}

#[test]
fn conc_units_of_earlier_scopes_are_freed_while_scopes_begin() {
    alone(|| {
        let rounds = if cfg!(miri) { 3 } else { 300 };
        let mut left: Option<Block> = None;
        for number in 0..rounds {
            let freeing = thread::spawn(move || drop(left));
            let scope = builder().build();
            let kept = scope.run(|| block(number));
            freeing.join().expect("no panic");
            let usage = scope.finish();
            assert!(usage.bytes_held <= held(), "{usage}");
            assert!(usage.bytes_peak <= 2 * (32 << 10), "{usage}");
            left = Some(kept);
        }
    });
}

#[test]
fn counting_scopes_with_an_escaped_block_each_reuse_the_same_heaps() {
    const SCOPES: u64 = if cfg!(miri) { 20 } else { 1_000 };
    alone(|| {
        drop(builder().counting().build().run(|| block(0)));
        let state = PooledAllocator.stats().state_bytes;
        let mut escaped = alloc::vec::Vec::new();
        for number in 0..SCOPES {
            let scope = builder().counting().build();
            let before = held();
            escaped.push(scope.run(|| {
                drop(block(number));
                block(number)
            }));
            let counted = counts(&scope);
            assert_eq!((counted.allocations, counted.frees, counted.bytes_live), (2, 1, 32));
            assert_eq!(scope.usage().bytes_held, held() - before);
        }
        assert_eq!(PooledAllocator.stats().state_bytes, state);
        assert!(escaped.iter().zip(0..).all(|(block, number)| **block == [number; 4]));
        // A later scope counts none of these frees, on any thread.
        let scope = builder().counting().build();
        let rest = escaped.split_off(escaped.len() / 2);
        scope.run(|| drop(escaped));
        thread::spawn(move || drop(rest)).join().expect("no panic");
        assert_eq!((counts(&scope).frees, counts(&scope).bytes_live, scope.usage().bytes_held), (0, 0, 0));
        drop(scope);
        assert_eq!(held(), 0, "the units of the earlier scopes are freed");
    });
}

#[test]
fn a_counting_scope_allocates_from_no_unit_of_an_earlier_one() {
    alone(|| {
        let first = builder().counting().build();
        let kept = first.run(|| [(); 100].map(|()| block(1)));
        drop(first);
        for _ in 0..3 {
            let next = builder().counting().build();
            let own = next.run(|| [(); 100].map(|()| block(2)));
            assert_eq!(counts(&next).allocations, 100);
            drop(own);
            assert_eq!((counts(&next).frees, counts(&next).bytes_live), (100, 0));
            // The free slots in the units of the first scope stay unused.
            assert_eq!(next.finish().bytes_held, 0);
        }
        assert!(kept.iter().all(|block| block[0] == 1));
    });
}

#[test]
fn a_counting_scope_counts_no_blocks_of_earlier_ones() {
    alone(|| {
        let large = bytes(1 << 20);
        let first = builder().counting().build();
        let escaped = first.run(|| {
            drop(large);
            (block(1), bytes(100_000))
        });
        assert_eq!((counts(&first).allocations, counts(&first).frees), (2, 0));
        drop(first);
        let next = builder().counting().build();
        let kept = next.run(|| block(2));
        drop(escaped);
        let counted = counts(&next);
        assert_eq!((counted.allocations, counted.frees, counted.bytes_live), (1, 0, 32));
        drop(kept);
    });
}

#[test]
fn a_large_block_from_outside_that_is_freed_inside_does_not_raise_the_limit() {
    alone(|| {
        let scope = builder().limit(1_000_000).build();
        let body = bytes(10_000_000);
        scope.run(|| {
            let first = bytes(600_000);
            drop(body);
            assert_eq!(scope.usage().bytes_held, 600_000);
            assert!(!scope.is_over_limit());
            let second = bytes(600_000);
            assert!(scope.is_over_limit());
            drop((first, second));
        });
        assert_eq!((scope.usage().bytes_held, scope.usage().bytes_peak), (0, 1_200_000));
    });
}

#[test]
fn conc_a_scope_that_hands_large_blocks_to_others_is_not_marked() {
    alone(|| {
        let (scope, other) = (builder().limit(1_000_000).build(), builder().build());
        for round in 0..if cfg!(miri) { 12 } else { 300 } {
            let [first, second, third] = scope.run(|| [(); 3].map(|()| bytes(100_000)));
            assert_eq!(scope.usage().bytes_held, 300_000, "round {round}");
            drop(first);
            other.run(|| drop(second));
            thread::spawn(move || drop(third)).join().expect("no panic");
            assert_eq!((scope.usage().bytes_held, other.usage().bytes_peak), (0, 0));
        }
        assert!(!scope.is_over_limit());
    });
}

#[test]
fn conc_counts_of_large_blocks_that_are_freed_elsewhere_are_exact() {
    alone(|| {
        let scope = builder().counting().build();
        let sizes = [32_769, 100_000, 1 << 20, (1 << 20) + 1, 3 << 20];
        let sum: usize = sizes.iter().sum();
        let large = scope.run(|| sizes.map(bytes));
        let counted = counts(&scope);
        assert_eq!((counted.allocations, counted.bytes, counted.bytes_live), (5, sum, sum));
        thread::spawn(move || drop(large)).join().expect("no panic");
        let counted = counts(&scope);
        assert_eq!((counted.frees, counted.bytes_live, counted.bytes_live_peak), (5, 0, sum));
        assert_eq!(scope.usage().bytes_held, 0);
    });
}

#[test]
fn a_large_block_that_grows_counts_for_the_scope_in_which_it_grows() {
    alone(|| {
        let [first, second] = [(); 2].map(|()| builder().counting().build());
        let mut large = first.run(|| bytes(100_000));
        first.run(|| large.reserve_exact(150_000));
        let counted = counts(&first);
        assert_eq!((counted.allocations, counted.bytes, counted.frees), (1, 150_000, 0));
        second.run(|| large.reserve_exact(3_000_000));
        let (old, new) = (counts(&first), counts(&second));
        assert_eq!((old.frees, old.bytes_live, first.usage().bytes_held), (1, 0, 0));
        assert_eq!((new.allocations, new.bytes_live, second.usage().bytes_held), (1, 3_000_000, 3_000_000));
        // A block that shrinks still counts for its scope. A block that grows outside of scopes no
        // longer counts for any scope.
        first.run(|| large.shrink_to(2_000_000));
        assert_eq!((counts(&second).bytes_live, second.usage().bytes_held), (2_000_000, 2_000_000));
        large.reserve_exact(4_000_000);
        assert_eq!((counts(&second).frees, second.usage().bytes_held), (1, 0));
        first.run(|| drop(large));
        assert_eq!(counts(&first).frees, 1);
    });
}

#[test]
fn blocks_that_change_between_a_slot_and_pages_count_where_they_are_allocated() {
    alone(|| {
        let [first, second] = [(); 2].map(|()| builder().counting().build());
        let mut moved = first.run(|| bytes(1_000));
        second.run(|| moved.reserve_exact(50_000));
        let (old, new) = (counts(&first), counts(&second));
        assert_eq!((old.allocations, old.frees, old.bytes_live), (1, 1, 0));
        assert_eq!((new.allocations, new.frees, new.bytes_live), (1, 0, 50_000));
        first.run(|| moved.shrink_to(1_000));
        assert_eq!((counts(&second).frees, counts(&second).bytes_live), (1, 0));
        drop(moved);
        assert_eq!((counts(&first).allocations, counts(&first).frees), (2, 2));
    });
}

#[test]
fn empty_units_are_freed_before_a_scope_exceeds_its_limit() {
    alone(|| {
        let scope = builder().limit(1 << 20).build();
        let visit = |size: usize| drop(bytes(size));
        scope.run(|| {
            for round in 0..3 {
                // Each class keeps an empty unit, and these units together exceed the limit.
                (1..32).for_each(|class| visit(class << 10));
                assert!(!scope.is_over_limit(), "round {round}: {}", scope.usage());
                visit(1_000_000);
                assert!(!scope.is_over_limit(), "round {round}: {}", scope.usage());
            }
            let mut large = bytes(100_000);
            (1..32).for_each(|class| visit(class << 10));
            large.reserve_exact(1_000_000);
            assert!(!scope.is_over_limit(), "{}", scope.usage());
            large.reserve_exact(1 << 20);
            let _more = bytes(1);
            assert!(scope.is_over_limit(), "{}", scope.usage());
        });
    });
}

#[test]
fn frees_of_an_outer_scopes_blocks_are_booked_before_the_inner_scope_ends() {
    alone(|| {
        let (outer, middle, inner) = (builder().build(), builder().build(), builder().build());
        outer.run(|| {
            let blocks: alloc::vec::Vec<_> = (0..300).map(|_| bytes(8_000)).collect();
            let before = outer.usage().bytes_held;
            middle.run(|| {
                inner.run(|| {
                    drop(blocks);
                    // A thread books the remote frees of its other heaps in one of 64 visits to the
                    // slow path.
                    (0..130).for_each(|_| drop(bytes(40_000)));
                });
                assert!(outer.usage().bytes_held < before / 4, "{before}: {}", outer.usage());
            });
        });
        assert_eq!(outer.finish().bytes_held, 0);
    });
}

/// The thread allocates and drops 200 blocks in the outer scope, whose heaps then have empty units.
#[test]
fn a_thread_in_an_inner_scope_trims_the_outer_ones() {
    alone(|| {
        let (outer, middle, inner) = (builder().build(), builder().build(), builder().build());
        let nested = |test: &dyn Fn()| {
            outer.run(|| {
                drop((0..200).map(|_| bytes(4_000)).collect::<alloc::vec::Vec<_>>());
                assert!(held() != 0);
                middle.run(|| inner.run(test));
            });
        };
        nested(&|| {
            PooledAllocator.trim();
            assert_eq!(held(), 0);
        });
        nested(&|| {
            PooledAllocator.set_limit(held());
            let mut small = Vec::<u8, _>::new_in(PooledAllocator);
            let served = small.try_reserve_exact(100);
            PooledAllocator.set_limit(usize::MAX);
            assert!(served.is_ok(), "the outer scope has empty units");
        });
    });
}

#[test]
fn statistics_count_the_live_slots_of_all_scopes_that_the_thread_is_in() {
    alone(|| {
        let (outer, inner) = (builder().build(), builder().build());
        outer.run(|| {
            let blocks = [bytes(100), bytes(100), bytes(2_000)];
            inner.run(|| {
                let stats = PooledAllocator.stats();
                assert_eq!((stats.slots_live, stats.unsettled_slots), (blocks.len(), 0));
            });
        });
    });
}

/// A request in the inner scope is refused first, so that the thread remembers a fruitless search.
#[test]
fn a_block_of_an_outer_scope_that_is_freed_in_an_inner_one_makes_room_at_the_limit() {
    alone(|| {
        let (outer, inner) = (builder().build(), builder().build());
        outer.run(|| {
            let block = bytes(20_000);
            inner.run(|| {
                PooledAllocator.set_limit(held());
                let mut small = Vec::<u8, _>::new_in(PooledAllocator);
                let first = small.try_reserve_exact(100);
                drop(block);
                let second = small.try_reserve_exact(100);
                let third = small.try_reserve_exact(100);
                PooledAllocator.set_limit(usize::MAX);
                assert!(first.is_err(), "nothing is free");
                assert!(second.is_ok() || third.is_ok(), "the outer scope has an empty unit");
            });
        });
    });
}

/// Outside of scopes, a thread usually frees a large block to its own spans, and grows one within
/// its span. Neither path subtracts the block from a scope, so a block that counts for a scope must
/// not take these paths.
#[test]
fn large_blocks_freed_or_grown_outside_no_longer_count_for_their_scope() {
    alone(|| {
        drop(bytes(40 << 10));
        let scope = builder().build();
        let [freed, mut grown] = scope.run(|| [(); 2].map(|()| bytes(40 << 10)));
        assert_eq!(scope.usage().bytes_held, 80 << 10);
        drop(freed);
        assert_eq!(scope.usage().bytes_held, 40 << 10);
        grown.reserve_exact(44 << 10);
        assert_eq!(scope.usage().bytes_held, 0, "the block grew outside");
        drop(grown);
        assert_eq!(scope.finish().bytes_held, 0);
        // A later block at the same address counts for no scope.
        let next = builder().build();
        drop(bytes(40 << 10));
        assert_eq!(next.finish().bytes_held, 0);
    });
}
