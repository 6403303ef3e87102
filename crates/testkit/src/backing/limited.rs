//! Refuses what goes beyond a budget.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use allocator_api2::alloc::{AllocError, Allocator, Global};

/// Refuses requests that would carry the bytes held above a limit.
///
/// Besides testing caps, it keeps absurd sizes from allocators that end the program over them, as Miri's does.
#[derive(Debug)]
pub struct Limited<A = Global> {
    inner: A,
    limit: usize,
    held: AtomicUsize,
}

impl<A> Limited<A> {
    /// Lets at most `limit` bytes be held from `inner`.
    #[must_use]
    pub const fn over(inner: A, limit: usize) -> Self {
        Self { inner, limit, held: AtomicUsize::new(0) }
    }

    /// The allocator below.
    #[must_use]
    pub const fn inner(&self) -> &A {
        &self.inner
    }

    /// Bytes held now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.load(Relaxed)
    }

    /// Takes `bytes` from the budget, and puts them back if the call fails.
    fn within(
        &self,
        bytes: usize,
        call: impl FnOnce() -> Result<NonNull<[u8]>, AllocError>,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let room = |held: usize| held.checked_add(bytes).filter(|&sum| sum <= self.limit);
        self.held.fetch_update(Relaxed, Relaxed, room).map_err(|_| AllocError)?;
        let given = call();
        if given.is_err() {
            self.held.fetch_sub(bytes, Relaxed);
        }
        given
    }
}

// SAFETY: a call is passed on to `inner`, which keeps the contract, or refused with nothing changed.
unsafe impl<A: Allocator> Allocator for Limited<A> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.within(layout.size(), || self.inner.allocate(layout))
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.within(layout.size(), || self.inner.allocate_zeroed(layout))
    }

    unsafe fn deallocate(&self, ptr: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's duties are passed on as they are.
        unsafe { self.inner.deallocate(ptr, layout) };
        self.held.fetch_sub(layout.size(), Relaxed);
    }

    unsafe fn grow(&self, ptr: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's duties are passed on as they are.
        self.within(new.size() - old.size(), || unsafe { self.inner.grow(ptr, old, new) })
    }

    unsafe fn grow_zeroed(
        &self,
        ptr: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's duties are passed on as they are.
        self.within(new.size() - old.size(), || unsafe { self.inner.grow_zeroed(ptr, old, new) })
    }

    unsafe fn shrink(&self, ptr: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's duties are passed on as they are.
        let given = unsafe { self.inner.shrink(ptr, old, new) };
        if given.is_ok() {
            self.held.fetch_sub(old.size() - new.size(), Relaxed);
        }
        given
    }
}
