//! Blocks without a class: of size zero, and those that go to the backing allocator one by one.
//!
//! A size of zero touches nothing: its block is an aligned address. All others are the backing allocator's own
//! blocks, counted against the limit; they may be freed by any thread, since no chunk knows of them.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};

use super::{Env, dangling, slow};
use crate::account::{Account, Limit};

/// A block of a layout without a class.
#[inline(never)]
pub(super) fn allocate<E: Env>(env: E, layout: Layout) -> Result<NonNull<u8>, AllocError> {
    take(env, layout, Limit::Applies, |backing| backing.allocate(layout))
}

/// The same, whatever the limit is.
pub(super) fn allocate_beyond<E: Env>(env: E, layout: Layout) -> Result<NonNull<u8>, AllocError> {
    take(env, layout, Limit::Lifted, |backing| backing.allocate(layout))
}

/// The same, with all bytes zero.
pub(super) fn allocate_zeroed<E: Env>(env: E, layout: Layout) -> Result<NonNull<u8>, AllocError> {
    take(env, layout, Limit::Applies, |backing| backing.allocate_zeroed(layout))
}

fn take<E: Env>(
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

/// Gives back a block of a layout without a class.
///
/// # Safety
/// `block` is a live block of this layout, from a heap over an equivalent backing allocator.
#[inline(never)]
pub(super) unsafe fn deallocate<E: Env>(env: E, block: NonNull<u8>, layout: Layout) {
    if layout.size() == 0 {
        return;
    }
    // SAFETY: blocks without a class are the backing allocator's own.
    unsafe { env.backing().deallocate(block, layout) };
    env.account().large(1, layout.size(), false);
    env.account().release(layout.size());
}

/// Grows a block of the backing allocator by its own means.
///
/// # Safety
/// As `Allocator::grow`; both layouts are without a class and not of size zero.
pub(super) unsafe fn grow<E: Env>(
    env: E,
    block: NonNull<u8>,
    old: Layout,
    new: Layout,
    zeroed: bool,
) -> Result<NonNull<u8>, AllocError> {
    let more = new.size() - old.size();
    let grown = slow::acquire(env, more, Limit::Applies, || {
        if zeroed {
            // SAFETY: the backing allocator's own block of layout `old`, which lives on if this fails.
            unsafe { env.backing().grow_zeroed(block, old, new) }
        } else {
            // SAFETY: as above.
            unsafe { env.backing().grow(block, old, new) }
        }
    })?;
    env.account().large(0, more, true);
    Ok(grown.cast())
}

/// Shrinks a block of the backing allocator by its own means.
///
/// # Safety
/// As `Allocator::shrink`; both layouts are without a class and not of size zero.
pub(super) unsafe fn shrink<E: Env>(
    env: E,
    block: NonNull<u8>,
    old: Layout,
    new: Layout,
) -> Result<NonNull<u8>, AllocError> {
    // SAFETY: the backing allocator's own block of layout `old`.
    let shrunk = unsafe { env.backing().shrink(block, old, new) }?;
    let less = old.size() - new.size();
    env.account().large(0, less, false);
    env.account().release(less);
    Ok(shrunk.cast())
}
