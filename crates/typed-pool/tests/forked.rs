//! Tests that a forked child frees and trims the memory of its only thread, even if the parent's
//! other threads were in the middle of an operation.
#![cfg(all(feature = "std", target_has_atomic = "64", unix, not(miri)))]

extern crate alloc;

use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ephemera_testkit::fork::holds_in_a_child;
use typed_pool::{PooledBox, pooled};

struct Value([u64; 8]);
pooled!(Value, chunk_len = 1);

#[test]
fn a_forked_child_frees_units_that_a_walker_of_its_parent_protected() {
    let stop = AtomicBool::new(false);
    let kept = thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    assert!(PooledBox::<Value>::stats().units <= 100);
                }
            });
        }
        let kept = (0..30)
            .filter(|_| {
                let mut values: Vec<_> = (0..100).map(|number| PooledBox::new(Value([number; 8]))).collect();
                let gave_back = holds_in_a_child(|| {
                    let right = values.iter().all(|value| value.0[7] < 100);
                    values.clear();
                    PooledBox::<Value>::trim();
                    let stats = PooledBox::<Value>::stats();
                    // A walker that does not exist in the child does not protect any unit.
                    right && stats.unread_heaps == 0 && stats.slots_live == 0 && stats.units == 0
                });
                !gave_back
            })
            .count();
        stop.store(true, Ordering::Relaxed);
        kept
    });
    assert_eq!(kept, 0, "children kept units");
}
