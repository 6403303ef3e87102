//! Blocks without a class: those of size zero, and large blocks, which come from the backing
//! allocator one by one. A request for a large block is made a second time, like one for a chunk.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;
use ephemera_prim::account::Limit;
use ephemera_prim::large;

use super::RingEnv;
use super::slow::ask_twice;

/// Allocates a block of a layout without a class, with all bytes zero if `zeroed`.
#[inline(never)]
pub(super) fn allocate<E: RingEnv>(
    env: E,
    layout: Layout,
    limit: Limit,
    zeroed: bool,
) -> Result<NonNull<u8>, AllocError> {
    ask_twice(env, limit, |limit| large::allocate(env.backing(), env.account(), layout, limit, zeroed))
}

/// Frees a block of a layout without a class.
///
/// # Safety
/// `block` is a live block of this layout, from a heap over an equivalent backing allocator.
#[inline(never)]
pub(super) unsafe fn deallocate<E: RingEnv>(env: E, block: NonNull<u8>, layout: Layout) {
    // SAFETY: the backing allocator served the block, because its layout has no class.
    unsafe { large::deallocate(env.backing(), env.account(), block, layout) };
}

/// Grows a large block by the backing allocator's own method.
///
/// # Safety
/// As for `Allocator::grow`. Both layouts are without a class and not of size zero.
pub(super) unsafe fn grow<E: RingEnv>(
    env: E,
    block: NonNull<u8>,
    layouts: (Layout, Layout),
    zeroed: bool,
) -> Result<NonNull<u8>, AllocError> {
    // SAFETY: a live block of the backing allocator, which stays unchanged on failure.
    let grow = |_| unsafe { large::grow(env.backing(), env.account(), block, layouts, zeroed) };
    ask_twice(env, Limit::Applies, grow)
}

/// Shrinks a large block by the backing allocator's own method.
///
/// # Safety
/// As for `Allocator::shrink`. Both layouts are without a class and not of size zero.
pub(super) unsafe fn shrink<E: RingEnv>(
    env: E,
    block: NonNull<u8>,
    layouts: (Layout, Layout),
) -> Result<NonNull<u8>, AllocError> {
    // SAFETY: a live block of the backing allocator with the first layout.
    unsafe { large::shrink(env.backing(), env.account(), block, layouts) }
}
