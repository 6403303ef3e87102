//! Allocates and frees blocks without a small class: slots of medium classes, and blocks of the
//! operating system's pages.
//!
//! These functions are not inlined, because they would add register pressure to the fast paths of
//! small classes.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::slots::{MaybeBlock, allocate_in};
use crate::class;
use crate::heap;
use crate::local_frees::Reach;
use crate::threads::{self, Family, Heaps};

/// Allocates a block of a layout without a small class.
///
/// # Safety
/// `family` belongs to a pooled allocator, and `heaps` are the heaps to which this thread's cell of
/// that family points.
#[cold]
#[inline(never)]
pub(super) unsafe fn allocate(heaps: Heaps<'static>, family: &'static Family, layout: Layout) -> MaybeBlock {
    let Some(class) = class::medium(layout) else {
        // SAFETY: the caller passes the thread's heaps of the family.
        return unsafe { threads::allocate_block(heaps, family, layout, false) };
    };
    // SAFETY: the caller passes the thread's heaps of the family, and the class is the layout's.
    unsafe { allocate_in(heaps, family, layout, class) }
}

/// Allocates a block of a layout without a small class, with all bytes zero.
///
/// # Safety
/// The contract of [`allocate`] holds.
#[cold]
#[inline(never)]
pub(super) unsafe fn allocate_zeroed(
    heaps: Heaps<'static>,
    family: &'static Family,
    layout: Layout,
) -> MaybeBlock {
    let Some(class) = class::medium(layout) else {
        return threads::allocate_large(family, layout, true);
    };
    // SAFETY: the caller passes the thread's heaps of the family, and the class is the layout's.
    let slot = unsafe { allocate_in(heaps, family, layout, class) }?;
    // SAFETY: `allocate_in` returned a new block of at least `layout.size()` bytes.
    unsafe { slot.write_bytes(0, layout.size()) };
    Ok(slot)
}

/// Frees a block of a layout without a small class.
///
/// # Safety
/// `family` belongs to a pooled allocator, and `heaps` are the heaps to which this thread's cell of
/// that family points. `block` is a live block of the family, and `layout` fits it.
#[cold]
#[inline(never)]
pub(super) unsafe fn deallocate(
    heaps: Heaps<'static>,
    family: &'static Family,
    block: NonNull<u8>,
    layout: Layout,
) {
    let Some(class) = class::medium(layout) else {
        // SAFETY: the caller passes the thread's heaps of the family, and a live block without a
        // class. Unless its size is zero, the block came from pages and is on the family's account.
        return unsafe { threads::deallocate_block(heaps, family, block, layout) };
    };
    // SAFETY: T2: the thread may use these heaps. An allocator's family has a heap for every class.
    let owner = unsafe { heaps.owner(class) };
    // SAFETY: the caller frees a live block of this family. Its unit has the alignment of the
    // class's units, even if its slot is of another class (`shrink_at_the_limit`).
    unsafe { heap::give(owner, block, class::unit_size(class), layout.size(), Reach::Block) };
}
