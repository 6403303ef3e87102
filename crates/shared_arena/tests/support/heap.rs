//! A counting global allocator. A test can run code while it frees a group.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;

use ephemera_testkit::backing::CountingGlobal;

/// The least alignment of groups.
const GROUP: usize = 16 << 10;

pub(crate) struct Heap(CountingGlobal);

std::thread_local! {
    static NEXT: Cell<Option<fn()>> = const { Cell::new(None) };
}

impl Heap {
    pub(crate) const fn new() -> Self {
        Self(CountingGlobal::new(GROUP))
    }

    /// Returns the bytes of all groups that the process holds.
    pub(crate) fn groups(&self) -> usize {
        self.0.aligned().bytes
    }

    /// Returns the bytes that the process holds.
    pub(crate) fn held(&self) -> usize {
        self.0.held().bytes
    }

    /// Calls `what` when this thread next returns a group to the global allocator.
    pub(crate) fn at_the_next_group(&self, what: fn()) {
        NEXT.set(Some(what));
    }
}

// SAFETY: every call goes to the counting allocator, which keeps the contract. The code of a test
// runs between its calls.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if layout.align() >= GROUP {
            if let Some(what) = NEXT.take() {
                what();
            }
        }
        // SAFETY: the caller keeps the contract of `GlobalAlloc::dealloc`.
        unsafe { self.0.dealloc(block, layout) };
    }
}
