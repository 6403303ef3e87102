//! A global heap that counts, and in which a test can have something happen as a group goes back.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;

use ephemera_testkit::backing::CountingGlobal;

/// What groups are aligned to, at least.
const GROUP: usize = 16 << 10;

pub(crate) struct Heap(CountingGlobal);

std::thread_local! {
    static NEXT: Cell<Option<fn()>> = const { Cell::new(None) };
}

impl Heap {
    pub(crate) const fn new() -> Self {
        Self(CountingGlobal::new(GROUP))
    }

    /// Bytes of groups that the process holds.
    pub(crate) fn groups(&self) -> usize {
        self.0.aligned().bytes
    }

    /// Bytes that the process holds.
    pub(crate) fn held(&self) -> usize {
        self.0.held().bytes
    }

    /// Calls `what` as this thread next gives a group back to the heap.
    pub(crate) fn at_the_next_group(&self, what: fn()) {
        NEXT.set(Some(what));
    }
}

// SAFETY: every call goes to the counting heap, which keeps the contract; what a test has happen in between is called with no
// block in hand.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if layout.align() >= GROUP {
            if let Some(what) = NEXT.take() {
                what();
            }
        }
        // SAFETY: the caller's.
        unsafe { self.0.dealloc(block, layout) };
    }
}
