//! The adapter for allocators with the trait of allocator-api2 0.2. It passes on all methods,
//! including `grow` and `shrink`.

use core::alloc::Layout;
use core::ptr::{NonNull, null_mut};

use allocator_api2::alloc::{AllocError, Allocator};

use crate::blocks::RawAlloc;

/// An [`Allocator`] as a [`RawAlloc`]. It wraps a value that is cheap to copy, or else a reference.
#[derive(Clone, Copy, Debug)]
pub struct Api02<T>(pub T);

#[inline(always)]
fn thin(block: Result<NonNull<[u8]>, AllocError>) -> *mut u8 {
    block.map_or(null_mut(), |block| block.cast::<u8>().as_ptr())
}

// SAFETY: `Allocator` makes the promises of `RawAlloc`: valid and exclusive blocks, equivalent
// copies. Only the cards of types that are `Sync` declare `any_thread_free`.
unsafe impl<T: Allocator> RawAlloc for Api02<T> {
    #[inline(always)]
    unsafe fn raw_alloc(&self, layout: Layout) -> *mut u8 {
        thin(self.0.allocate(layout))
    }

    #[inline(always)]
    unsafe fn raw_alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        thin(self.0.allocate_zeroed(layout))
    }

    #[inline(always)]
    unsafe fn raw_dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller gives up a block of this allocator, and blocks are never null.
        let ptr = unsafe { NonNull::new_unchecked(ptr) };
        // SAFETY: the caller's duty is the callee's.
        unsafe { self.0.deallocate(ptr, layout) }
    }

    #[inline(always)]
    unsafe fn raw_grow(&self, ptr: *mut u8, old: Layout, new: Layout) -> *mut u8 {
        // SAFETY: the caller gives up a block of this allocator, and blocks are never null.
        let ptr = unsafe { NonNull::new_unchecked(ptr) };
        // SAFETY: the caller's duty is the callee's.
        thin(unsafe { self.0.grow(ptr, old, new) })
    }

    #[inline(always)]
    unsafe fn raw_shrink(&self, ptr: *mut u8, old: Layout, new: Layout) -> *mut u8 {
        // SAFETY: the caller gives up a block of this allocator, and blocks are never null.
        let ptr = unsafe { NonNull::new_unchecked(ptr) };
        // SAFETY: the caller's duty is the callee's.
        thin(unsafe { self.0.shrink(ptr, old, new) })
    }
}
