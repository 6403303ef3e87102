//! Defines a global allocator that counts the allocations of a whole test program.

use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::alloc::System;

use super::gauge::{Gauge, Level};

/// A global allocator over the system's allocator. It counts all blocks, and separately the blocks
/// with at least a given alignment.
///
/// A test harness never allocates a block with the alignment of a chunk, a page group or a store.
/// With such an alignment, the second count leaves out the blocks of the harness.
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
///
/// let (boxed, spent) = GLOBAL.watch(|| Box::new([0_u8; 100]));
/// assert!(spent.requests >= 1 && spent.peak >= boxed.len());
/// ```
#[derive(Debug)]
pub struct CountingGlobal {
    least_align: usize,
    held: Gauge,
    aligned: Gauge,
    requests: AtomicUsize,
}

/// The memory that a program took during a call to [`CountingGlobal::watch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spent {
    /// The number of allocations and reallocations that succeeded.
    pub requests: usize,
    /// The peak of the bytes held, minus the bytes held at the start.
    pub peak: usize,
}

impl CountingGlobal {
    /// Creates an allocator that separately counts requests aligned to `least_align` or more.
    #[must_use]
    pub const fn new(least_align: usize) -> Self {
        Self { least_align, held: Gauge::new(), aligned: Gauge::new(), requests: AtomicUsize::new(0) }
    }

    /// Returns the memory that the whole program holds.
    #[must_use]
    pub fn held(&self) -> Level {
        self.held.level()
    }

    /// Returns the memory in blocks with at least the alignment given to [`CountingGlobal::new`].
    #[must_use]
    pub fn aligned(&self) -> Level {
        self.aligned.level()
    }

    /// Restarts both peaks from the bytes held now.
    pub fn reset_peaks(&self) {
        self.held.reset_peak();
        self.aligned.reset_peak();
    }

    /// Calls `work`, and returns its result and the memory that the whole program took during the
    /// call. Restarts both peaks.
    pub fn watch<R>(&self, work: impl FnOnce() -> R) -> (R, Spent) {
        self.reset_peaks();
        let (held, requests) = (self.held().bytes, self.requests.load(Ordering::Relaxed));
        let result = work();
        let spent = Spent {
            requests: self.requests.load(Ordering::Relaxed) - requests,
            peak: self.held().peak.saturating_sub(held),
        };
        (result, spent)
    }

    /// Returns the gauges that count a request with this layout.
    fn gauges(&self, layout: Layout) -> impl Iterator<Item = &Gauge> {
        let aligned = (layout.align() >= self.least_align).then_some(&self.aligned);
        core::iter::once(&self.held).chain(aligned)
    }

    fn took(&self, ptr: *mut u8, layout: Layout) -> *mut u8 {
        if !ptr.is_null() {
            self.requests.fetch_add(1, Ordering::Relaxed);
            self.gauges(layout).for_each(|gauge| gauge.take(layout.size()));
        }
        ptr
    }
}

// SAFETY: every call goes to `System`, which meets the contract. Counting neither allocates nor
// unwinds.
unsafe impl GlobalAlloc for CountingGlobal {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the method's contract, which is the same for `System`.
        let ptr = unsafe { System.alloc(layout) };
        self.took(ptr, layout)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the method's contract, which is the same for `System`.
        let ptr = unsafe { System.alloc_zeroed(layout) };
        self.took(ptr, layout)
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        self.gauges(layout).for_each(|gauge| gauge.give(layout.size()));
        // SAFETY: the caller upholds the method's contract, which is the same for `System`.
        unsafe { System.dealloc(ptr, layout) };
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller upholds the method's contract, which is the same for `System`.
        let moved = unsafe { System.realloc(ptr, layout, new_size) };
        if !moved.is_null() {
            self.requests.fetch_add(1, Ordering::Relaxed);
            self.gauges(layout).for_each(|gauge| gauge.resize(layout.size(), new_size));
        }
        moved
    }
}
