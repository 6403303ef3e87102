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

/// Grows or shrinks a block, and returns its new address. If that fails, returns null and leaves
/// the block unchanged.
///
/// # Safety
/// `cell` and `family` belong to the allocator that allocated `block`. The contract of
/// `GlobalAlloc::realloc` holds for that allocator, with `old` as the layout.
#[inline]
pub unsafe fn reallocate(
    cell: ThisCell,
    family: &'static Family,
    block: NonNull<u8>,
    old: Layout,
    new_size: usize,
) -> *mut u8 {
    // SAFETY: the caller guarantees that the new size, rounded up to the alignment, does not exceed
    // `isize::MAX`. The alignment is that of `old`.
    let new = unsafe { Layout::from_size_align_unchecked(new_size, old.align()) };
    or_null(if new_size >= old.size() {
        // SAFETY: the caller passes a live block of layout `old` with its allocator's cell and
        // family. The new size is not smaller.
        unsafe { resize::grow(cell, family, block, old, new, false) }
    } else {
        // SAFETY: the caller passes a live block of layout `old` with its allocator's cell and
        // family. The new size is smaller.
        unsafe { resize::shrink(cell, family, block, old, new) }
    })
}
