//! A global allocator that counts bytes. A test can register code that the allocator runs when it
//! frees a block.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::ops::{Bound, RangeBounds};

use ephemera_testkit::backing::CountingGlobal;

/// The smallest alignment of a group, in bytes.
pub(crate) const GROUP: usize = 16 << 10;

pub(crate) struct Heap(CountingGlobal);

/// A range of alignments, and the code that the next free of a block with such an alignment runs.
type Hook = ((Bound<usize>, Bound<usize>), fn());

std::thread_local! {
    static NEXT: Cell<Option<Hook>> = const { Cell::new(None) };
}

impl Heap {
    pub(crate) const fn new() -> Self {
        Self(CountingGlobal::new(GROUP))
    }

    /// Returns the number of bytes in all groups that the process holds.
    pub(crate) fn groups(&self) -> usize {
        self.0.aligned().bytes
    }

    /// Returns the number of bytes that the process holds.
    pub(crate) fn held(&self) -> usize {
        self.0.held().bytes
    }

    /// Calls `what` just before this thread next frees a block whose alignment is in `aligns`. Only
    /// groups are aligned to [`GROUP`] or more.
    pub(crate) fn at_the_next_free(&self, aligns: impl RangeBounds<usize>, what: fn()) {
        NEXT.set(Some(((aligns.start_bound().cloned(), aligns.end_bound().cloned()), what)));
    }
}

// SAFETY: every call goes to the counting allocator, which keeps the contract of `GlobalAlloc`. The
// code of a test runs before such a call, not during it.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if NEXT.get().is_some_and(|(aligns, _)| aligns.contains(&layout.align())) {
            if let Some((_, what)) = NEXT.take() {
                what();
            }
        }
        // SAFETY: the caller keeps the contract of `GlobalAlloc::dealloc`.
        unsafe { self.0.dealloc(block, layout) };
    }
}
