//! Grows and shrinks blocks, and allocates zeroed blocks.
//!
//! A block in a chunk can stay in place only if its class stays the same and its address fits the
//! new alignment. If so, the block can always shrink in place. It can grow in place if it is also
//! the top block of a front that the caller owns, and there is room after it.
//!
//! When a block shrinks in the middle of a chunk, its tail stays unused until the chunk runs empty
//! or the tail's section is in a hole. If the block moved instead, all of its old bytes would stay
//! unused until then.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;
use ephemera_prim::account::Limit;
use ephemera_prim::poison::poison;

use super::{RingEnv, chunk_of, fast, holes, large};
use crate::cursor::room_of;
use crate::geometry::{ChunkClass, Geometry};

/// Allocates a block of this layout, and sets all of its bytes to zero.
#[inline]
pub(crate) fn allocate_zeroed<E: RingEnv>(env: E, layout: Layout) -> Result<NonNull<u8>, AllocError> {
    if ChunkClass::of::<E::Geometry>(layout).is_none() {
        return large::allocate_zeroed(env, layout);
    }
    let block = fast::allocate(env, layout)?;
    // SAFETY: the block is new and has `layout.size()` bytes.
    unsafe { block.write_bytes(0, layout.size()) };
    Ok(block)
}

/// Grows a block: in place if possible, and otherwise by moving it. The bytes that the block gains
/// are zero if `zeroed`. This function is inlined so that the compiler specialises it for the
/// constant of each caller.
///
/// # Safety
/// `block` is a live block of layout `old` from the allocator of `env`, and `new` is not smaller.
#[inline(always)]
pub(crate) unsafe fn grow<E: RingEnv>(
    env: E,
    block: NonNull<u8>,
    old: Layout,
    new: Layout,
    zeroed: bool,
) -> Result<NonNull<u8>, AllocError> {
    // SAFETY: the caller's block is live with layout `old`, and `new` is not smaller.
    let Some(grown) = (unsafe { grow_in_place(env, block, old, new) }) else {
        // SAFETY: the failed attempt left the block unchanged, so it is still live with layout
        // `old`.
        return unsafe { grow_elsewhere(env, block, old, new, zeroed) };
    };
    if zeroed {
        // SAFETY: the grown block has `new.size()` bytes.
        unsafe { zero_tail(grown, old, new) };
    }
    Ok(grown)
}

/// Grows the top block of a front in place, if the front is the first cursor of its chunk, there is
/// room after the block, and [`same_class`] returns a class. Otherwise, returns `None` and leaves
/// the block unchanged.
///
/// # Safety
/// `block` is a live block of layout `old` from the allocator of `env`, and `new` is not smaller.
#[inline]
unsafe fn grow_in_place<E: RingEnv>(
    env: E,
    block: NonNull<u8>,
    old: Layout,
    new: Layout,
) -> Option<NonNull<u8>> {
    let class = same_class::<E>(block, old, new)?;
    // SAFETY: the caller's live block is of this class, which follows from its layout alone.
    let (chunk, front) = unsafe { chunk_of(env, block, class) };
    let start = block.addr().get();
    (front && chunk.front().grow_top(start, old.size(), new.size())).then(|| chunk.at(start))
}

/// Returns the class of both layouts, if they have the same class and the block's address fits the
/// new alignment. Otherwise, and for layouts without a class, returns `None`.
#[inline]
fn same_class<E: RingEnv>(block: NonNull<u8>, old: Layout, new: Layout) -> Option<ChunkClass> {
    let class = ChunkClass::of::<E::Geometry>(old)?;
    let aligned = block.addr().get() & (new.align() - 1) == 0 || weakened!("resize_misaligned");
    (aligned && ChunkClass::of::<E::Geometry>(new) == Some(class)).then_some(class)
}

/// Grows a block that [`grow_in_place`] left unchanged. The block stays in place if [`same_class`]
/// returns its class, and either its size does not change or [`grow_in_hole`] grows it. If both
/// layouts are large, the backing allocator's own method grows the block. Any other block moves.
/// The new bytes are zero if `zeroed`.
///
/// # Safety
/// `block` is a live block of layout `old` from the allocator of `env`, and `new` is not smaller.
#[inline(never)]
unsafe fn grow_elsewhere<E: RingEnv>(
    env: E,
    block: NonNull<u8>,
    old: Layout,
    new: Layout,
    zeroed: bool,
) -> Result<NonNull<u8>, AllocError> {
    let stays = same_class::<E>(block, old, new).is_some()
        && (old.size() == new.size() || grow_in_hole(env, block, old, new));
    let grown = if stays {
        block
    } else if is_large::<E>(old) && is_large::<E>(new) {
        // SAFETY: the caller's block is live with layout `old`, `new` is not smaller, and both
        // layouts are large.
        return unsafe { large::grow(env, block, (old, new), zeroed) };
    } else {
        // SAFETY: the caller's block is live with layout `old`, and both layouts have at least
        // `old.size()` bytes.
        unsafe { relocate(env, block, old, new, old.size(), Limit::Applies) }?
    };
    if zeroed {
        // SAFETY: the block now has `new.size()` bytes.
        unsafe { zero_tail(grown, old, new) };
    }
    Ok(grown)
}

