//! What every allocation and every free goes through.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;
use ephemera_prim::header::base_addr;
use ephemera_prim::poison::poison;

use super::{Env, chunk_behind, chunk_of, large, slow};
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

#[inline]
fn allocate_in<E: Env>(env: E, layout: Layout, class: Class) -> Result<NonNull<u8>, AllocError> {
    match env.heap().front(class).bump(layout.size(), layout.align()) {
        Some(block) => Ok(block),
        None => env.refill(layout, class),
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
        // SAFETY: the caller's block.
        return unsafe { deallocate_other(env, block, layout) };
    }
    // SAFETY: the block is the caller's to give up; it is not booked yet, so nobody gets it before that.
    unsafe { poison(block, layout.size()) };
    let front = env.heap().front(Class::Small);
    if base_addr(block, E::Geometry::SMALL_CHUNK) == front.addr() {
        front.free_front(block.addr().get(), layout.size());
    } else {
        // SAFETY: a live block of the small class.
        unsafe { deallocate_behind(env, block, layout.size()) };
    }
}

/// The same for small blocks that do not lie in the front.
///
/// # Safety
/// As [`deallocate`].
#[inline(never)]
unsafe fn deallocate_behind<E: Env>(env: E, block: NonNull<u8>, size: usize) {
    // SAFETY: a live block of this class.
    let chunk = unsafe { chunk_behind::<E::Geometry>(block, Class::Small) };
    // SAFETY: the caller's block, in this chunk.
    unsafe { book(env, chunk, Live::block(size), Class::Small) };
}

/// The same for layouts that are not small.
///
/// # Safety
/// As [`deallocate`].
#[inline(never)]
unsafe fn deallocate_other<E: Env>(env: E, block: NonNull<u8>, layout: Layout) {
    let Some(class) = Class::of::<E::Geometry>(layout) else {
        // SAFETY: the caller's block, of a layout without a class.
        return unsafe { large::deallocate(env, block, layout) };
    };
    // SAFETY: a live block of this class.
    let (chunk, front) = unsafe { chunk_of::<E::Geometry>(env.heap(), block, class) };
    // SAFETY: as in `deallocate`.
    unsafe { poison(block, layout.size()) };
    if front {
        chunk.free_front(block.addr().get(), layout.size());
    } else {
        // SAFETY: the caller's block, in this chunk.
        unsafe { book(env, chunk, Live::block(layout.size()), class) };
    }
}

/// Books what comes home to a chunk that is not the front, or sends it to the chunk's owner.
///
/// # Safety
/// `given` stands for a block of `chunk` that the caller had and gives up.
#[inline]
unsafe fn book<E: Env>(env: E, chunk: ChunkPtr, given: Live, class: Class) {
    if !env.owns(chunk) {
        // SAFETY: the caller's, in a chunk of another owner.
        unsafe { env.give_back(chunk, given) };
    } else if chunk.book(given) {
        slow::drained(env, chunk, class);
    }
}
