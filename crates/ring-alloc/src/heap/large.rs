//! Blocks without a class: blocks of size zero, and large blocks, which come directly from the
//! backing allocator. A refused request frees empty chunks and tries once more, as a request for a
//! chunk does.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;
use ephemera_prim::account::Limit;
use ephemera_prim::large;

use super::RingEnv;
use super::slow::make_room;

/// Allocates a block of a layout without a class.
#[inline(never)]
pub(super) fn allocate<E: RingEnv>(env: E, layout: Layout) -> Result<NonNull<u8>, AllocError> {
    take(env, layout, Limit::Applies, false)
}

/// Allocates a block of a layout without a class, even if the limit is then exceeded.
#[inline(never)]
pub(super) fn allocate_beyond<E: RingEnv>(env: E, layout: Layout) -> Result<NonNull<u8>, AllocError> {
    take(env, layout, Limit::Lifted, false)
}

/// Allocates a block of a layout without a class, and sets all of its bytes to zero.
#[inline(never)]
pub(super) fn allocate_zeroed<E: RingEnv>(env: E, layout: Layout) -> Result<NonNull<u8>, AllocError> {
    take(env, layout, Limit::Applies, true)
}

/// Takes a block from the backing allocator. The first attempt always obeys the limit, and the
/// second one only if `limit` is [`Limit::Applies`]. This function is inlined so that the compiler
/// specialises it for the constants of each caller.
#[inline(always)]
fn take<E: RingEnv>(env: E, layout: Layout, limit: Limit, zeroed: bool) -> Result<NonNull<u8>, AllocError> {
    large::allocate(env.backing(), env.account(), layout, Limit::Applies, zeroed)
        .or_else(|AllocError| take_again(env, layout, limit, zeroed))
}

#[cold]
#[inline(never)]
fn take_again<E: RingEnv>(
    env: E,
    layout: Layout,
    limit: Limit,
    zeroed: bool,
) -> Result<NonNull<u8>, AllocError> {
    make_room(env);
    large::allocate(env.backing(), env.account(), layout, limit, zeroed)
}

/// Frees a block of a layout without a class.
///
/// # Safety
/// `block` is a live block of this layout, from a heap over an equivalent backing allocator.
#[inline(never)]
pub(super) unsafe fn deallocate<E: RingEnv>(env: E, block: NonNull<u8>, layout: Layout) {
    // SAFETY: the backing allocator served the block, because the layout is without a class.
    unsafe { large::deallocate(env.backing(), env.account(), block, layout) };
}

/// Grows a large block with the backing allocator's own method.
///
/// # Safety
/// `block` is a live block of the first layout, and the second is not smaller. Neither layout has a
/// class, and neither has size zero.
pub(super) unsafe fn grow<E: RingEnv>(
    env: E,
    block: NonNull<u8>,
    layouts: (Layout, Layout),
    zeroed: bool,
) -> Result<NonNull<u8>, AllocError> {
    // SAFETY: `block` is a live block of the backing allocator with the first layout, and stays so
    // if the first attempt fails.
    let grow = || unsafe { large::grow(env.backing(), env.account(), block, layouts, zeroed) };
    grow().or_else(|AllocError| {
        make_room(env);
        grow()
    })
}

/// Shrinks a large block with the backing allocator's own method.
///
/// # Safety
/// `block` is a live block of the first layout, and the second is not larger. Neither layout has a
/// class, and neither has size zero.
pub(super) unsafe fn shrink<E: RingEnv>(
    env: E,
    block: NonNull<u8>,
    layouts: (Layout, Layout),
) -> Result<NonNull<u8>, AllocError> {
    // SAFETY: `block` is a live block of the backing allocator with the first layout.
    unsafe { large::shrink(env.backing(), env.account(), block, layouts) }
}
