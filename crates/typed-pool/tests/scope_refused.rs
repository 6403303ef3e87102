//! Tests the first scope of a program while the operating system refuses memory. The first scope
//! finds out whether `PooledAllocator` is the global allocator, so it allocates more than later
//! scopes.
#![cfg(all(feature = "std", target_os = "linux", target_has_atomic = "64", not(miri)))]

use core::alloc::Layout;

use ephemera_prim::pages;
use typed_pool::{PooledAllocator, Scope, ScopeError};

#[global_allocator]
static HEAP: PooledAllocator = PooledAllocator;

/// The layout of the blocks with which the test uses up permanent memory.
const STEP: Layout = Layout::new::<[u8; 1_024]>();

/// Allocates all blocks of permanent memory that need no system call, and returns their number.
fn use_up_permanent_memory() -> usize {
    (0..).take_while(|_| pages::permanent(STEP).is_ok()).count()
}

/// Allocates blocks of several sizes until the heap refuses each size.
fn use_up_pages(blocks: &mut Vec<Vec<u8>>) {
    for size in [300_000, 32 << 10, 4 << 10, 500, 8] {
        while blocks.len() != blocks.capacity() {
            let mut block = Vec::new();
            if block.try_reserve_exact(size).is_err() {
                break;
            }
            blocks.push(block);
        }
    }
    assert_ne!(blocks.len(), blocks.capacity(), "the system refuses all calls");
}

/// Each round leaves permanent memory for one more block than the round before. At first there is
/// therefore no memory for the state of the scope, then none for its heaps, then none for the block
/// that the scope allocates.
#[test]
fn the_first_scope_reports_that_there_is_no_memory() {
    let mut blocks = Vec::with_capacity(1 << 16);
    for left in 0..40 {
        HEAP.trim_all();
        pages::purge();
        pages::refuse_call(usize::MAX);
        use_up_permanent_memory();
        pages::refuse_call(0);
        pages::permanent(STEP).expect("a new chunk");
        pages::refuse_call(usize::MAX);
        let chunk = use_up_permanent_memory();
        pages::refuse_call(0);
        pages::permanent(STEP).expect("a new chunk");
        pages::refuse_call(usize::MAX);
        for _ in left..chunk {
            pages::permanent(STEP).expect("the chunk has room");
        }
        use_up_pages(&mut blocks);
        let scope = Scope::builder().try_build();
        pages::refuse_call(0);
        blocks.clear();
        assert_eq!(scope.map(drop), Err(ScopeError::NoMemory), "{left} KiB are left");
    }
    assert!(Scope::builder().try_build().is_ok());
}
