//! Tests that statistics count blocks without units, no matter which thread allocates or frees
//! them.
#![cfg(feature = "std")]

extern crate alloc;

use alloc::vec::Vec;
use core::alloc::Layout;
use core::ptr::NonNull;
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};

use typed_pool::{PooledBox, pooled, pooled_allocator};

/// A block that is passed to another thread.
struct Sent(NonNull<u8>);

// SAFETY: a `Sent` has exclusive access to its block.
unsafe impl Send for Sent {}

pooled_allocator! {
    /// The allocator of these tests.
    struct Large;
}

fn joined(thread: JoinHandle<()>) {
    thread.join().expect("the thread does not panic");
}

const LAYOUT: Layout = Layout::new::<[u64; 10_000]>();

fn counted() -> (usize, usize, usize) {
    let stats = Large.stats();
    (stats.large_blocks, stats.large_bytes, stats.bytes_held)
}

#[test]
fn conc_large_blocks_are_counted_on_any_freeing_thread() {
    let size = LAYOUT.size();
    let (to, from) = channel();
    joined(thread::spawn(move || {
        for _ in 0..5 {
            to.send(Sent(Large.allocate(LAYOUT).expect("memory").cast())).expect("the other end is open");
        }
    }));
    assert_eq!(counted(), (5, 5 * size, 5 * size));
    let blocks: Vec<Sent> = from.iter().collect();
    // The first freeing thread does not allocate a block, so it has no table. The second freeing
    // thread is this thread, which has a table.
    let mut blocks = blocks.into_iter();
    let give = |Sent(block): Sent| {
        // SAFETY: a `Sent` has exclusive access to its block, which is of this layout.
        unsafe { Large.deallocate(block, LAYOUT) };
    };
    let first: Vec<_> = blocks.by_ref().take(2).collect();
    joined(thread::spawn(move || first.into_iter().for_each(give)));
    assert_eq!(counted(), (3, 3 * size, 3 * size));
    let own = Large.allocate(LAYOUT).expect("memory").cast();
    give(Sent(own));
    let grown = {
        let Some(Sent(block)) = blocks.next() else { panic!("three are left") };
        let longer = Layout::new::<[u64; 15_000]>();
        // SAFETY: the block is live and of this layout, and the new layout is the larger one.
        let grown = unsafe { Large.grow(block, LAYOUT, longer) }.expect("memory");
        assert_eq!(counted(), (3, 2 * size + longer.size(), 2 * size + longer.size()));
        // SAFETY: the block is live and of the longer layout, and the new layout is the smaller
        // one.
        unsafe { Large.shrink(grown.cast(), longer, LAYOUT) }.expect("memory")
    };
    give(Sent(grown.cast()));
    blocks.for_each(give);
    assert_eq!(counted(), (0, 0, 0));
}

#[test]
fn conc_large_values_in_boxes_are_counted() {
    struct Huge([u8; 100_000]);
    pooled!(Huge);
    let boxes: Vec<_> = (0..3).map(|number| PooledBox::new(Huge([number; 100_000]))).collect();
    let stats = PooledBox::<Huge>::stats();
    assert_eq!((stats.large_blocks, stats.large_bytes, stats.bytes_held), (3, 300_000, 300_000));
    assert_eq!(stats.bytes_live, 300_000);
    joined(thread::spawn(move || assert!(boxes.into_iter().map(|huge| huge.0[7]).eq(0..3))));
    let stats = PooledBox::<Huge>::stats();
    assert_eq!((stats.large_blocks, stats.large_bytes, stats.live(), stats.bytes_held), (0, 0, 0, 0));
}
