//! Slots of classes: their allocation, their bounds, and the types that the files of this module
//! share.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;
use ephemera_prim::header::header_of;
use ephemera_prim::poison::poison;

use crate::class;
use crate::geometry::LINK;
use crate::heap::PoolEnv;
use crate::threads::{self, Family, Heaps};
use crate::unit::{Unit, UnitPtr};

pub(super) type Block = Result<NonNull<[u8]>, AllocError>;

pub(super) fn block_of(slot: NonNull<u8>, layout: Layout) -> NonNull<[u8]> {
    NonNull::slice_from_raw_parts(slot, layout.size())
}

/// Allocates a slot of a class.
///
/// # Safety
/// The heaps are those that this thread's cell of the family names, and the class is the layout's.
#[inline]
pub(super) unsafe fn allocate_in(
    heaps: Heaps<'static>,
    family: &'static Family,
    layout: Layout,
    class: usize,
) -> Result<NonNull<u8>, AllocError> {
    // SAFETY: an allocator's family has a heap for each class.
    let owner = unsafe { heaps.owner(class) };
    match owner.heap().take(layout.size()) {
        Some(slot) => Ok(slot),
        // SAFETY: an allocator's family has a heap for each class.
        None => unsafe { threads::refill(family, class, layout.size()) },
    }
}

/// Poisons the freed tail of a block that stays in its slot, except for the bytes of a link.
///
/// # Safety
/// `block` is a live block of layout `old`, in a slot of this class; `new` is not larger.
#[inline]
pub(super) unsafe fn shrink_in_place(
    block: NonNull<u8>,
    class: usize,
    (old, new): (Layout, Layout),
) -> NonNull<u8> {
    let kept = new.size().max(LINK);
    if old.size() > kept {
        // SAFETY: `kept` is less than the block's size.
        let tail = unsafe { block.add(kept) };
        // SAFETY: the tail is inside the block, and the caller frees it.
        unsafe { poison(tail, old.size() - kept) };
    }
    // SAFETY: the caller passes a live block of this class.
    unsafe { whole_slot(block, class) }
}

/// Returns a pointer to the same block with access to its whole slot.
///
/// # Safety
/// `block` is a live block of this class.
#[inline]
pub(super) unsafe fn whole_slot(block: NonNull<u8>, class: usize) -> NonNull<u8> {
    // SAFETY: units are aligned to their mask, start with a `Unit`, and were exposed when they were
    // created; a unit with a live slot is not freed (H4).
    let unit = unsafe { header_of::<Unit>(block, class::unit_size(class)) };
    let slot = unit.as_ptr().cast::<u8>().with_addr(block.addr().get());
    // SAFETY: the address of a block is not null.
    unsafe { NonNull::new_unchecked(slot) }
}

/// Returns whether blocks of this layout are slots.
#[inline]
#[must_use]
pub const fn has_class(layout: Layout) -> bool {
    class::any(layout).is_some()
}

/// Returns the stride of the slots in a unit, if `block` is one of its slots.
///
/// # Safety
/// A unit of a pooled allocator starts at `unit`, and has a live slot.
#[inline]
#[must_use]
pub unsafe fn stride_of_slot(block: NonNull<u8>, unit: NonNull<u8>) -> Option<usize> {
    // SAFETY: the caller passes a unit with a live slot, which is not freed (H4).
    let unit = unsafe { UnitPtr::new(unit.cast()) };
    unit.stride_of_slot(block)
}

#[cfg(test)]
mod tests {
    use super::stride_of_slot;
    use crate::PooledAllocator;
    use crate::class::{self, CLASSES};
    use crate::unit::Unit;

    #[test]
    fn only_the_start_of_a_slot_has_a_stride() {
        for class in 0..CLASSES {
            let layout = class::layout(class);
            let block = PooledAllocator.allocate(layout).expect("memory").cast::<u8>();
            // SAFETY: the block is a live slot of this class.
            let unit = unsafe { ephemera_prim::header::header_of::<Unit>(block, class::unit_size(class)) };
            // SAFETY: the unit has a live slot.
            let stride_at = |at| unsafe { stride_of_slot(at, unit.cast()) };
            assert_eq!(stride_at(block), Some(class::stride(class)));
            for offset in [1, class::stride(class) / 2, class::stride(class) - 1] {
                // SAFETY: the offset is inside the slot.
                assert_eq!(stride_at(unsafe { block.add(offset) }), None, "{offset} of class {class}");
            }
            assert_eq!(stride_at(unit.cast()), None, "the header of class {class}");
            // SAFETY: the block is live and has this layout.
            unsafe { PooledAllocator.deallocate(block, layout) };
        }
    }
}
