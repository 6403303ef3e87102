//! Tests of pages from the operating system: alignment, and the contents of blocks that are
//! recycled, grown and shrunk.
#![cfg(all(feature = "std", not(miri)))]

#[path = "support/owned.rs"]
mod owned;

use core::alloc::Layout;

use ephemera_prim::pages::{self, Pages};
use ephemera_prim::traits::Allocator;
use ephemera_testkit::suite::take_turn;
use owned::{Owned, layout};

impl Owned {
    fn zeroed(layout: Layout) -> Option<Self> {
        Some(Self(Pages.allocate_zeroed(layout).ok()?.cast(), layout))
    }
}

#[test]
fn blocks_are_aligned_up_to_a_gigabyte() {
    take_turn();
    for power in 0..31 {
        for size in [1, 40_000] {
            let block = Owned::new(layout(size, 1 << power)).expect("memory");
            assert_eq!(block.0.addr().get() % (1 << power), 0);
            block.fill(7);
        }
    }
}

#[test]
fn recycled_blocks_are_zero_if_zeros_are_requested() {
    take_turn();
    for size in [32 << 10, 100_000, 1 << 20] {
        let wanted = layout(size, 8);
        pages::purge();
        // A request for zeros prefers a span that nothing has written. These blocks fill their
        // superblocks, so the only free span below is the one with old bytes.
        let mut all: Vec<_> = (0..64).map(|_| Owned::new(wanted).expect("memory")).collect();
        for _ in 0..3 {
            let old = all.pop().expect("64 blocks");
            old.fill(0xAA);
            let at = old.0;
            drop(old);
            let zeroed = Owned::zeroed(wanted).expect("memory");
            assert_eq!(zeroed.0, at, "{size}: the span is recycled");
            assert!(zeroed.holds(0), "{size}");
            all.push(zeroed);
        }
    }
    for size in [32 << 10, 100_000, 1 << 20, 3 << 20] {
        let wanted = layout(size, 8);
        Owned::new(wanted).expect("memory").fill(0xAA);
        pages::purge();
        assert!(Owned::zeroed(wanted).expect("memory").holds(0), "{size} after a purge");
    }
}

#[test]
fn growth_keeps_the_bytes_and_zeroes_the_rest() {
    take_turn();
    let sizes = [1_000, 40_000, 60_000, 700_000, (1 << 20) + 1, (1 << 20) + 9_000, 5 << 20, 9 << 20];
    let top = sizes.len();
    // A reused mapping has old bytes after its block. Only a request that needs no zeros reuses
    // one.
    pages::purge();
    let (short, long) = (layout(sizes[4], 8), layout(sizes[5], 8));
    let old = Owned::new(long).expect("memory");
    old.fill(0xAA);
    let at = old.0;
    drop(old);
    let block = Owned::new(short).expect("memory");
    assert_eq!(block.0, at, "the mapping is reused");
    block.fill(9);
    let block = block.grown_zeroed(long);
    assert!(block.0 == at && block.bytes()[short.size()..].iter().all(|byte| *byte == 0));
    drop(block);
    for align in [1, 8 << 10] {
        let mut block = Owned::zeroed(layout(sizes[0], align)).expect("memory");
        block.fill(9);
        for size in &sizes[1..top] {
            let old = block.1.size();
            block = block.grown_zeroed(layout(*size, align));
            assert!(block.bytes()[..old].iter().all(|byte| *byte == 9), "{old} to {size}");
            assert!(block.bytes()[old..].iter().all(|byte| *byte == 0), "{old} to {size}");
            block.fill(9);
        }
        for size in sizes[..top - 1].iter().rev() {
            block = block.shrunk(layout(*size, align));
            assert!(block.holds(9), "to {size}");
        }
    }
}
