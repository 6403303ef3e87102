//! Tests of the memory that the process caches after a burst, which is a scope that held much more
//! than the scopes before it. No test trims before its check.
#![cfg(all(feature = "std", target_os = "linux", target_has_atomic = "64", not(miri)))]

extern crate alloc;

#[path = "support/scopes.rs"]
mod support;

use allocator_api2::vec::Vec;
use ephemera_prim::pages;
use typed_pool::PooledAllocator;

use support::{Block, alone, block, builder};

/// The size of a burst in bytes. A burst consists of blocks of [`BLOCK`] bytes.
const BURST: usize = 64 << 20;
const BLOCK: usize = 1_000;

/// The number of small scopes between two bursts. After these scopes, the average peak is low
/// again.
const SMALL: usize = 2_000;

/// The maximum number of bytes that stay in the cache of pages after small scopes.
const FEW: usize = 2 << 20;

/// Runs a scope that holds about `held` bytes at its peak. Returns a block that outlives the scope.
fn visit(held: usize) -> Block {
    let scope = builder().build();
    let escapes = scope.run(|| {
        let bytes = || Vec::<u8, _>::with_capacity_in(BLOCK, PooledAllocator);
        drop((0..held / BLOCK).map(|_| bytes()).collect::<alloc::vec::Vec<_>>());
        block(7)
    });
    assert!(scope.finish().bytes_peak >= held / BLOCK * BLOCK);
    escapes
}

fn cached() -> usize {
    pages::usage().bytes_cached
}

#[test]
fn the_memory_of_a_rare_burst_leaves_at_the_end_of_its_scope() {
    alone(|| {
        for _ in 0..3 {
            (0..SMALL).for_each(|_| drop(visit(10 * BLOCK)));
            let before = cached();
            let _escapes = visit(BURST);
            assert!(cached() <= before.max(FEW), "{} bytes, and {before} before the burst", cached());
        }
    });
}

#[test]
fn after_three_large_scopes_the_process_caches_the_memory_of_the_next_ones() {
    alone(|| {
        (0..SMALL).for_each(|_| drop(visit(10 * BLOCK)));
        for number in 1..8 {
            drop(visit(BURST));
            assert_eq!(cached() > BURST / 2, number > 3, "{} bytes after {number} scopes", cached());
        }
    });
}

#[test]
fn a_rare_block_of_64_mib_leaves_at_the_end_of_its_scope() {
    alone(|| {
        for _ in 0..3 {
            (0..SMALL).for_each(|_| drop(visit(10 * BLOCK)));
            let scope = builder().build();
            scope.run(|| drop(Vec::<u8, _>::with_capacity_in(BURST, PooledAllocator)));
            scope.finish();
            assert!(cached() <= FEW, "{}", cached());
        }
    });
}
