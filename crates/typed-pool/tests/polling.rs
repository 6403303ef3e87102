//! Tests that a thread that reads statistics in a loop neither keeps memory nor causes refusals.
#![cfg(all(feature = "std", target_has_atomic = "64"))]

extern crate alloc;

#[path = "support/threads.rs"]
mod support;

use alloc::vec::Vec;
use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use support::{here_or_miri, joined};
use typed_pool::{PooledBox, pooled, pooled_allocator};

/// Runs `act` while another thread calls `poll` in a loop.
fn while_polled(poll: impl Fn() + Sync, act: impl FnOnce()) {
    let (stop, polled) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                poll();
                polled.store(true, Ordering::Release);
            }
        });
        while !polled.load(Ordering::Acquire) {
            thread::yield_now();
        }
        let _stops = Stops(&stop);
        act();
    });
}

/// A guard that stops the polling thread when it is dropped, even while a panic unwinds.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn conc_units_freed_while_statistics_are_read_are_not_kept() {
    struct Value(u64);
    pooled!(Value, chunk_len = 1);
    let units = here_or_miri(8_000, 12);
    let poll = move || assert!(PooledBox::<Value>::stats().units <= units);
    joined(thread::spawn(move || {
        let values: Vec<_> = (0..units as u64).map(|number| PooledBox::new(Value(number))).collect();
        assert!(values.iter().rev().map(|value| value.0).eq((0..units as u64).rev()));
        while_polled(poll, || drop(values));
        // The heap keeps four units and its front. The walker may have protected two more units
        // when they became empty.
        let after = PooledBox::<Value>::stats();
        assert!(after.units <= 4 + 1 + 2, "{after:?}");
        assert_eq!(after.slots_live, 0);
        // The two protected units are freed with the next units that become empty.
        let more: Vec<_> = (0..10).map(|number| PooledBox::new(Value(number))).collect();
        drop(more);
        let after = PooledBox::<Value>::stats();
        assert!(after.units <= 10, "{after:?}");
    }));
    let end = PooledBox::<Value>::stats();
    assert_eq!((end.units, end.bytes_held), (0, 0), "{end:?}");
}

/// Empty units of one class make room for units of another class, although a walker may protect the
/// empty units.
#[test]
#[cfg_attr(miri, ignore = "only thousands of blocks meet a walker")]
fn conc_requests_at_the_limit_are_served_while_statistics_are_read() {
    pooled_allocator! {
        struct Limited;
    }
    let layouts = [Layout::new::<[u8; 1_024]>(), Layout::new::<[u8; 512]>(), Layout::new::<[u8; 60_000]>()];
    let fill = |layout: Layout, bytes: usize| -> Vec<NonNull<u8>> {
        let blocks = 0..bytes / layout.size();
        blocks.map(|_| Limited.allocate(layout).expect("room at the limit").cast()).collect()
    };
    joined(thread::spawn(move || {
        // The limit is the most memory that one round needs.
        Limited.set_limit(4 * (64 << 10) + (8 << 10));
        while_polled(
            || assert!(Limited.stats().bytes_held <= Limited.stats().limit),
            || {
                for round in 0..3_000 {
                    let layout = layouts[round % 3];
                    for block in fill(layout, 200 << 10) {
                        // SAFETY: the block was just allocated with this layout, and nothing else
                        // uses it.
                        unsafe { Limited.deallocate(block, layout) };
                    }
                }
            },
        );
    }));
    assert_eq!(Limited.stats().bytes_held, 0);
}
