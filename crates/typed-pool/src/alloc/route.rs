//! Routes a layout to a slot of its small class, or on to `medium`.

use core::alloc::Layout;
use core::ptr::NonNull;
use std::thread::LocalKey;

use allocator_api2::alloc::AllocError;
use ephemera_prim::header::header_of;
use ephemera_prim::poison::{poison, unpoison};

use super::medium;
use crate::class;
use crate::geometry::LINK;
use crate::heap::{self, PoolEnv};
use crate::stats::Stats;
use crate::threads::{self, Family, FamilyCell, Heaps};
use crate::unit::{Reach, Unit};

type CellKey = &'static LocalKey<FamilyCell>;
type Block = Result<NonNull<[u8]>, AllocError>;

fn block_of(slot: NonNull<u8>, layout: Layout) -> NonNull<[u8]> {
    NonNull::slice_from_raw_parts(slot, layout.size())
}

/// Allocates a block, not initialised.
///
/// # Errors
/// `AllocError` if the limit would be exceeded, or if the operating system refuses.
///
/// # Safety
/// `cell` and `family` belong to the same allocator.
#[inline]
pub unsafe fn allocate(cell: CellKey, family: &'static Family, layout: Layout) -> Block {
    let slot = match class::of(layout) {
        // SAFETY: `cell` and `family` belong to one allocator, and the class is the layout's.
        Some(class) => unsafe { allocate_in(FamilyCell::get(cell), family, layout, class) }?,
        // SAFETY: `cell` and `family` belong to one allocator.
        None => unsafe { medium::allocate(FamilyCell::get(cell), family, layout) }?,
    };
    Ok(block_of(slot, layout))
}

