//! Growing, shrinking, and zeroed blocks.
//!
//! A block stays where it is if its class stays the same, its address fits the new alignment, and: to grow, if it is
//! the top block of a front that the caller owns and the room behind it suffices; to shrink, always. A block
//! that shrinks in the middle of a chunk leaves its tail unused until the chunk is drained, as it
//! would leave all of itself unused if it moved.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;
use ephemera_prim::align::is_aligned;
use ephemera_prim::poison::poison;

use super::{Env, chunk_of, fast, large};
use crate::account::Limit;
use crate::geometry::Class;
use crate::live::Live;

/// A block of this layout, all bytes zero.
#[inline]
pub(crate) fn allocate_zeroed<E: Env>(env: E, layout: Layout) -> Result<NonNull<u8>, AllocError> {
    if Class::of::<E::Geometry>(layout).is_none() {
        return large::allocate_zeroed(env, layout);
    }
    let block = fast::allocate(env, layout)?;
    // SAFETY: a fresh block of that many bytes.
    unsafe { block.write_bytes(0, layout.size()) };
    Ok(block)
}

/// Grows a block: in place if it can, else by moving it.
///
/// # Safety
/// `block` is a live block of layout `old`, and `new` is not smaller.
#[inline]
pub(crate) unsafe fn grow<E: Env>(
    env: E,
    block: NonNull<u8>,
    old: Layout,
    new: Layout,
) -> Result<NonNull<u8>, AllocError> {
    // SAFETY: the caller's block and layouts.
    match unsafe { grow_in_place(env, block, old, new) } {
        Some(grown) => Ok(grown),
        // SAFETY: the same; nothing was changed.
        None => unsafe { grow_elsewhere(env, block, old, new, false) },
    }
}

/// As [`grow`]; bytes from `old.size()` on are zero.
///
/// # Safety
/// As [`grow`].
#[inline]
pub(crate) unsafe fn grow_zeroed<E: Env>(
    env: E,
    block: NonNull<u8>,
    old: Layout,
    new: Layout,
) -> Result<NonNull<u8>, AllocError> {
    // SAFETY: the caller's block and layouts.
    let Some(grown) = (unsafe { grow_in_place(env, block, old, new) }) else {
        // SAFETY: the same; nothing was changed.
        return unsafe { grow_elsewhere(env, block, old, new, true) };
    };
    // SAFETY: the grown block has `new.size()` bytes.
    unsafe { zero_tail(grown, old, new) };
    Ok(grown)
}

/// # Safety
/// As [`grow`].
#[inline]
unsafe fn grow_in_place<E: Env>(env: E, block: NonNull<u8>, old: Layout, new: Layout) -> Option<NonNull<u8>> {
    let class = same_class::<E>(block, old, new)?;
    // SAFETY: the caller's live block, whose class follows from its layout alone: H3 keeps its chunk.
    let (chunk, front) = unsafe { chunk_of(env, block, class) };
    let start = block.addr().get();
    (front && chunk.grow_top(start, old.size(), new.size())).then(|| chunk.at(start))
}

/// The class of both layouts, if it is one, and the block's address fits the new one.
#[inline]
fn same_class<E: Env>(block: NonNull<u8>, old: Layout, new: Layout) -> Option<Class> {
    let class = Class::of::<E::Geometry>(old)?;
    let aligned = is_aligned(block.addr().get(), new.align()) || cfg!(ephemera_weaken = "resize_misaligned");
    (aligned && Class::of::<E::Geometry>(new) == Some(class)).then_some(class)
}

/// Grows by the backing allocator's own means where both layouts are its, else by moving.
///
/// # Safety
/// As [`grow`].
#[inline(never)]
unsafe fn grow_elsewhere<E: Env>(
    env: E,
    block: NonNull<u8>,
    old: Layout,
    new: Layout,
    zeroed: bool,
) -> Result<NonNull<u8>, AllocError> {
    if old.size() == new.size() && same_class::<E>(block, old, new).is_some() {
        return Ok(block);
    }
    if is_large::<E>(old) && is_large::<E>(new) {
        // SAFETY: the caller's block and layouts, both the backing allocator's.
        return unsafe { large::grow(env, block, old, new, zeroed) };
    }
    // SAFETY: the caller's block and layouts; the old size is the smaller one.
    let moved = unsafe { relocate(env, block, old, new, old.size(), Limit::Applies) }?;
    if zeroed {
        // SAFETY: the new block has `new.size()` bytes.
        unsafe { zero_tail(moved, old, new) };
    }
    Ok(moved)
}

