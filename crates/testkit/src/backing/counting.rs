//! Defines a backing allocator that counts calls, bytes and blocks.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use allocator_api2::alloc::{AllocError, Allocator, Global};

use super::gauge::{Gauge, Level};

/// The numbers of calls of each kind, including refused calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Calls to `allocate`.
    pub allocate: usize,
    /// Calls to `allocate_zeroed`.
    pub allocate_zeroed: usize,
    /// Calls to `deallocate`.
    pub deallocate: usize,
    /// Calls to `grow`.
    pub grow: usize,
    /// Calls to `grow_zeroed`.
    pub grow_zeroed: usize,
    /// Calls to `shrink`.
    pub shrink: usize,
    /// Calls of any kind that the inner allocator refused.
    pub refused: usize,
}

/// An allocator that counts every call and passes it on to an inner allocator.
#[derive(Debug, Default)]
pub struct Counting<A = Global> {
    inner: A,
    gauge: Gauge,
    allocate: AtomicUsize,
    allocate_zeroed: AtomicUsize,
    deallocate: AtomicUsize,
    grow: AtomicUsize,
    grow_zeroed: AtomicUsize,
    shrink: AtomicUsize,
    refused: AtomicUsize,
}

impl Counting {
    /// Creates a counting allocator over the global allocator.
    #[must_use]
    pub const fn new() -> Self {
        Self::over(Global)
    }
}

impl<A> Counting<A> {
    /// Creates a counting allocator over `inner`.
    #[must_use]
    pub const fn over(inner: A) -> Self {
        Self {
            inner,
            gauge: Gauge::new(),
            allocate: AtomicUsize::new(0),
            allocate_zeroed: AtomicUsize::new(0),
            deallocate: AtomicUsize::new(0),
            grow: AtomicUsize::new(0),
            grow_zeroed: AtomicUsize::new(0),
            shrink: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
        }
    }

    /// Returns the inner allocator.
    #[must_use]
    pub const fn inner(&self) -> &A {
        &self.inner
    }

    /// Returns the numbers of calls so far.
    #[must_use]
    pub fn calls(&self) -> Calls {
        Calls {
            allocate: self.allocate.load(Relaxed),
            allocate_zeroed: self.allocate_zeroed.load(Relaxed),
            deallocate: self.deallocate.load(Relaxed),
            grow: self.grow.load(Relaxed),
            grow_zeroed: self.grow_zeroed.load(Relaxed),
            shrink: self.shrink.load(Relaxed),
            refused: self.refused.load(Relaxed),
        }
    }

    /// Returns the bytes and blocks held now, the peak of the bytes, and the bytes ever allocated.
    #[must_use]
    pub fn held(&self) -> Level {
        self.gauge.level()
    }

    /// Restarts the peak from the bytes held now.
    pub fn reset_peak(&self) {
        self.gauge.reset_peak();
    }

    /// Counts a call and, if the inner allocator served it, the block. `old` is the old size of a
    /// resized block, and `None` for a new block. Returns `given`.
    fn count(
        &self,
        kind: &AtomicUsize,
        given: Result<NonNull<[u8]>, AllocError>,
        old: Option<usize>,
        new: usize,
    ) -> Result<NonNull<[u8]>, AllocError> {
        kind.fetch_add(1, Relaxed);
        match (given, old) {
            (Ok(_), None) => self.gauge.take(new),
            (Ok(_), Some(old)) => self.gauge.resize(old, new),
            (Err(AllocError), _) => _ = self.refused.fetch_add(1, Relaxed),
        }
        given
    }
}

// SAFETY: every call goes to `inner`, which meets the contract. The counters do not affect the
// blocks.
unsafe impl<A: Allocator> Allocator for Counting<A> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.count(&self.allocate, self.inner.allocate(layout), None, layout.size())
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.count(&self.allocate_zeroed, self.inner.allocate_zeroed(layout), None, layout.size())
    }

    unsafe fn deallocate(&self, ptr: NonNull<u8>, layout: Layout) {
        self.deallocate.fetch_add(1, Relaxed);
        self.gauge.give(layout.size());
        // SAFETY: the caller upholds the method's contract, which is the same for `inner`.
        unsafe { self.inner.deallocate(ptr, layout) };
    }

    unsafe fn grow(&self, ptr: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller upholds the method's contract, which is the same for `inner`.
        let given = unsafe { self.inner.grow(ptr, old, new) };
        self.count(&self.grow, given, Some(old.size()), new.size())
    }

    unsafe fn grow_zeroed(
        &self,
        ptr: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller upholds the method's contract, which is the same for `inner`.
        let given = unsafe { self.inner.grow_zeroed(ptr, old, new) };
        self.count(&self.grow_zeroed, given, Some(old.size()), new.size())
    }

    unsafe fn shrink(&self, ptr: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller upholds the method's contract, which is the same for `inner`.
        let given = unsafe { self.inner.shrink(ptr, old, new) };
        self.count(&self.shrink, given, Some(old.size()), new.size())
    }
}
