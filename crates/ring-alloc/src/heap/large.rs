//! Blocks without a class: blocks of size zero, and large blocks, which come directly from the
//! backing allocator. After the refusal of an allocation or a growth, these functions free empty
//! chunks and try once more, as the request for a chunk does.

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

/// Allocates a block of a layout without a class, even if that exceeds the limit.
#[inline(never)]
pub(super) fn allocate_beyond<E: RingEnv>(env: E, layout: Layout) -> Result<NonNull<u8>, AllocError> {
    take(env, layout, Limit::Lifted, false)
}

/// Allocates a block of a layout without a class, and sets all of its bytes to zero.
#[inline(never)]
pub(super) fn allocate_zeroed<E: RingEnv>(env: E, layout: Layout) -> Result<NonNull<u8>, AllocError> {
    take(env, layout, Limit::Applies, true)
}

/// Allocates a block, with all bytes zero if `zeroed`. The first attempt always obeys the limit,
/// and the second one only if `limit` is [`Limit::Applies`]. This function is inlined so that the
/// compiler specialises it for the constants of each caller.
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
/// `layout` has no class. `block` is a live block of this layout, from the allocator that `env`
/// belongs to.
#[inline(never)]
pub(super) unsafe fn deallocate<E: RingEnv>(env: E, block: NonNull<u8>, layout: Layout) {
    // SAFETY: the layout has no class, so an equivalent backing allocator served the block, and the
    // account counts it.
    unsafe { large::deallocate(env.backing(), env.account(), block, layout) };
}

/// Grows a large block with the backing allocator's own method. The new bytes are zero if `zeroed`.
/// After a refusal, makes room and tries once more.
///
/// # Safety
/// `block` is a live block of layout `layouts.0`, from the allocator that `env` belongs to, and
/// `layouts.1` is not smaller. Neither layout has a class, and neither has size zero.
pub(super) unsafe fn grow<E: RingEnv>(
    env: E,
    block: NonNull<u8>,
    layouts: (Layout, Layout),
    zeroed: bool,
) -> Result<NonNull<u8>, AllocError> {
    // SAFETY: `layouts.1` is not smaller, and neither size is zero. `layouts.0` has no class, so
    // the live block of this layout came from an equivalent backing allocator and is counted on the
    // account. A failed first attempt leaves the block unchanged.
    let grow = || unsafe { large::grow(env.backing(), env.account(), block, layouts, zeroed) };
    grow().or_else(|AllocError| {
        make_room(env);
        grow()
    })
}

/// Shrinks a large block with the backing allocator's own method.
///
/// # Safety
/// `block` is a live block of layout `layouts.0`, from the allocator that `env` belongs to, and
/// `layouts.1` is not larger. Neither layout has a class, and neither has size zero.
pub(super) unsafe fn shrink<E: RingEnv>(
    env: E,
    block: NonNull<u8>,
    layouts: (Layout, Layout),
) -> Result<NonNull<u8>, AllocError> {
    // SAFETY: `layouts.1` is not larger, and neither size is zero. `layouts.0` has no class, so the
    // live block of this layout came from an equivalent backing allocator and is counted on the
    // account.
    unsafe { large::shrink(env.backing(), env.account(), block, layouts) }
}
