//! From a layout to a slot of its class, or to the global heap.

use core::alloc::Layout;
use core::ptr::NonNull;
use std::thread::LocalKey;

use allocator_api2::alloc::AllocError;
use ephemera_prim::header::header_of;
use ephemera_prim::poison::{poison, unpoison};

use crate::class;
use crate::geometry::LINK;
use crate::heap::{self, Env};
use crate::stats::Stats;
use crate::threads::{self, Family, Here};
use crate::unit::{Reach, Unit};

type Cell = &'static LocalKey<Here>;
type Block = Result<NonNull<[u8]>, AllocError>;

fn block_of(slot: NonNull<u8>, layout: Layout) -> NonNull<[u8]> {
    NonNull::slice_from_raw_parts(slot, layout.size())
}

/// A block of this layout, not initialised.
///
/// # Errors
/// When the limit would be exceeded, or the global heap refuses.
///
/// # Safety
/// The thread-local and the family are those of one allocator.
#[inline]
pub unsafe fn allocate(here: Cell, family: &'static Family, layout: Layout) -> Block {
    let slot = match class::of(layout) {
        // SAFETY: the caller's.
        Some(class) => unsafe { allocate_in(here, family, layout, class) }?,
        None => threads::allocate_large(family, layout, false)?,
    };
    Ok(block_of(slot, layout))
}

/// A block of this layout, all bytes zero.
///
/// # Errors
/// As [`allocate`].
///
/// # Safety
/// As [`allocate`].
#[inline]
pub unsafe fn allocate_zeroed(here: Cell, family: &'static Family, layout: Layout) -> Block {
    let Some(class) = class::of(layout) else {
        return Ok(block_of(threads::allocate_large(family, layout, true)?, layout));
    };
    // SAFETY: the caller's.
    let slot = unsafe { allocate_in(here, family, layout, class) }?;
    // SAFETY: a fresh slot of that many bytes.
    unsafe { slot.write_bytes(0, layout.size()) };
    Ok(block_of(slot, layout))
}

/// # Safety
/// As [`allocate`]; the class is the layout's.
#[inline]
unsafe fn allocate_in(
    here: Cell,
    family: &'static Family,
    layout: Layout,
    class: usize,
) -> Result<NonNull<u8>, AllocError> {
    // SAFETY: a family of an allocator has a heap for each class.
    let owner = unsafe { Here::get(here).owner(class) };
    match owner.heap().take(layout.size()) {
        Some(slot) => Ok(slot),
        // SAFETY: as above.
        None => unsafe { threads::refill(family, class, layout.size()) },
    }
}

/// Gives back a block, on any thread.
///
/// # Safety
/// `block` is a live block of this family, and `layout` fits it.
#[inline]
pub unsafe fn deallocate(here: Cell, family: &'static Family, block: NonNull<u8>, layout: Layout) {
    let Some(class) = class::of(layout) else {
        // SAFETY: the caller's block; without a class it is the global heap's own.
        return unsafe { threads::deallocate_large(family, block, layout) };
    };
    // SAFETY: a family of an allocator has a heap for each class.
    let owner = unsafe { Here::get(here).owner(class) };
    // SAFETY: the caller's block, of this class.
    unsafe { heap::give(owner, block, class::unit_size(class), layout.size(), Reach::Block) };
}

/// Grows a block: in place if its class stays the same. With `zeroed`, the bytes from `old.size()` on are zero.
///
/// # Errors
/// As [`allocate`]; the old block is then as it was.
///
/// # Safety
/// `block` is a live block of this family, `old` fits it, and `new` is not smaller.
#[inline]
pub unsafe fn grow(
    here: Cell,
    family: &'static Family,
    block: NonNull<u8>,
    old: Layout,
    new: Layout,
    zeroed: bool,
) -> Block {
    let slot = match (class::of(old), class::of(new)) {
        (Some(class), Some(same)) if class == same => {
            // SAFETY: the caller's block, of this class; a slot has room for all layouts of its class.
            let slot = unsafe { whole_slot(block, class) };
            // SAFETY: within the slot; nobody has what is behind the old block.
            let tail = unsafe { slot.add(old.size()) };
            // SAFETY: as above.
            unsafe { unpoison(tail, new.size() - old.size()) };
            slot
        }
        (None, None) if old.size() != 0 => {
            // SAFETY: the caller's; without a class it is the global heap's own.
            let grown = unsafe { threads::grow_large(family, block, (old, new), zeroed) }?;
            return Ok(block_of(grown, new));
        }
        // SAFETY: the caller's; the old size is the smaller one.
        _ => unsafe { relocate(here, family, block, (old, new), old.size()) }?,
    };
    if zeroed {
        // SAFETY: the new block has that many bytes.
        let tail = unsafe { slot.add(old.size()) };
        // SAFETY: as above.
        unsafe { tail.write_bytes(0, new.size() - old.size()) };
    }
    Ok(block_of(slot, new))
}

