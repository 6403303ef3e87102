//! Tests the first scope of a program while the operating system refuses memory. The first scope
//! finds out whether `PooledAllocator` is the global allocator, so it allocates more than later
//! scopes do.
#![cfg(all(feature = "std", target_os = "linux", target_has_atomic = "64", not(miri)))]

use core::alloc::Layout;

use ephemera_prim::pages;
use typed_pool::{PooledAllocator, Scope, ScopeError};

#[global_allocator]
static HEAP: PooledAllocator = PooledAllocator;

/// A block that fits the rest of a chunk of permanent memory.
const STEP: Layout = Layout::new::<[u8; 1_024]>();

/// Returns the number of further blocks of permanent memory that need no call of the system, and
/// allocates them.
fn use_up_permanent_memory() -> usize {
    (0..).take_while(|_| pages::permanent(STEP).is_ok()).count()
}

/// Allocates blocks of several sizes until the heap refuses each of them.
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

/// In each round, there is permanent memory for one more block than in the round before. So the
/// state of the scope, its heaps, and then the block that it allocates find no memory.
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
