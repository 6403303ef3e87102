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

/// The family of a pooled allocator, with the calling thread's cell of that family.
///
/// Not public API: the macros expand to its name.
///
/// # Invariant
/// The family and the cell belong to the same pooled allocator. No function keeps the value after
/// its call, because the value contains the pointer to the cell (T3).
///
/// The order of the fields is that of the arguments of the functions in `threads`, so a call passes
/// the value in the same registers.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct ThisFamily {
    pub(super) cell: ThisCell,
    pub(super) family: &'static Family,
}

/// Returns the small class of a layout, if it has one.
#[inline(always)]
fn small_class(layout: Layout) -> Option<usize> {
    if weakened!("class_ignores_alignment") {
        return class::of(Layout::array::<u8>(layout.size()).unwrap_or(layout));
    }
    class::of(layout)
}

impl ThisFamily {
    /// Creates the value for one operation of an allocator.
    ///
    /// # Safety
    /// `cell` and `family` belong to the same pooled allocator. No function keeps the result after
    /// its call (T3).
    #[inline]
    #[must_use]
    pub unsafe fn new(cell: ThisCell, family: &'static Family) -> Self {
        Self { cell, family }
    }

    /// Allocates an uninitialised block.
    ///
    /// # Errors
    /// Returns `AllocError` if the limit would be exceeded, or if the operating system refuses the
    /// request.
    #[inline]
    pub fn allocate(self, layout: Layout) -> BlockResult {
        let heaps = self.cell.heaps();
        let slot = match small_class(layout) {
            // SAFETY: the heaps come from the family's cell, and the class is the layout's.
            Some(class) => unsafe { allocate_in(heaps, self.family, layout, class) }?,
            // SAFETY: the heaps come from the family's cell.
            None => unsafe { medium::allocate(heaps, self.family, layout) }?,
        };
        Ok(block_of(slot, layout))
    }

    /// Allocates a block with all bytes zero.
    ///
    /// # Errors
    /// Returns `AllocError` if the limit would be exceeded, or if the operating system refuses the
    /// request.
    #[inline]
    pub fn allocate_zeroed(self, layout: Layout) -> BlockResult {
        let heaps = self.cell.heaps();
        let Some(class) = small_class(layout) else {
            // SAFETY: the heaps come from the family's cell.
            let block = unsafe { medium::allocate_zeroed(heaps, self.family, layout) }?;
            return Ok(block_of(block, layout));
        };
        // SAFETY: the heaps come from the family's cell, and the class is the layout's.
        let slot = unsafe { allocate_in(heaps, self.family, layout, class) }?;
        // SAFETY: `allocate_in` returned a new block of at least `layout.size()` bytes.
        unsafe { slot.write_bytes(0, layout.size()) };
        Ok(block_of(slot, layout))
    }

    /// Frees a block, on any thread.
    ///
    /// # Safety
    /// `block` is a live block of this allocator, and `layout` fits it.
    #[inline]
    pub unsafe fn deallocate(self, block: NonNull<u8>, layout: Layout) {
        let heaps = self.cell.heaps();
        let Some(class) = small_class(layout) else {
            // SAFETY: the heaps come from the family's cell. The caller passes a live block of this
            // layout, which has no small class.
            return unsafe { medium::deallocate(heaps, self.family, block, layout) };
        };
        // SAFETY: T2: the thread may use these heaps. An allocator's family has a heap for every
        // class.
        let owner = unsafe { heaps.owner(class) };
        // SAFETY: the caller frees a live block of this family. Its unit has the alignment of the
        // class's units, even if its slot is of another class (`shrink_at_the_limit`).
        unsafe { heap::give(owner, block, class::unit_size(class), layout.size(), Reach::Block) };
    }
}
