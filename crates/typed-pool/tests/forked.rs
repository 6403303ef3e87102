//! A child of a fork frees and gives back what its own thread has, whatever other threads of its parent were doing.
#![cfg(all(feature = "std", target_has_atomic = "64", unix, not(miri)))]

extern crate alloc;

use alloc::vec::Vec;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use typed_pool::{PooledBox, pooled};

struct Value([u64; 8]);
pooled!(Value, chunk_len = 1);

unsafe extern "C" {
    fn fork() -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn _exit(status: c_int) -> !;
}

/// Forks, and returns whether `child` was true in the child.
fn in_a_child(child: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child takes no lock that another thread may have had, and ends without destructors.
    let pid = unsafe { fork() };
    if pid == 0 {
        let status = c_int::from(!child());
        // SAFETY: ends the child.
        unsafe { _exit(status) };
    }
    let mut status = -1;
    // SAFETY: waits for the process that was just made, and writes to a word of this function.
    let ended = unsafe { waitpid(pid, &raw mut status, 0) };
    pid > 0 && ended == pid && status == 0
}

#[test]
fn a_child_gives_back_its_threads_units_though_a_walker_is_missing() {
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
                let gave_back = in_a_child(|| {
                    let right = values.iter().all(|value| value.0[7] < 100);
                    values.clear();
                    PooledBox::<Value>::trim();
                    let stats = PooledBox::<Value>::stats();
                    // A walker that did not survive the fork stands on two units for ever.
                    right && stats.unread_heaps == 0 && stats.slots_live == 0 && stats.units <= 2
                });
                !gave_back
            })
            .count();
        stop.store(true, Ordering::Relaxed);
        kept
    });
    assert_eq!(kept, 0, "children kept units");
}
