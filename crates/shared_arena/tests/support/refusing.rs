//! A global allocator over the system's allocator. A test chooses which calls of its thread fail.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::ptr;
use std::alloc::System;

pub(crate) struct Refusing;

std::thread_local! {
    static CALLS: Cell<usize> = const { Cell::new(0) };
    static REFUSED: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Refuses the calls of this thread with the numbers `from..to`. The next call has the number 0.
/// Returns the number of calls since the previous `refuse`.
pub(crate) fn refuse(from: usize, to: usize) -> usize {
    REFUSED.set((from, to));
    CALLS.replace(0)
}

fn refuses() -> bool {
    let call = CALLS.get();
    CALLS.set(call + 1);
    let (from, to) = REFUSED.get();
    from <= call && call < to
}

// SAFETY: every request is passed on to `System`, or is refused without an effect on any block.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if refuses() {
            return ptr::null_mut();
        }
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::dealloc`.
        unsafe { System.dealloc(block, layout) };
    }
}