/// Shrinks a block: in place if it can, else by moving it.
///
/// # Safety
/// `block` is a live block of layout `old`, and `new` is not larger.
#[inline]
pub(crate) unsafe fn shrink<E: Env>(
    env: E,
    block: NonNull<u8>,
    old: Layout,
    new: Layout,
) -> Result<NonNull<u8>, AllocError> {
    let Some(class) = same_class::<E>(block, old, new) else {
        // SAFETY: the caller's block and layouts.
        return unsafe { shrink_elsewhere(env, block, old, new) };
    };
    let less = old.size() - new.size();
    if less == 0 {
        return Ok(block);
    }
    // SAFETY: the caller's live block, whose class follows from its layout alone: H3 keeps its chunk.
    let (chunk, front) = unsafe { chunk_of(env, block, class) };
    let start = block.addr().get();
    // SAFETY: the block's own tail.
    let tail = unsafe { block.add(new.size()) };
    // SAFETY: the caller gives the tail up; it is not booked yet.
    unsafe { poison(tail, less) };
    if env.owns(chunk) {
        chunk.shrink(start, old.size(), new.size(), front);
    } else {
        // SAFETY: the tail was the caller's; the block itself stays counted, so the chunk lives on.
        unsafe { env.give_back(chunk, Live::resized(less)) };
    }
    Ok(chunk.at(start))
}

/// # Safety
/// As [`shrink`].
#[inline(never)]
unsafe fn shrink_elsewhere<E: Env>(
    env: E,
    block: NonNull<u8>,
    old: Layout,
    new: Layout,
) -> Result<NonNull<u8>, AllocError> {
    if is_large::<E>(old) && is_large::<E>(new) {
        // SAFETY: the caller's block and layouts, both the backing allocator's.
        return unsafe { large::shrink(env, block, old, new) };
    }
    // SAFETY: the caller's block and layouts; the new size is the smaller one.
    unsafe { relocate(env, block, old, new, new.size(), Limit::Lifted) }
}

/// Whether blocks of this layout are the backing allocator's own.
#[inline]
fn is_large<E: Env>(layout: Layout) -> bool {
    layout.size() != 0 && Class::of::<E::Geometry>(layout).is_none()
}

/// Moves a block: a new one, `keep` bytes copied, the old one freed. If there is no new one, the old one is as it was.
///
/// # Safety
/// `block` is a live block of layout `old`; neither layout has less than `keep` bytes.
unsafe fn relocate<E: Env>(
    env: E,
    block: NonNull<u8>,
    old: Layout,
    new: Layout,
    keep: usize,
    limit: Limit,
) -> Result<NonNull<u8>, AllocError> {
    let moved = match fast::allocate(env, new) {
        Err(AllocError) if limit == Limit::Lifted => fast::allocate_beyond(env, new)?,
        answer => answer?,
    };
    // SAFETY: two blocks, both with `keep` bytes at least, and a new block overlaps no live one.
    unsafe { moved.copy_from_nonoverlapping(block, keep) };
    // SAFETY: the caller's block, given up.
    unsafe { fast::deallocate(env, block, old) };
    Ok(moved)
}

/// # Safety
/// `block` has `new.size()` bytes, not fewer than `old.size()`.
#[inline]
unsafe fn zero_tail(block: NonNull<u8>, old: Layout, new: Layout) {
    // SAFETY: within the block, by the caller.
    let tail = unsafe { block.add(old.size()) };
    // SAFETY: as above.
    unsafe { tail.write_bytes(0, new.size() - old.size()) };
}
