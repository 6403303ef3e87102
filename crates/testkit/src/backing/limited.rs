//! Defines a backing allocator with a limit on the bytes held.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use allocator_api2::alloc::{AllocError, Allocator, Global};

/// An allocator that refuses requests that would raise the bytes held above a limit.
///
/// It refuses absurd sizes before they reach an inner allocator that would end the program, such as
/// Miri's.
#[derive(Debug)]
pub struct Limited<A = Global> {
    inner: A,
    limit: usize,
    held: AtomicUsize,
}

impl<A> Limited<A> {
    /// Creates an allocator that holds at most `limit` bytes of `inner`.
    #[must_use]
    pub const fn over(inner: A, limit: usize) -> Self {
        Self { inner, limit, held: AtomicUsize::new(0) }
    }

    /// Returns the inner allocator.
    #[must_use]
    pub const fn inner(&self) -> &A {
        &self.inner
    }

    /// Returns the bytes held now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.load(Relaxed)
    }

    /// Adds `bytes` to the bytes held and runs `call`, or refuses if the sum exceeds the limit.
    /// Subtracts `bytes` again if `call` fails.
    fn within(
        &self,
        bytes: usize,
        call: impl FnOnce() -> Result<NonNull<[u8]>, AllocError>,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let mut held = self.held();
        loop {
            let sum = held.checked_add(bytes).filter(|&sum| sum <= self.limit).ok_or(AllocError)?;
            match self.held.compare_exchange_weak(held, sum, Relaxed, Relaxed) {
                Ok(_) => break,
                Err(now) => held = now,
            }
        }
        let given = call();
        if given.is_err() {
            self.held.fetch_sub(bytes, Relaxed);
        }
        given
    }
}

// SAFETY: a call is passed on to `inner`, which meets the contract, or is refused without an effect
// on any block.
unsafe impl<A: Allocator> Allocator for Limited<A> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.within(layout.size(), || self.inner.allocate(layout))
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.within(layout.size(), || self.inner.allocate_zeroed(layout))
    }

    unsafe fn deallocate(&self, ptr: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller upholds the method's contract, which is the same for `inner`.
        unsafe { self.inner.deallocate(ptr, layout) };
        self.held.fetch_sub(layout.size(), Relaxed);
    }

    unsafe fn grow(&self, ptr: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller upholds the method's contract, which is the same for `inner`.
        self.within(new.size() - old.size(), || unsafe { self.inner.grow(ptr, old, new) })
    }

    unsafe fn grow_zeroed(
        &self,
        ptr: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller upholds the method's contract, which is the same for `inner`.
        self.within(new.size() - old.size(), || unsafe { self.inner.grow_zeroed(ptr, old, new) })
    }

    unsafe fn shrink(&self, ptr: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller upholds the method's contract, which is the same for `inner`.
        let given = unsafe { self.inner.shrink(ptr, old, new) };
        if given.is_ok() {
            self.held.fetch_sub(old.size() - new.size(), Relaxed);
        }
        given
    }
}
