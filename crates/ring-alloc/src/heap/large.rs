//! Blocks without a class: those of size zero, and large blocks, which come from the backing
//! allocator one by one.
//!
//! A block of size zero is only an aligned address, and needs no memory. A large block belongs to
//! the backing allocator and counts towards the limit. Any thread may free it, since it is in no
//! chunk.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};

use super::{RingEnv, dangling, slow};
use crate::account::{Account, Limit};

/// Allocates a block of a layout without a class.
#[inline(never)]
pub(super) fn allocate<E: RingEnv>(env: E, layout: Layout) -> Result<NonNull<u8>, AllocError> {
    take(env, layout, Limit::Applies, |backing| backing.allocate(layout))
}

/// Allocates such a block even beyond the limit.
pub(super) fn allocate_beyond<E: RingEnv>(env: E, layout: Layout) -> Result<NonNull<u8>, AllocError> {
    take(env, layout, Limit::Lifted, |backing| backing.allocate(layout))
}

/// Allocates such a block with all bytes zero.
pub(super) fn allocate_zeroed<E: RingEnv>(env: E, layout: Layout) -> Result<NonNull<u8>, AllocError> {
    take(env, layout, Limit::Applies, |backing| backing.allocate_zeroed(layout))
}

fn take<E: RingEnv>(
    env: E,
    layout: Layout,
    limit: Limit,
    ask: impl Fn(&E::Backing) -> Result<NonNull<[u8]>, AllocError>,
) -> Result<NonNull<u8>, AllocError> {
    if layout.size() == 0 {
        return Ok(dangling(layout));
    }
    let block = slow::acquire(env, layout.size(), limit, || ask(env.backing()))?;
    env.account().large(1, layout.size(), true);
    Ok(block.cast())
}

/// Frees a block of a layout without a class.
///
/// # Safety
/// `block` is a live block of this layout, from a heap over an equivalent backing allocator.
#[inline(never)]
pub(super) unsafe fn deallocate<E: RingEnv>(env: E, block: NonNull<u8>, layout: Layout) {
    if layout.size() == 0 {
        return;
    }
    // SAFETY: the backing allocator served the block, because its layout has no class.
    unsafe { env.backing().deallocate(block, layout) };
    env.account().large(1, layout.size(), false);
    env.account().release(layout.size());
}

/// Grows a large block by the backing allocator's own method.
///
/// # Safety
/// As for `Allocator::grow`. Both layouts are without a class and not of size zero.
pub(super) unsafe fn grow<E: RingEnv>(
    env: E,
    block: NonNull<u8>,
    old: Layout,
    new: Layout,
    zeroed: bool,
) -> Result<NonNull<u8>, AllocError> {
    let more = new.size() - old.size();
    let grown = slow::acquire(env, more, Limit::Applies, || {
        if zeroed {
            // SAFETY: a live block of the backing allocator with layout `old`, which stays live
            // on failure.
            unsafe { env.backing().grow_zeroed(block, old, new) }
        } else {
            // SAFETY: as above.
            unsafe { env.backing().grow(block, old, new) }
        }
    })?;
    env.account().large(0, more, true);
    Ok(grown.cast())
}

/// Shrinks a large block by the backing allocator's own method.
///
/// # Safety
/// As for `Allocator::shrink`. Both layouts are without a class and not of size zero.
pub(super) unsafe fn shrink<E: RingEnv>(
    env: E,
    block: NonNull<u8>,
    old: Layout,
    new: Layout,
) -> Result<NonNull<u8>, AllocError> {
    // SAFETY: a live block of the backing allocator with layout `old`.
    let shrunk = unsafe { env.backing().shrink(block, old, new) }?;
    let less = old.size() - new.size();
    env.account().large(0, less, false);
    env.account().release(less);
    Ok(shrunk.cast())
}