/// Shrinks a block: in place if its class stays the same. The limit refuses no shrink, see `shrink_at_the_limit`.
///
/// # Errors
/// When the global heap refuses; the old block is then as it was.
///
/// # Safety
/// `block` is a live block of this family, `old` fits it, and `new` is not larger.
#[inline]
pub unsafe fn shrink(
    here: Cell,
    family: &'static Family,
    block: NonNull<u8>,
    old: Layout,
    new: Layout,
) -> Block {
    let slot = match (class::of(old), class::of(new)) {
        (Some(class), Some(same)) if class == same => {
            // SAFETY: the caller's block, of this class.
            unsafe { shrink_in_place(block, class, (old, new)) }
        }
        (None, None) if new.size() != 0 => {
            // SAFETY: the caller's; without a class it is the global heap's own.
            unsafe { threads::shrink_large(family, block, (old, new)) }?
        }
        // SAFETY: the caller's; the new size is the smaller one.
        _ => match unsafe { relocate(here, family, block, (old, new), new.size()) } {
            Ok(moved) => moved,
            // SAFETY: the caller's.
            Err(AllocError) => unsafe { shrink_at_the_limit(here, family, block, (old, new)) }?,
        },
    };
    Ok(block_of(slot, new))
}

/// Shrinks a block to another class, or from or to the global heap, where there is no memory to move it to.
///
/// It stays where it is if units of both classes are equally large: its slot is then one of the old class, which
/// goes back by way of its unit's header, as a remote free does. Otherwise it moves beyond the limit.
///
/// # Errors
/// When the global heap refuses; the old block is then as it was.
///
/// # Safety
/// As [`shrink`].
#[cold]
#[inline(never)]
unsafe fn shrink_at_the_limit(
    here: Cell,
    family: &'static Family,
    block: NonNull<u8>,
    (old, new): (Layout, Layout),
) -> Result<NonNull<u8>, AllocError> {
    if let (Some(class), Some(other)) = (class::of(old), class::of(new)) {
        if class::unit_size(class) == class::unit_size(other) && block.addr().get() % new.align() == 0 {
            // SAFETY: the caller's block, of the first class.
            return Ok(unsafe { shrink_in_place(block, class, (old, new)) });
        }
    }
    let moved = threads::allocate_beyond(family, new)?;
    // SAFETY: the caller's; a fresh block of the new layout, whose size is the smaller one.
    unsafe { move_to(here, family, moved, (block, old), new.size()) };
    Ok(moved)
}

/// Marks what is freed of a block that stays in its slot, but for the bytes that the link will need.
///
/// # Safety
/// `block` is a live block of the first layout, in a slot of this class; the second layout is not larger.
#[inline]
unsafe fn shrink_in_place(block: NonNull<u8>, class: usize, (old, new): (Layout, Layout)) -> NonNull<u8> {
    let kept = new.size().max(LINK);
    if old.size() > kept {
        // SAFETY: the block's own tail.
        let tail = unsafe { block.add(kept) };
        // SAFETY: the caller gives it up.
        unsafe { poison(tail, old.size() - kept) };
    }
    // SAFETY: the caller's block, of this class.
    unsafe { whole_slot(block, class) }
}

/// Moves a block to a new one that this function allocates. Without memory for it, the old block stays as it was.
///
/// # Safety
/// `block` is a live block of the first layout; neither layout has less than `keep` bytes.
#[inline(never)]
unsafe fn relocate(
    here: Cell,
    family: &'static Family,
    block: NonNull<u8>,
    (old, new): (Layout, Layout),
    keep: usize,
) -> Result<NonNull<u8>, AllocError> {
    // SAFETY: the block is of an allocator with this thread-local and this family.
    let moved = unsafe { allocate(here, family, new) }?.cast::<u8>();
    // SAFETY: the caller's block, and a fresh one; both have `keep` bytes at least.
    unsafe { move_to(here, family, moved, (block, old), keep) };
    Ok(moved)
}

/// Copies `keep` bytes of a block to a fresh one, and frees the old one.
///
/// # Safety
/// `block` is a live block of the layout beside it, `moved` is another live block; both have `keep` bytes at least.
#[inline(always)]
unsafe fn move_to(
    here: Cell,
    family: &'static Family,
    moved: NonNull<u8>,
    (block, old): (NonNull<u8>, Layout),
    keep: usize,
) {
    // SAFETY: the caller's; live blocks do not overlap.
    unsafe { moved.copy_from_nonoverlapping(block, keep) };
    // SAFETY: the caller's block, given up.
    unsafe { deallocate(here, family, block, old) };
}

/// The same block by a pointer with the right to all of its slot.
///
/// # Safety
/// `block` is a live block of this class.
#[inline]
unsafe fn whole_slot(block: NonNull<u8>, class: usize) -> NonNull<u8> {
    // SAFETY: units are aligned to their mask, start with a `Unit` and were exposed when they were made; that of a live slot is not
    // freed (H4).
    let unit = unsafe { header_of::<Unit>(block, class::unit_size(class)) };
    let slot = unit.as_ptr().cast::<u8>().with_addr(block.addr().get());
    // SAFETY: the block's address is not null.
    unsafe { NonNull::new_unchecked(slot) }
}

/// Gives back what this thread has in vain.
pub fn trim(family: &'static Family) {
    threads::trim_here(family);
}

/// As [`trim`], also for what ended threads left behind, and asks the others.
pub fn trim_all(family: &'static Family) {
    threads::trim_all(family);
}

/// Sets the most bytes that may be held.
pub fn set_limit(family: &'static Family, bytes: usize) {
    family.account().set_limit(bytes);
}

/// What all threads hold and what of it is alive.
#[must_use]
pub fn stats(family: &'static Family) -> Stats {
    family.stats()
}