/// Grows a live block of layout `old` in place if it is the top block of the hole through which the
/// front runs, and there is room after it. Otherwise, returns `false` and leaves it unchanged.
fn grow_in_hole<E: RingEnv>(env: E, block: NonNull<u8>, old: Layout, new: Layout) -> bool {
    // Only blocks in that small chunk have its address as their base.
    let base = ephemera_prim::raw::base_addr(block, E::Geometry::SMALL_CHUNK);
    let chunk = env.heap().divided_front().filter(|chunk| chunk.addr() == base);
    chunk.is_some_and(|chunk| chunk.current().grow_top(block.addr().get(), old.size(), new.size()))
}

/// Shrinks a block: in place if possible, and otherwise by moving it.
///
/// # Safety
/// `block` is a live block of layout `old` from the allocator of `env`, and `new` is not larger.
#[inline]
pub(crate) unsafe fn shrink<E: RingEnv>(
    env: E,
    block: NonNull<u8>,
    old: Layout,
    new: Layout,
) -> Result<NonNull<u8>, AllocError> {
    let Some(class) = same_class::<E>(block, old, new) else {
        // SAFETY: the caller's block is live with layout `old`, and `new` is not larger.
        return unsafe { shrink_elsewhere(env, block, old, new) };
    };
    let less = old.size() - new.size();
    if less == 0 {
        return Ok(block);
    }
    // SAFETY: the caller's live block is of this class, which follows from its layout alone.
    let (chunk, front) = unsafe { chunk_of(env, block, class) };
    let start = block.addr().get();
    // SAFETY: the block has more than `new.size()` bytes.
    let tail = unsafe { block.add(new.size()) };
    // SAFETY: the caller gives up the tail of its block. The bytes are neither counted nor booked
    // as freed yet, so only the caller accesses them.
    unsafe { poison(tail, less) };
    let [from, to] = [new, old].map(|layout| start + room_of(layout.size()));
    if env.owns(chunk) {
        chunk.shrink(start, old.size(), new.size(), front);
        if !front && chunk.is_divided() && chunk.free_tail::<E::Geometry>(from..to) {
            holes::list(env, chunk);
        }
    } else {
        // SAFETY: `owns` returned `false`. The count covers the tail, which the caller gives up.
        unsafe { holes::shrink_remotely(env, from..to, less, chunk) };
    }
    Ok(chunk.at(start))
}

/// Shrinks a block that cannot stay in place in a chunk: with the backing allocator's own method if
/// both layouts are large, and otherwise by moving it.
///
/// # Safety
/// `block` is a live block of layout `old` from the allocator of `env`, and `new` is not larger.
#[inline(never)]
unsafe fn shrink_elsewhere<E: RingEnv>(
    env: E,
    block: NonNull<u8>,
    old: Layout,
    new: Layout,
) -> Result<NonNull<u8>, AllocError> {
    if is_large::<E>(old) && is_large::<E>(new) {
        // SAFETY: the caller's block is live with layout `old`, `new` is not larger, and both
        // layouts are large.
        return unsafe { large::shrink(env, block, (old, new)) };
    }
    // SAFETY: the caller's block is live with layout `old`, and both layouts have at least
    // `new.size()` bytes.
    unsafe { relocate(env, block, old, new, new.size(), Limit::Lifted) }
}

/// Returns whether blocks of this layout come directly from the backing allocator.
#[inline]
fn is_large<E: RingEnv>(layout: Layout) -> bool {
    layout.size() != 0 && ChunkClass::of::<E::Geometry>(layout).is_none()
}

/// Moves a block: allocates a new one, copies `keep` bytes and frees the old one. If `limit` is
/// [`Limit::Lifted`], the new block may exceed the limit. If the allocation fails, the old block is
/// unchanged.
///
/// # Safety
/// `block` is a live block of layout `old` from the allocator of `env`. Both layouts have at least
/// `keep` bytes.
unsafe fn relocate<E: RingEnv>(
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
    // SAFETY: both blocks have at least `keep` bytes, and a new block overlaps no live one.
    unsafe { moved.copy_from_nonoverlapping(block, keep) };
    // SAFETY: the caller's block is live with layout `old`, and nothing uses it again.
    unsafe { fast::deallocate(env, block, old) };
    Ok(moved)
}

/// Sets the bytes that a grown block gained to zero.
///
/// # Safety
/// `block` is a live block of `new.size()` bytes, which are at least `old.size()`.
#[inline]
unsafe fn zero_tail(block: NonNull<u8>, old: Layout, new: Layout) {
    // SAFETY: the offset is within the caller's block.
    let tail = unsafe { block.add(old.size()) };
    // SAFETY: the caller's block has `new.size()` bytes.
    unsafe { tail.write_bytes(0, new.size() - old.size()) };
}
