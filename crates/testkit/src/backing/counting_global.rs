//! Counts what a whole test program takes from the system.

use core::alloc::{GlobalAlloc, Layout};
use std::alloc::System;

use super::gauge::{Gauge, Level};

/// A global allocator over the system's that counts everything, and once more what is aligned to a given value or above.
///
/// Chunks, pages and regions are aligned far above what a test harness asks for, so that the second count is
/// theirs alone.
///
/// # Examples
///
/// ```
/// use ephemera_testkit::backing::CountingGlobal;
///
/// #[global_allocator]
/// static GLOBAL: CountingGlobal = CountingGlobal::new(4096);
///
/// let before = GLOBAL.aligned().blocks;
/// let text = String::from("not aligned to 4096");
/// assert_eq!(GLOBAL.aligned().blocks, before);
/// assert!(GLOBAL.held().bytes >= text.len());
/// ```
#[derive(Debug)]
pub struct CountingGlobal {
    least_align: usize,
    held: Gauge,
    aligned: Gauge,
}

impl CountingGlobal {
    /// Counts requests aligned to `least_align` or above separately.
    #[must_use]
    pub const fn new(least_align: usize) -> Self {
        Self { least_align, held: Gauge::new(), aligned: Gauge::new() }
    }

    /// What the whole program holds.
    #[must_use]
    pub fn held(&self) -> Level {
        self.held.level()
    }

    /// The part of it whose alignment is at least the one given to [`CountingGlobal::new`].
    #[must_use]
    pub fn aligned(&self) -> Level {
        self.aligned.level()
    }

    /// Both peaks start again from what is held now.
    pub fn reset_peaks(&self) {
        self.held.reset_peak();
        self.aligned.reset_peak();
    }

    /// The gauges that a request with this layout belongs to.
    fn gauges(&self, layout: Layout) -> impl Iterator<Item = &Gauge> {
        let aligned = (layout.align() >= self.least_align).then_some(&self.aligned);
        core::iter::once(&self.held).chain(aligned)
    }

    fn took(&self, ptr: *mut u8, layout: Layout) -> *mut u8 {
        if !ptr.is_null() {
            self.gauges(layout).for_each(|gauge| gauge.take(layout.size()));
        }
        ptr
    }
}

// SAFETY: every call goes to `System`, which keeps the contract; counting does not allocate and does not unwind.
unsafe impl GlobalAlloc for CountingGlobal {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's duties are passed on as they are.
        let ptr = unsafe { System.alloc(layout) };
        self.took(ptr, layout)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's duties are passed on as they are.
        let ptr = unsafe { System.alloc_zeroed(layout) };
        self.took(ptr, layout)
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        self.gauges(layout).for_each(|gauge| gauge.give(layout.size()));
        // SAFETY: the caller's duties are passed on as they are.
        unsafe { System.dealloc(ptr, layout) };
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's duties are passed on as they are.
        let moved = unsafe { System.realloc(ptr, layout, new_size) };
        if !moved.is_null() {
            self.gauges(layout).for_each(|gauge| gauge.resize(layout.size(), new_size));
        }
        moved
    }
}
