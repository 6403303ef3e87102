//! Tests of the reports of a scope: its bytes, its limit and its counts. Miri runs all of these
//! tests except that of refused requests.
#![cfg(all(feature = "std", target_has_atomic = "64"))]

extern crate alloc;

#[path = "support/scopes.rs"]
mod support;

use std::thread;

use allocator_api2::vec::Vec;
use typed_pool::PooledAllocator;

use support::{alone, block, builder, held};

#[test]
fn a_limit_marks_the_scope_and_refuses_nothing() {
    alone(|| {
        let scope = builder().limit(10_000).build();
        scope.run(|| {
            let small = block(1);
            assert!(!scope.is_over_limit());
            let large = Vec::<u8, _>::with_capacity_in(100_000, PooledAllocator);
            assert!(scope.is_over_limit());
            assert_eq!((small[0], large.capacity()), (1, 100_000));
        });
        assert!(scope.is_over_limit(), "the scope stays marked");
        let usage = scope.finish();
        assert!(usage.over_limit && usage.bytes_held == 0 && usage.bytes_peak >= 100_000);
        let next = builder().limit(10_000).build();
        assert!(!next.is_over_limit() && next.usage().bytes_peak == 0);
    });
}

#[test]
#[cfg(not(miri))]
fn refused_requests_neither_mark_a_scope_nor_change_its_peak() {
    use ephemera_prim::pages;

    let request = || {
        let mut block = Vec::<u64, _>::new_in(PooledAllocator);
        block.try_reserve_exact(4_000).map(|()| block)
    };
    alone(|| {
        let scope = builder().limit(isize::MAX as usize / 4).build();
        scope.run(|| {
            let mut bytes = Vec::<u8, _>::new_in(PooledAllocator);
            assert!(bytes.try_reserve_exact(isize::MAX as usize / 2).is_err());
        });
        assert!(!scope.is_over_limit());
        assert_eq!(scope.usage().bytes_peak, 0);
        let blocks = scope.run(|| {
            pages::refuse_call(usize::MAX);
            // Cached pages serve the first units. The list is large enough for the blocks in these
            // units.
            let mut blocks = alloc::vec::Vec::with_capacity(1 << 16);
            while let Ok(block) = request() {
                blocks.push(block);
                assert_ne!(blocks.len(), 1 << 16, "the system refuses all calls");
            }
            pages::refuse_call(0);
            blocks
        });
        assert_eq!(scope.usage().bytes_peak, scope.usage().bytes_held);
        drop(blocks);
    });
}

#[test]
fn large_blocks_count_for_their_scope() {
    alone(|| {
        let scope = builder().build();
        let large = scope.run(|| {
            let mut large = Vec::<u8, _>::with_capacity_in(100_000, PooledAllocator);
            large.reserve_exact(200_000);
            large
        });
        assert_eq!(scope.usage().bytes_held, 200_000);
        scope.run(|| drop(large));
        assert_eq!(scope.usage().bytes_held, 0);
        assert!(scope.usage().bytes_peak >= 200_000);
    });
}

#[test]
fn statistics_of_a_scope_have_its_own_large_blocks_wherever_they_are_freed() {
    alone(|| {
        let large = || Vec::<u8, _>::with_capacity_in(100_000, PooledAllocator);
        // Each scope reuses the heaps of the scope before.
        for _ in 0..3 {
            let outside = [large(), large()];
            let scope = builder().limit(1 << 20).build();
            let (inside, small) = scope.run(|| (large(), block(1)));
            scope.run(|| drop(outside));
            let stats = scope.stats();
            assert_eq!((stats.large_blocks, stats.large_bytes, stats.slots_live), (1, 100_000, 1));
            assert_eq!((stats.bytes_held, stats.limit), (scope.usage().bytes_held, 1 << 20));
            scope.run(|| drop(small));
            drop(inside);
            let stats = scope.stats();
            assert_eq!((stats.live(), stats.large_bytes, stats.bytes_live), (0, 0, 0));
            assert_eq!(scope.finish().bytes_held, 0);
        }
    });
}

#[test]
fn a_counting_scope_counts_growth_and_keeps_its_counts_of_slots() {
    alone(|| {
        let mut large = Vec::<u8, _>::with_capacity_in(1 << 20, PooledAllocator);
        let scope = builder().counting().build();
        let slot = scope.run(|| {
            let slot = block(1);
            drop(large);
            let counts = scope.usage().counts.expect("it counts");
            assert_eq!((counts.frees, counts.bytes_live), (0, 32), "the block is from outside");
            slot
        });
        large = scope.run(|| {
            let mut large = Vec::with_capacity_in(100_000, PooledAllocator);
            large.reserve_exact(300_000);
            large
        });
        let counts = scope.usage().counts.expect("it counts");
        assert_eq!((counts.allocations, counts.bytes, counts.bytes_live_peak), (2, 300_032, 300_032));
        scope.run(|| {
            large.shrink_to(200_000);
            assert_eq!(scope.usage().counts.expect("it counts").bytes_live, 200_032);
            drop((slot, large));
        });
        let counts = scope.usage().counts.expect("it counts");
        assert_eq!((counts.allocations, counts.frees, counts.bytes_live), (2, 2, 0));
        assert_eq!((counts.bytes, counts.bytes_live_peak), (300_032, 300_032));
    });
}

#[test]
fn counting_scopes_count_each_allocation_and_each_free() {
    alone(|| {
        let scope = builder().counting().build();
        let (kept, escaped) = scope.run(|| {
            let mut kept = alloc::vec::Vec::new();
            for number in 0..100 {
                kept.push(block(number));
                drop(block(number));
            }
            (kept, block(1))
        });
        let counts = scope.usage().counts.expect("it counts");
        assert_eq!((counts.allocations, counts.frees, counts.live()), (201, 100, 101));
        assert_eq!((counts.bytes, counts.bytes_live, counts.bytes_live_peak), (201 * 32, 101 * 32, 101 * 32));
        thread::spawn(move || drop(kept)).join().expect("no panic");
        let counts = scope.usage().counts.expect("it counts");
        assert_eq!((counts.frees, counts.bytes_live, counts.bytes_live_peak), (200, 32, 101 * 32));
        let usage = scope.finish();
        assert!(usage.bytes_held > 0 && usage.bytes_held == held());
        assert_eq!(escaped[0], 1);
        drop(escaped);
        assert_eq!(held(), 0);
    });
}

#[test]
fn a_counting_scope_counts_blocks_of_all_sizes() {
    alone(|| {
        let scope = builder().counting().build();
        scope.run(|| {
            for size in [1, 8, 100, 1_024, 1_025, 5_000, 32_768, 32_769, 100_000, 1 << 20] {
                let bytes = Vec::<u8, _>::with_capacity_in(size, PooledAllocator);
                assert_eq!(bytes.capacity(), size);
            }
        });
        let counts = scope.usage().counts.expect("it counts");
        assert_eq!((counts.allocations, counts.frees, counts.bytes_live), (10, 10, 0));
        assert!(counts.bytes > (1 << 20) + 100_000 && counts.bytes_live_peak == 1 << 20);
        assert_eq!(scope.finish().bytes_held, 0);
    });
}
