//! Tests that a forked child frees the blocks and chunks of its own thread. At the fork, other
//! threads of the parent are reading statistics.
#![cfg(all(feature = "std", target_has_atomic = "64", unix, not(miri)))]

use core::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use allocator_api2::boxed::Box;
use ephemera_testkit::fork::holds_in_a_child;
use ephemera_testkit::suite::take_turn;
use ring_alloc::OneRingAlloc;

#[test]
fn forked_child_frees_its_chunks_while_parent_threads_read_statistics() {
    const CHILDREN: usize = 100;
    take_turn();
    let polling = AtomicBool::new(true);
    let failed = thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while polling.load(Ordering::Relaxed) {
                    let _ = OneRingAlloc.stats();
                }
            });
        }
        let failed = (0..CHILDREN)
            .filter(|_| {
                let mut blocks = [const { None }; 400];
                blocks.fill_with(|| Some(Box::new_in([1_u8; 2_000], OneRingAlloc)));
                let good = holds_in_a_child(|| {
                    blocks.iter_mut().for_each(|block| *block = None);
                    OneRingAlloc.clean_local();
                    let stats = OneRingAlloc.stats();
                    // A walker that did not survive the fork neither protects chunks nor blocks
                    // other walkers.
                    stats.unread_heaps == 0 && stats.blocks_live() == 0 && stats.chunks() == 0
                });
                !good
            })
            .count();
        polling.store(false, Ordering::Relaxed);
        failed
    });
    assert_eq!(failed, 0, "{failed} of {CHILDREN} children kept memory");
    OneRingAlloc.clean_local();
}
