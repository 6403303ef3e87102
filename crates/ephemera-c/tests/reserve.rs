//! Tests the reserve of blocks for the C library. This test includes the source file of the
//! reserve, because in unit tests of the library, the library's `malloc` would replace the
//! allocator of the test harness.

#[path = "../src/reserve.rs"]
mod reserve;

use reserve::{LAYOUT, SIZE, give, has, is_live, take};

#[test]
fn each_block_is_taken_once_and_freed_once() {
    let blocks: Vec<_> = core::iter::from_fn(take).collect();
    assert!(!blocks.is_empty() && LAYOUT.size() == SIZE);
    assert!(blocks.windows(2).all(|pair| pair[1].addr().get() == pair[0].addr().get() + SIZE));
    assert!(blocks.iter().all(|block| is_live(*block) && give(*block)));
    assert!(blocks.iter().all(|block| has(*block) && !is_live(*block)));
    assert!(!give(blocks[0]), "the block is free");
    assert_eq!(core::iter::from_fn(take).count(), blocks.len());
}