/// Allocates a block with all bytes zero.
///
/// # Errors
/// As [`allocate`].
///
/// # Safety
/// As [`allocate`].
#[inline]
pub unsafe fn allocate_zeroed(cell: CellKey, family: &'static Family, layout: Layout) -> Block {
    let Some(class) = class::of(layout) else {
        // SAFETY: `cell` and `family` belong to one allocator.
        let block = unsafe { medium::allocate_zeroed(FamilyCell::get(cell), family, layout) }?;
        return Ok(block_of(block, layout));
    };
    // SAFETY: `cell` and `family` belong to one allocator, and the class is the layout's.
    let slot = unsafe { allocate_in(FamilyCell::get(cell), family, layout, class) }?;
    // SAFETY: the block is fresh and has this number of bytes.
    unsafe { slot.write_bytes(0, layout.size()) };
    Ok(block_of(slot, layout))
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

/// Frees a block, on any thread.
///
/// # Safety
/// `block` is a live block of this family, and `layout` fits it.
#[inline]
pub unsafe fn deallocate(cell: CellKey, family: &'static Family, block: NonNull<u8>, layout: Layout) {
    let Some(class) = class::of(layout) else {
        // SAFETY: the caller passes a live block of this layout, which has no small class.
        return unsafe { medium::deallocate(FamilyCell::get(cell), family, block, layout) };
    };
    // SAFETY: an allocator's family has a heap for each class.
    let owner = unsafe { FamilyCell::get(cell).owner(class) };
    // SAFETY: the caller passes a live block of this class.
    unsafe { heap::give(owner, block, class::unit_size(class), layout.size(), Reach::Block) };
}

/// Grows a block: in place if its class stays the same. With `zeroed`, the bytes from `old.size()`
/// on are zero.
///
/// # Errors
/// As [`allocate`]; the old block is then unchanged.
///
/// # Safety
/// `block` is a live block of this family, `old` fits it, and `new` is not smaller.
#[inline]
pub unsafe fn grow(
    cell: CellKey,
    family: &'static Family,
    block: NonNull<u8>,
    old: Layout,
    new: Layout,
    zeroed: bool,
) -> Block {
    let slot = match (class::of(old), class::of(new)) {
        (Some(class), Some(same)) if class == same => {
            // SAFETY: the block is live and of this class, whose slots hold all layouts of the
            // class.
            let slot = unsafe { whole_slot(block, class) };
            // SAFETY: the old block ends within its slot.
            let tail = unsafe { slot.add(old.size()) };
            // SAFETY: the tail of the slot belongs to the block, and no value uses it yet.
            unsafe { unpoison(tail, new.size() - old.size()) };
            slot
        }
        (None, None) if old.size() != 0 => {
            // SAFETY: the caller passes a live block; neither layout has a small class.
            let grown = unsafe { medium::grow(cell, family, block, (old, new), zeroed) }?;
            return Ok(block_of(grown, new));
        }
        // SAFETY: the caller passes a live block; the old size is the smaller one.
        _ => unsafe { relocate(cell, family, block, (old, new), old.size()) }?,
    };
    if zeroed {
        // SAFETY: the new block has more than `old.size()` bytes, or as many.
        let tail = unsafe { slot.add(old.size()) };
        // SAFETY: the new block ends at `new.size()`.
        unsafe { tail.write_bytes(0, new.size() - old.size()) };
    }
    Ok(block_of(slot, new))
}

/// Shrinks a block: in place if its class stays the same. The limit refuses no shrink, see
/// `shrink_at_the_limit`.
///
/// # Errors
/// `AllocError` if the operating system refuses; the old block is then unchanged.
///
/// # Safety
/// `block` is a live block of this family, `old` fits it, and `new` is not larger.
#[inline]
pub unsafe fn shrink(
    cell: CellKey,
    family: &'static Family,
    block: NonNull<u8>,
    old: Layout,
    new: Layout,
) -> Block {
    let slot = match (class::of(old), class::of(new)) {
        (Some(class), Some(same)) if class == same => {
            // SAFETY: the caller passes a live block, which is of this class.
            unsafe { shrink_in_place(block, class, (old, new)) }
        }
        (None, None) if new.size() != 0 => {
            // SAFETY: the caller passes a live block; neither layout has a small class.
            unsafe { medium::shrink(cell, family, block, (old, new)) }?
        }
        // SAFETY: the caller passes a live block; the new size is the smaller one.
        _ => match unsafe { relocate(cell, family, block, (old, new), new.size()) } {
            Ok(moved) => moved,
            // SAFETY: the caller passes a live block, which did not move.
            Err(AllocError) => unsafe { shrink_at_the_limit(cell, family, block, (old, new)) }?,
        },
    };
    Ok(block_of(slot, new))
}

/// Shrinks a block to another class, or from or to pages, if the limit leaves no memory
/// to move it.
///
/// The block stays in its slot if the units of both classes have the same alignment. The slot then
/// still is one of the old class, and a free finds its heap through the unit's header, as a remote
/// free does. Otherwise the block moves, beyond the limit.
///
/// # Errors
/// `AllocError` if the operating system refuses; the old block is then unchanged.
///
/// # Safety
/// As [`shrink`].
#[cold]
#[inline(never)]
pub(super) unsafe fn shrink_at_the_limit(
    cell: CellKey,
    family: &'static Family,
    block: NonNull<u8>,
    (old, new): (Layout, Layout),
) -> Result<NonNull<u8>, AllocError> {
    if let (Some(class), Some(other)) = (class::any(old), class::any(new)) {
        if class::unit_size(class) == class::unit_size(other) && block.addr().get() % new.align() == 0 {
            // SAFETY: the caller passes a live block, whose layout has the first class.
            return Ok(unsafe { shrink_in_place(block, class, (old, new)) });
        }
    }
    let moved = threads::allocate_beyond(family, new)?;
    // SAFETY: the old block is live, and the fresh one has the new size, which is the smaller one.
    unsafe { move_to(cell, family, moved, (block, old), new.size()) };
    Ok(moved)
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

/// Moves a block to a new one that this function allocates. If that fails, the old block is
/// unchanged.
///
/// # Safety
/// `block` is a live block of the first layout; neither layout has less than `keep` bytes.
#[inline(never)]
pub(super) unsafe fn relocate(
    cell: CellKey,
    family: &'static Family,
    block: NonNull<u8>,
    (old, new): (Layout, Layout),
    keep: usize,
) -> Result<NonNull<u8>, AllocError> {
    // SAFETY: the block's allocator has this thread-local and this family.
    let moved = unsafe { allocate(cell, family, new) }?.cast::<u8>();
    // SAFETY: both blocks are live and have at least `keep` bytes.
    unsafe { move_to(cell, family, moved, (block, old), keep) };
    Ok(moved)
}

/// Copies `keep` bytes of a block to a fresh block, and frees the old one.
///
/// # Safety
/// `block` is a live block of layout `old`; `moved` is another live block. Both have at least
/// `keep` bytes.
#[inline(always)]
unsafe fn move_to(
    cell: CellKey,
    family: &'static Family,
    moved: NonNull<u8>,
    (block, old): (NonNull<u8>, Layout),
    keep: usize,
) {
    // SAFETY: both blocks have `keep` bytes, and live blocks do not overlap.
    unsafe { moved.copy_from_nonoverlapping(block, keep) };
    // SAFETY: the block is live and is not used again.
    unsafe { deallocate(cell, family, block, old) };
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

/// Returns this thread's empty units to the process's pages.
pub fn trim(family: &'static Family) {
    threads::trim_here(family);
}

/// Trims this thread and the records of ended threads, and asks running threads to trim.
pub fn trim_all(family: &'static Family) {
    threads::trim_all(family);
}

/// Sets the limit on the bytes held.
pub fn set_limit(family: &'static Family, bytes: usize) {
    family.account().set_limit(bytes);
}

/// Returns the bytes held by all threads, and the slots that are live.
#[must_use]
pub fn stats(family: &'static Family) -> Stats {
    family.stats()
}
