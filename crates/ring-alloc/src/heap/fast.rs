//! What every allocation and every free goes through.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;
use ephemera_prim::poison::poison;

use super::{Env, chunk_of, large, slow};
use crate::geometry::Class;
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
/// # Safety
/// `block` is a live block of this layout, from a heap of the same kind as `env`'s.
#[inline]
pub(crate) unsafe fn deallocate<E: Env>(env: E, block: NonNull<u8>, layout: Layout) {
    if Class::is_small::<E::Geometry>(layout) {
        // SAFETY: the caller's block, of this class.
        unsafe { deallocate_in(env, block, layout, Class::Small) };
    } else {
        // SAFETY: the caller's block.
        unsafe { deallocate_other(env, block, layout) };
    }
}

/// The same for layouts that are not small.
///
/// # Safety
/// As [`deallocate`].
#[inline(never)]
unsafe fn deallocate_other<E: Env>(env: E, block: NonNull<u8>, layout: Layout) {
    match Class::of::<E::Geometry>(layout) {
        // SAFETY: the caller's block, of this class.
        Some(class) => unsafe { deallocate_in(env, block, layout, class) },
        // SAFETY: the caller's block, of a layout without a class.
        None => unsafe { large::deallocate(env, block, layout) },
    }
}

/// # Safety
/// As [`deallocate`], and `class` is the layout's.
#[inline]
unsafe fn deallocate_in<E: Env>(env: E, block: NonNull<u8>, layout: Layout, class: Class) {
    // SAFETY: a live block of this class.
    let (chunk, front) = unsafe { chunk_of::<E::Geometry>(env.heap(), block, class) };
    // SAFETY: the block is the caller's to give up; it is not booked yet, so nobody gets it before that.
    unsafe { poison(block, layout.size()) };
    if front {
        chunk.free_front(block.addr().get(), layout.size());
    } else if env.owns(chunk) {
        if chunk.book(Live::block(layout.size())) {
            slow::drained(env, chunk, class);
        }
    } else {
        // SAFETY: the block was the caller's, in a chunk of another owner.
        unsafe { env.give_back(chunk, Live::block(layout.size())) };
    }
}
