//! A child of a fork frees and gives back what its own thread has, whatever the other threads of its parent were doing.
#![cfg(all(feature = "std", target_has_atomic = "64", unix, not(miri)))]

use core::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use allocator_api2::boxed::Box;
use ephemera_testkit::fork::holds_in_a_child;
use ephemera_testkit::suite::turn;
use ring_alloc::OneRingAlloc;

#[test]
fn a_child_gives_back_what_its_thread_has_while_others_read_statistics() {
    const CHILDREN: usize = 100;
    let _turn = turn();
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
                    // A walker that did not survive the fork stands on no chunk, and keeps no thread from reading.
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
