//! Blocks without a small class: those of medium classes, and those of pages.
//!
//! These functions are not inlined, so that the fast paths of small classes need no more registers.

use core::alloc::Layout;
use core::ptr::NonNull;
use std::thread::LocalKey;

use allocator_api2::alloc::AllocError;
use ephemera_prim::poison::unpoison;

use super::route::{allocate_in, relocate, shrink_at_the_limit, shrink_in_place, whole_slot};
use crate::class;
use crate::heap;
use crate::threads::{self, Family, FamilyCell, Heaps};
use crate::unit::{Reach, UnitPtr};

type CellKey = &'static LocalKey<FamilyCell>;

/// Allocates a block of a layout without a small class.
///
/// # Safety
/// The heaps are those that this thread's cell of the family names.
#[cold]
#[inline(never)]
pub(super) unsafe fn allocate(
    heaps: Heaps<'static>,
    family: &'static Family,
    layout: Layout,
) -> Result<NonNull<u8>, AllocError> {
    let Some(class) = class::medium(layout) else {
        // SAFETY: the caller passes the thread's heaps of the family.
        return unsafe { threads::allocate_block(heaps, family, layout) };
    };
    // SAFETY: the caller passes the thread's heaps of the family, and the class is the layout's.
    unsafe { allocate_in(heaps, family, layout, class) }
}

/// Allocates as [`allocate`] does, with all bytes zero.
///
/// # Safety
/// As [`allocate`].
#[cold]
#[inline(never)]
pub(super) unsafe fn allocate_zeroed(
    heaps: Heaps<'static>,
    family: &'static Family,
    layout: Layout,
) -> Result<NonNull<u8>, AllocError> {
    let Some(class) = class::medium(layout) else {
        return threads::allocate_large(family, layout, true);
    };
    // SAFETY: the caller passes the thread's heaps of the family, and the class is the layout's.
    let slot = unsafe { allocate_in(heaps, family, layout, class) }?;
    // SAFETY: the block is fresh and has this number of bytes.
    unsafe { slot.write_bytes(0, layout.size()) };
    Ok(slot)
}

/// Frees a block of a layout without a small class.
///
/// # Safety
/// `block` is a live block of this family, and `layout` fits it. The heaps are those that this
/// thread's cell of the family names.
#[cold]
#[inline(never)]
pub(super) unsafe fn deallocate(
    heaps: Heaps<'static>,
    family: &'static Family,
    block: NonNull<u8>,
    layout: Layout,
) {
    let Some(class) = class::medium(layout) else {
        // SAFETY: the caller passes a live block, which has no class and so came from pages.
        return unsafe { threads::deallocate_block(heaps, family, block, layout) };
    };
    // SAFETY: an allocator's family has a heap for each class.
    let owner = unsafe { heaps.owner(class) };
    // SAFETY: the caller passes a live block of this class.
    unsafe { heap::give(owner, block, class::unit_size(class), layout.size(), Reach::Block) };
}

/// Grows a block. With `zeroed`, the bytes from the old size on are zero.
///
/// # Safety
/// `block` is a live block of this family, and the first layout fits it. Neither layout has a small
/// class, the first is not of size zero, and the second is not smaller.
#[cold]
#[inline(never)]
pub(super) unsafe fn grow(
    cell: CellKey,
    family: &'static Family,
    block: NonNull<u8>,
    (old, new): (Layout, Layout),
    zeroed: bool,
) -> Result<NonNull<u8>, AllocError> {
    if old.size() > class::MEDIUM_MAX {
        // SAFETY: the caller passes a live block that is too large for a class. The new layout is
        // not smaller.
        return unsafe { threads::grow_block(FamilyCell::get(cell), family, block, (old, new), zeroed) };
    }
    let Some(class) = class::medium(old) else {
        if class::medium(new).is_none() {
            // SAFETY: the caller passes a live block without a class, which came from pages. The
            // new layout is not smaller and has no class either.
            return unsafe { threads::grow_large(family, block, (old, new), zeroed) };
        }
        // SAFETY: the caller passes a live block; the old size is the smaller one.
        return unsafe { move_and_grow(cell, family, block, (old, new), zeroed) };
    };
    if class::medium(new) != Some(class) {
        // SAFETY: the caller passes a live block; the old size is the smaller one.
        return unsafe { move_and_grow(cell, family, block, (old, new), zeroed) };
    }
    // SAFETY: the block is live and of this class, whose slots hold all layouts of it.
    let slot = unsafe { whole_slot(block, class) };
    // SAFETY: the old block ends within its slot.
    let tail = unsafe { slot.add(old.size()) };
    // SAFETY: the tail of the slot belongs to the block, and no value uses it yet.
    unsafe { unpoison(tail, new.size() - old.size()) };
    if zeroed {
        // SAFETY: the new block ends at `new.size()`, and the tail starts at the old size.
        unsafe { tail.write_bytes(0, new.size() - old.size()) };
    }
    Ok(slot)
}

/// Moves a block to a larger one of another class, or from or to pages.
///
/// # Safety
/// As [`grow`].
#[inline(never)]
unsafe fn move_and_grow(
    cell: CellKey,
    family: &'static Family,
    block: NonNull<u8>,
    (old, new): (Layout, Layout),
    zeroed: bool,
) -> Result<NonNull<u8>, AllocError> {
    // SAFETY: the caller passes a live block; the old size is the smaller one.
    let slot = unsafe { relocate(cell, family, block, (old, new), old.size()) }?;
    if zeroed {
        // SAFETY: the new block has at least `old.size()` bytes.
        let tail = unsafe { slot.add(old.size()) };
        // SAFETY: the new block ends at `new.size()`.
        unsafe { tail.write_bytes(0, new.size() - old.size()) };
    }
    Ok(slot)
}

/// Shrinks a block.
///
/// # Safety
/// As [`grow`], but the second layout is not larger and not of size zero.
#[cold]
#[inline(never)]
pub(super) unsafe fn shrink(
    cell: CellKey,
    family: &'static Family,
    block: NonNull<u8>,
    (old, new): (Layout, Layout),
) -> Result<NonNull<u8>, AllocError> {
    match (class::medium(old), class::medium(new)) {
        // SAFETY: the caller passes a live block, which has no class and so came from pages.
        (None, None) => unsafe { threads::shrink_large(family, block, (old, new)) },
        (Some(class), Some(same)) if class == same => {
            // SAFETY: the caller passes a live block, which is of this class.
            Ok(unsafe { shrink_in_place(block, class, (old, new)) })
        }
        // SAFETY: the caller passes a live block; the new size is the smaller one.
        _ => match unsafe { relocate(cell, family, block, (old, new), new.size()) } {
            Ok(moved) => Ok(moved),
            // SAFETY: the caller passes a live block, which did not move.
            Err(AllocError) => unsafe { shrink_at_the_limit(cell, family, block, (old, new)) },
        },
    }
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
    // SAFETY: T1: a unit's owner word names its heap, which is never freed.
    let spec = unsafe { threads::spec_of(unit) };
    let offset = block.addr().get() & (spec.unit - 1);
    let distance = offset.checked_sub(spec.first(unit.slots()))?;
    let is_slot = distance % spec.stride == 0 && offset < spec.end(unit.slots());
    is_slot.then_some(spec.stride)
}
