//! Implements the allocator trait with the system's heap or, without `std`, with the global heap.
//! The crate uses this module under Miri and loom, and on targets without the system calls of `os`
//! or without 64-bit atomics. There, the module also takes the place of other modules of `pages`.

use core::alloc::Layout;
use core::ptr::NonNull;

#[cfg(not(feature = "std"))]
use allocator_api2::alloc::Global as Heap;
/// The heap that serves the blocks. With `std` it is the system's, because the global allocator may
/// be built on `Pages`.
#[cfg(feature = "std")]
use allocator_api2::alloc::System as Heap;

use super::CachedPages;
use crate::traits::Allocator;

// SAFETY: every method forwards to the same heap. All values are the same allocator.
unsafe impl Allocator for CachedPages {
    crate::__forward_allocator!(|self| Heap, Allocator);
}

impl CachedPages {
    /// Returns `None`, because no thread has its own cache.
    #[inline]
    #[must_use]
    pub fn take(&self, _: Layout, _: bool) -> Option<NonNull<u8>> {
        None
    }

    /// Returns `false`, because no thread has its own cache.
    ///
    /// # Safety
    /// None: the function always returns `false`.
    #[inline]
    #[must_use]
    pub unsafe fn keep(&self, _: NonNull<u8>, _: Layout) -> bool {
        false
    }

    /// Does nothing, because no thread has its own cache.
    #[inline]
    pub fn note_growth(&self, _: Layout, _: Layout) {}

    /// Returns `false`, because only the heap knows whether a block has room.
    ///
    /// # Safety
    /// None: the function always returns `false`.
    #[inline]
    pub unsafe fn has_room(_: NonNull<u8>, _: Layout) -> bool {
        false
    }
}

/// Allocates a block of zeros, as `permanent::allocate` does. Returns `None` if there is no memory.
pub(super) fn allocate(layout: Layout) -> Option<NonNull<u8>> {
    Some(Heap.allocate_zeroed(layout).ok()?.cast())
}

/// Overwrites a range with zeros. Under Miri, this write races with any use of the range during the
/// call, and a later read finds zeros.
///
/// # Safety
/// The range is in a live block, its content is not needed, and no thread accesses it during the
/// call.
pub(super) unsafe fn purge_tail(start: NonNull<u8>, len: usize) {
    // SAFETY: the range is in a live block, and no thread accesses it during the call.
    unsafe { start.write_bytes(0, len) };
}

// The functions below do nothing, or return zero: there is no cache of pages, no clock and no
// system call that could fail.

pub(super) fn purge() {}

pub(super) fn shed_bytes(_: usize) {}

pub(super) fn set_least(_: usize) {}

pub(super) fn set_huge_pages(_: bool) {}

pub(super) fn pretend_page_size(_: usize) {}

pub(super) fn refuse_call(_: usize) -> usize {
    0
}

pub(crate) fn now_ms() -> usize {
    0
}

/// Returns the bytes in use, the cached bytes and the mapped bytes. This build counts none of them,
/// so all are 0.
pub(super) fn now() -> (usize, usize, usize) {
    (0, 0, 0)
}

/// Returns the bytes in the caches of all threads.
pub(super) fn bytes() -> usize {
    0
}
