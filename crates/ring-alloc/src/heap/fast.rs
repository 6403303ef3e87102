//! The fast path of every allocation and every free. `RingAlloc` and `OneRingAlloc` call these
//! functions, each with its own [`RingEnv`]. The code for small blocks in the front is inlined into
//! each call site, so compare the instruction counts after a change (`cargo xtask bench --icount`).

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;
use ephemera_prim::account::Limit;
use ephemera_prim::poison::poison;
use ephemera_prim::raw::base_addr;

use super::{RingEnv, chunk_behind, chunk_of, holes, large, slow};
use crate::chunk::ChunkPtr;
use crate::geometry::{ChunkClass, Geometry};
use crate::live::LiveCount;

/// Allocates an uninitialised block of this layout.
#[inline]
pub(crate) fn allocate<E: RingEnv>(env: E, layout: Layout) -> Result<NonNull<u8>, AllocError> {
    if ChunkClass::is_small::<E::Geometry>(layout) {
        return allocate_in(env, layout, ChunkClass::Small);
    }
    allocate_other(env, layout)
}

/// Allocates a block whose layout is not small. This function is not inlined, to keep call sites
/// short.
#[inline(never)]
fn allocate_other<E: RingEnv>(env: E, layout: Layout) -> Result<NonNull<u8>, AllocError> {
    match ChunkClass::of::<E::Geometry>(layout) {
        Some(class) => allocate_in(env, layout, class),
        None => large::allocate(env, layout),
    }
}

/// Allocates a block of this layout, even if the limit is then exceeded, for a shrink that must
/// move its block.
#[cold]
pub(super) fn allocate_beyond<E: RingEnv>(env: E, layout: Layout) -> Result<NonNull<u8>, AllocError> {
    match ChunkClass::of::<E::Geometry>(layout) {
        Some(class) => env.refill(layout, class, Limit::Lifted),
        None => large::allocate_beyond(env, layout),
    }
}

#[inline]
fn allocate_in<E: RingEnv>(env: E, layout: Layout, class: ChunkClass) -> Result<NonNull<u8>, AllocError> {
    match holes::bump::<E::Geometry>(env.front(class), layout) {
        Some(block) => Ok(block),
        None => env.refill(layout, class, Limit::Applies),
    }
}

/// Frees a block.
///
/// Only the free of a small block in the front is inlined. This inlined code is so short that the
/// compiler also inlines a container's drop into the function that owns the container. The
/// container then stays in registers.
///
/// # Safety
/// `block` is a live block of this layout, from the allocator that `env` belongs to.
#[inline]
pub(crate) unsafe fn deallocate<E: RingEnv>(env: E, block: NonNull<u8>, layout: Layout) {
    if !ChunkClass::is_small::<E::Geometry>(layout) {
        // SAFETY: the caller's block is live, and its layout is not small.
        return unsafe { deallocate_other(env, block, layout) };
    }
    // SAFETY: the caller gives up its block of this layout. The bytes are neither counted nor
    // booked as freed yet, and are not reused before that (H3, S2), so only the caller accesses
    // them.
    unsafe { poison(block, layout.size()) };
    let front = env.front(ChunkClass::Small);
    if base_addr(block, E::Geometry::SMALL_CHUNK) == front.addr() {
        // SAFETY: the front is at the chunk's base, so it is the chunk's first cursor.
        unsafe { front.chunk() }.free_front(block.addr().get(), layout.size());
    } else {
        // SAFETY: the caller's small block is live, its bytes were poisoned above, and its address
        // shows that the first cursor of its chunk is not the front.
        unsafe { deallocate_behind(env, block, layout.size()) };
    }
}

/// Frees a small block in a chunk whose first cursor is not the front.
///
/// # Safety
/// `block` is a live block of the small class, from the allocator that `env` belongs to. It has
/// `size` bytes, which are poisoned already. The first cursor of its chunk is not the front of
/// `env`'s heap.
#[inline(never)]
unsafe fn deallocate_behind<E: RingEnv>(env: E, block: NonNull<u8>, size: usize) {
    // SAFETY: the caller's live block is of this class and geometry.
    let chunk = unsafe { chunk_behind::<E::Geometry>(block, ChunkClass::Small) };
    // SAFETY: the caller gives up its block in this chunk, whose first cursor is not the front. The
    // chunk is not used after this call.
    unsafe { book(env, chunk, block, size, ChunkClass::Small) };
}

/// Frees a block whose layout is not small.
///
/// # Safety
/// `block` is a live block of this layout, which is not small, from the allocator that `env`
/// belongs to.
#[inline(never)]
unsafe fn deallocate_other<E: RingEnv>(env: E, block: NonNull<u8>, layout: Layout) {
    let Some(class) = ChunkClass::of::<E::Geometry>(layout) else {
        // SAFETY: the class follows from the layout alone, so `large` also allocated this block.
        return unsafe { large::deallocate(env, block, layout) };
    };
    // SAFETY: the caller's live block is of this class and geometry.
    let (chunk, front) = unsafe { chunk_of(env, block, class) };
    // SAFETY: the caller gives up its block of this layout. The free is not booked yet, and the
    // bytes are not reused before that (H3), so only the caller accesses them.
    unsafe { poison(block, layout.size()) };
    if front {
        chunk.free_front(block.addr().get(), layout.size());
    } else {
        // SAFETY: the caller gives up its block in this chunk, which is not the front. The chunk is
        // not used after this call.
        unsafe { book(env, chunk, block, layout.size(), class) };
    }
}

/// Books a free if `env` owns the chunk, and otherwise frees remotely.
///
/// # Safety
/// `block` is a block of `size` bytes in `chunk` that the caller owned and gives up. The first
/// cursor of `chunk` is not the front of `env`'s heap. The caller does not use `chunk` afterwards,
/// because this call may free the chunk.
#[inline(always)]
unsafe fn book<E: RingEnv>(env: E, chunk: ChunkPtr, block: NonNull<u8>, size: usize, class: ChunkClass) {
    if !env.owns(chunk) {
        // SAFETY: `owns` returned `false`, and the caller gives up its block. The chunk is not
        // freed before this free is booked (H3).
        return unsafe { holes::free_remotely(env, block.addr().get(), size, chunk) };
    }
    let Err(back) = chunk.book_quickly(LiveCount::block(size)) else { return };
    if class == ChunkClass::Small && chunk.is_divided() {
        return slow::book_divided(env, block.addr().get(), size, chunk, back);
    }
    // SAFETY: the caller gives up its block in this chunk, which `env` owns and whose first cursor
    // is not the front.
    unsafe { slow::book(env, block, size, class) };
}
