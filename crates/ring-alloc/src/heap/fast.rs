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
pub(crate) fn allocate<E: Env>(env: &E, layout: Layout) -> Result<NonNull<u8>, AllocError> {
    let Some(class) = Class::of::<E::Geometry>(layout) else {
        return large::allocate(env, layout);
    };
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
pub(crate) unsafe fn deallocate<E: Env>(env: &E, block: NonNull<u8>, layout: Layout) {
    let Some(class) = Class::of::<E::Geometry>(layout) else {
        // SAFETY: the caller's block, of a layout without a class.
        return unsafe { large::deallocate(env, block, layout) };
    };
    // SAFETY: a live block of this class.
    let (chunk, front) = unsafe { chunk_of::<E::Geometry>(env.heap(), block, class) };
    // SAFETY: the block is the caller's to give up; it is not booked yet, so nobody gets it before that.
    unsafe { poison(block, layout.size()) };
    let given = Live::block(layout.size());
    if front {
        let left = chunk.book(given);
        chunk.retreat(block.addr().get(), layout.size(), left);
    } else if env.owns(chunk) {
        if chunk.book(given) == Live::NONE {
            slow::drained(env, chunk, class);
        }
    } else {
        // SAFETY: the block was the caller's, in a chunk of another owner.
        unsafe { env.give_back(chunk, given) };
    }
}
