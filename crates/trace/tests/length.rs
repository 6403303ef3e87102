//! Tests how much heap memory the replay of a long trace takes.

#[expect(dead_code, reason = "this file needs no trace of several threads")]
mod support;

use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::alloc::System;

use ephemera_trace::replay::{Player, ReplayProgram};
use ephemera_trace::{Trace, What};

use self::support::TestDir;

/// The number of live bytes of the heap.
static LIVE: AtomicUsize = AtomicUsize::new(0);
/// The peak of [`LIVE`].
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// An allocator that calls the system's allocator and counts its live bytes.
struct Counting;

#[global_allocator]
static GLOBAL: Counting = Counting;

// SAFETY: the system's allocator serves every call. `realloc` is the default, which copies.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(live, Relaxed);
        // SAFETY: the caller passes a layout of a size above zero.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller passes a live block with its layout.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Returns the largest growth of the heap in bytes while a trace of this number of calls is read
/// and played.
fn peak_of_a_replay(calls: u64) -> usize {
    let dir = TestDir::new("length");
    let churn = (0..calls).map(|i| {
        let address = i / 2 % 100 * 64;
        let alloc = What::Alloc { address, size: 8 + i / 2 % 50, align_log2: 0, zeroed: false };
        (1, if i % 2 == 0 { alloc } else { What::Free { address } })
    });
    let path = dir.save("a run", churn);
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let trace = Trace::open(&path).expect("the test wrote it");
    let program = ReplayProgram::beside(&trace, &dir.0).expect("the trace is whole");
    assert_eq!(program.ops, calls);
    Player::new(System, &program, false).play();
    PEAK.load(Relaxed) - before
}

#[test]
fn the_heap_of_a_replay_does_not_grow_with_the_trace() {
    let (short, long) = (peak_of_a_replay(40_000), peak_of_a_replay(400_000));
    // In memory, 400,000 operations of 20 bytes take 8 MB.
    assert!(long < short + (2 << 20), "{long} bytes; {short} for a tenth of the length");
}
