//! Helpers of the `GlobalAlloc` implementations: the conversion of a result to a pointer, and
//! `realloc`.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use allocator_api2::alloc::AllocError;

use super::resize;
use crate::threads::{Family, ThisCell};

/// Returns the address of a block, or null for an error.
#[inline]
#[must_use]
pub fn or_null(block: Result<NonNull<[u8]>, AllocError>) -> *mut u8 {
    match block {
        Ok(block) => block.as_ptr().cast(),
        Err(AllocError) => ptr::null_mut(),
    }
}

/// Grows or shrinks a block. Returns null if that fails. The block is then unchanged.
///
/// # Safety
/// The contract of `GlobalAlloc::realloc` holds. The block came from this allocator, to which
/// `cell` and `family` belong.
#[inline]
pub unsafe fn reallocate(
    cell: ThisCell,
    family: &'static Family,
    block: NonNull<u8>,
    old: Layout,
    new_size: usize,
) -> *mut u8 {
    // SAFETY: the caller guarantees that the new size, rounded up to the alignment, does not
    // overflow.
    let new = unsafe { Layout::from_size_align_unchecked(new_size, old.align()) };
    or_null(if new_size >= old.size() {
        // SAFETY: the caller passes a live block of layout `old`, and the new layout is not
        // smaller.
        unsafe { resize::grow(cell, family, block, old, new, false) }
    } else {
        // SAFETY: the caller passes a live block of layout `old`, and the new layout is not larger.
        unsafe { resize::shrink(cell, family, block, old, new) }
    })
}
