//! The adapter for allocators with the trait `GlobalAlloc`. They are called in the same process
//! without being its global allocator.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::copy_nonoverlapping;

use crate::blocks::RawAlloc;

/// A [`GlobalAlloc`] as a [`RawAlloc`]. It grows and shrinks with `realloc`.
#[derive(Clone, Copy, Debug)]
pub struct Global<G>(pub G);

impl<G: GlobalAlloc> Global<G> {
    /// Moves a block to a layout with another alignment, which `realloc` cannot do.
    ///
    /// # Safety
    ///
    /// As for `raw_grow` or `raw_shrink`.
    #[cold]
    unsafe fn realign(&self, ptr: *mut u8, old: Layout, new: Layout) -> *mut u8 {
        // SAFETY: `new` is not empty.
        let moved = unsafe { self.0.alloc(new) };
        if !moved.is_null() {
            // SAFETY: both blocks have at least this length, and a new block overlaps no live one.
            unsafe { copy_nonoverlapping(ptr, moved, old.size().min(new.size())) };
            // SAFETY: the caller gives up the old block.
            unsafe { self.0.dealloc(ptr, old) };
        }
        moved
    }

    /// Calls `realloc`, or moves the block if the alignment changes.
    ///
    /// # Safety
    ///
    /// As for `raw_grow` or `raw_shrink`.
    #[inline(always)]
    unsafe fn resize(&self, ptr: *mut u8, old: Layout, new: Layout) -> *mut u8 {
        if old.align() == new.align() {
            // SAFETY: the block was allocated with `old`, and a layout's size does not overflow
            // when it is rounded up.
            unsafe { self.0.realloc(ptr, old, new.size()) }
        } else {
            // SAFETY: the caller's duty is the callee's.
            unsafe { self.realign(ptr, old, new) }
        }
    }
}

// SAFETY: `GlobalAlloc` makes the promises of `RawAlloc`, on every thread.
unsafe impl<G: GlobalAlloc> RawAlloc for Global<G> {
    #[inline(always)]
    unsafe fn raw_alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's duty is the callee's.
        unsafe { self.0.alloc(layout) }
    }

    #[inline(always)]
    unsafe fn raw_alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's duty is the callee's.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    #[inline(always)]
    unsafe fn raw_dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's duty is the callee's.
        unsafe { self.0.dealloc(ptr, layout) }
    }

    #[inline(always)]
    unsafe fn raw_grow(&self, ptr: *mut u8, old: Layout, new: Layout) -> *mut u8 {
        // SAFETY: the caller's duty is the callee's.
        unsafe { self.resize(ptr, old, new) }
    }

    #[inline(always)]
    unsafe fn raw_shrink(&self, ptr: *mut u8, old: Layout, new: Layout) -> *mut u8 {
        // SAFETY: the caller's duty is the callee's.
        unsafe { self.resize(ptr, old, new) }
    }
}
