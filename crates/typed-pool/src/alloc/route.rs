//! Allocates and frees the blocks of a pooled allocator: in slots of the layout's small class, or
//! by a call to a function of `medium`.

use core::alloc::Layout;
use core::ptr::NonNull;

use ephemera_prim::traits::BlockResult;

use super::medium;
use super::slots::{allocate_in, block_of};
use crate::class;
use crate::heap;
use crate::local_frees::Reach;
use crate::threads::{Family, ThisCell};

/// Returns the small class of a layout, if it has one.
#[inline(always)]
fn small_class(layout: Layout) -> Option<usize> {
    if weakened!("class_ignores_alignment") {
        return class::of(Layout::array::<u8>(layout.size()).unwrap_or(layout));
    }
    class::of(layout)
}

/// Allocates an uninitialised block.
///
/// # Errors
/// Returns `AllocError` if the limit would be exceeded, or if the operating system refuses the
/// request.
///
/// # Safety
/// `cell` and `family` belong to the same pooled allocator.
#[inline]
pub unsafe fn allocate(cell: ThisCell, family: &'static Family, layout: Layout) -> BlockResult {
    let slot = match small_class(layout) {
        // SAFETY: `cell` and `family` belong to one allocator, and the class is the layout's.
        Some(class) => unsafe { allocate_in(cell.heaps(), family, layout, class) }?,
        // SAFETY: `cell` and `family` belong to one allocator.
        None => unsafe { medium::allocate(cell.heaps(), family, layout) }?,
    };
    Ok(block_of(slot, layout))
}

/// Allocates a block with all bytes zero.
///
/// # Errors
/// Returns `AllocError` if the limit would be exceeded, or if the operating system refuses the
/// request.
///
/// # Safety
/// `cell` and `family` belong to the same pooled allocator.
#[inline]
pub unsafe fn allocate_zeroed(cell: ThisCell, family: &'static Family, layout: Layout) -> BlockResult {
    let Some(class) = small_class(layout) else {
        // SAFETY: `cell` and `family` belong to one allocator.
        let block = unsafe { medium::allocate_zeroed(cell.heaps(), family, layout) }?;
        return Ok(block_of(block, layout));
    };
    // SAFETY: `cell` and `family` belong to one allocator, and the class is the layout's.
    let slot = unsafe { allocate_in(cell.heaps(), family, layout, class) }?;
    // SAFETY: `allocate_in` returned a new block of at least `layout.size()` bytes.
    unsafe { slot.write_bytes(0, layout.size()) };
    Ok(block_of(slot, layout))
}

/// Frees a block, on any thread.
///
/// # Safety
/// `cell` and `family` belong to the same pooled allocator. `block` is a live block of that
/// allocator, and `layout` fits it.
#[inline]
pub unsafe fn deallocate(cell: ThisCell, family: &'static Family, block: NonNull<u8>, layout: Layout) {
    let Some(class) = small_class(layout) else {
        // SAFETY: `cell` and `family` belong to one allocator. The caller passes a live block of
        // this layout, which has no small class.
        return unsafe { medium::deallocate(cell.heaps(), family, block, layout) };
    };
    // SAFETY: T2: the thread may use these heaps. An allocator's family has a heap for every class.
    let owner = unsafe { cell.heaps().owner(class) };
    // SAFETY: the caller frees a live block of this family. Its unit has the alignment of the
    // class's units, even if its slot is of another class (`shrink_at_the_limit`).
    unsafe { heap::give(owner, block, class::unit_size(class), layout.size(), Reach::Block) };
}
