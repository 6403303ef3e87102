//! What every allocation and every free goes through.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;
use ephemera_prim::header::base_addr;
use ephemera_prim::poison::poison;

use super::{Env, chunk_behind, chunk_of, large, slow};
use crate::account::Limit;
use crate::chunk::ChunkPtr;
use crate::geometry::{Class, Geometry};
use crate::live::Live;

/// A block of this layout. Nothing in it is initialised.
#[inline]
pub(crate) fn allocate<E: Env>(env: E, layout: Layout) -> Result<NonNull<u8>, AllocError> {
    if Class::is_small::<E::Geometry>(layout) {
        return allocate_in(env, layout, Class::Small);
    }
    allocate_other(env, layout)
}

/// The same for layouts that are not small: code that is not repeated at every call.
#[inline(never)]
fn allocate_other<E: Env>(env: E, layout: Layout) -> Result<NonNull<u8>, AllocError> {
    match Class::of::<E::Geometry>(layout) {
        Some(class) => allocate_in(env, layout, class),
        None => large::allocate(env, layout),
    }
}

/// A block of this layout, whatever the limit is: for one that shrinks, and has to move for it.
#[cold]
pub(super) fn allocate_beyond<E: Env>(env: E, layout: Layout) -> Result<NonNull<u8>, AllocError> {
    match Class::of::<E::Geometry>(layout) {
        Some(class) => env.refill(layout, class, Limit::Lifted),
        None => large::allocate_beyond(env, layout),
    }
}

#[inline]
fn allocate_in<E: Env>(env: E, layout: Layout, class: Class) -> Result<NonNull<u8>, AllocError> {
    match env.front(class).bump(layout.size(), layout.align()) {
        Some(block) => Ok(block),
        None => env.refill(layout, class, Limit::Applies),
    }
}

/// Gives back a block.
///
/// A small one that comes home to the front is all that is repeated at every call: little enough for the compiler to take
/// a container's drop into the function that has the container, which then lives in registers.
///
/// # Safety
/// `block` is a live block of this layout, from a heap of the same kind as `env`'s.
#[inline]
pub(crate) unsafe fn deallocate<E: Env>(env: E, block: NonNull<u8>, layout: Layout) {
    if !Class::is_small::<E::Geometry>(layout) {
        // SAFETY: the caller's block, whose layout is not small.
        return unsafe { deallocate_other(env, block, layout) };
    }
    // SAFETY: H3: a block that is not booked yet keeps its chunk from being used again, so nobody but the caller has these bytes.
    unsafe { poison(block, layout.size()) };
    let front = env.front(Class::Small);
    if base_addr(block, E::Geometry::SMALL_CHUNK) == front.addr() {
        front.free_front(block.addr().get(), layout.size());
    } else {
        // SAFETY: the caller's block; its chunk, found by its address, is not the front.
        unsafe { deallocate_behind(env, block, layout.size()) };
    }
}

/// The same for small blocks that do not lie in the front.
///
/// # Safety
/// `block` is a live block of the small class, of `size` bytes, which are poisoned already; it is not in the front of `env`'s heap.
#[inline(never)]
unsafe fn deallocate_behind<E: Env>(env: E, block: NonNull<u8>, size: usize) {
    // SAFETY: the caller's live block is of this class, and of a heap of this geometry.
    let chunk = unsafe { chunk_behind::<E::Geometry>(block, Class::Small) };
    // SAFETY: the count of the caller's block, in this chunk, which is not the front.
    unsafe { book(env, chunk, Live::block(size), Class::Small) };
}

/// The same for layouts that are not small.
///
/// # Safety
/// As [`deallocate`]; the layout is not small.
#[inline(never)]
unsafe fn deallocate_other<E: Env>(env: E, block: NonNull<u8>, layout: Layout) {
    let Some(class) = Class::of::<E::Geometry>(layout) else {
        // SAFETY: a layout without a class has its block from the backing allocator: the class follows from the layout alone.
        return unsafe { large::deallocate(env, block, layout) };
    };
    // SAFETY: the caller's live block; the class follows from its layout alone.
    let (chunk, front) = unsafe { chunk_of(env, block, class) };
    // SAFETY: H3, as in `deallocate`.
    unsafe { poison(block, layout.size()) };
    if front {
        chunk.free_front(block.addr().get(), layout.size());
    } else {
        // SAFETY: the count of the caller's block, in this chunk, which is not the front.
        unsafe { book(env, chunk, Live::block(layout.size()), class) };
    }
}

/// Books what comes home to a chunk that is not the front, or sends it to the chunk's owner.
///
/// # Safety
/// `given` stands for a block of `chunk` that the caller had and gives up. `chunk` is not the front of `env`'s heap: drained, it goes to the
/// empties (H4). It is not touched afterwards: its memory may have gone back.
#[inline]
unsafe fn book<E: Env>(env: E, chunk: ChunkPtr, given: Live, class: Class) {
    if !env.owns(chunk) {
        // SAFETY: what `given` counts was the caller's, and H3 keeps the chunk of another owner until that is booked.
        unsafe { env.give_back(chunk, given) };
    } else if chunk.book(given) {
        slow::drained(env, chunk, class);
    }
}
