//! Large blocks, which the backing allocator serves directly, and blocks of size zero.
//!
//! A large block counts towards the limit of its pool's account. It is not part of a unit, so it
//! has no owner and any thread may free it. A block of size zero is an aligned address without
//! memory.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use allocator_api2::alloc::{AllocError, Allocator};

use crate::account::{Account, Leaving, Limit, reserved};

/// Returns an aligned address without memory, for a layout of size zero.
#[inline]
pub fn dangling(layout: Layout) -> NonNull<u8> {
    // SAFETY: an alignment is at least 1, so the address is not null.
    unsafe { NonNull::new_unchecked(ptr::without_provenance_mut(layout.align())) }
}

/// Allocates a block, with all bytes zero if `zeroed`. A block of size zero is [`dangling`].
/// `limit` says whether the limit of `account` applies.
///
/// # Errors
/// Returns [`AllocError`] if a limit that applies would be exceeded, or if the backing allocator
/// refuses.
#[inline]
pub fn allocate<B: Allocator, A: Account>(
    backing: &B,
    account: &A,
    layout: Layout,
    limit: Limit,
    zeroed: bool,
) -> Result<NonNull<u8>, AllocError> {
    if layout.size() == 0 {
        return Ok(dangling(layout));
    }
    let block = reserved(account, layout.size(), limit, || {
        if zeroed { backing.allocate_zeroed(layout) } else { backing.allocate(layout) }
    })?;
    account.large(1, layout.size(), true);
    Ok(block.cast())
}

/// Frees a large block, or a block of size zero.
///
/// # Safety
/// Unless the layout has size zero, `block` is a live block of this layout, came from an equivalent
/// backing allocator, and is counted on `account`.
#[inline]
pub unsafe fn deallocate<B: Allocator, A: Account>(
    backing: &B,
    account: &A,
    block: NonNull<u8>,
    layout: Layout,
) {
    if layout.size() == 0 {
        return;
    }
    account.large(1, layout.size(), false);
    // The drop releases the bytes after the deallocation, because another thread may request bytes
    // as soon as they are released.
    let _leaving = Leaving::new(account, layout.size());
    // SAFETY: the caller's block is live and came from an equivalent allocator with this layout.
    unsafe { backing.deallocate(block, layout) };
}

/// Grows a large block with the backing allocator's own method. The new bytes are zero if `zeroed`.
///
/// # Errors
/// Returns [`AllocError`] if the limit would be exceeded, or if the backing allocator refuses. The
/// block is then unchanged.
///
/// # Safety
/// `block` is a live block of layout `old`, came from an equivalent backing allocator, and is
/// counted on `account`. `new` is not smaller than `old`, and neither layout has size zero.
#[inline]
pub unsafe fn grow<B: Allocator, A: Account>(
    backing: &B,
    account: &A,
    block: NonNull<u8>,
    (old, new): (Layout, Layout),
    zeroed: bool,
) -> Result<NonNull<u8>, AllocError> {
    let more = new.size() - old.size();
    let grown = reserved(account, more, Limit::Applies, || {
        if zeroed {
            // SAFETY: the caller's block is live with layout `old` and came from an equivalent
            // allocator, and `new` is not smaller.
            unsafe { backing.grow_zeroed(block, old, new) }
        } else {
            // SAFETY: the caller's block is live with layout `old` and came from an equivalent
            // allocator, and `new` is not smaller.
            unsafe { backing.grow(block, old, new) }
        }
    })?;
    account.large(0, more, true);
    Ok(grown.cast())
}

/// Shrinks a large block with the backing allocator's own method.
///
/// # Errors
/// Returns [`AllocError`] if the backing allocator refuses. The block is then unchanged.
///
/// # Safety
/// `block` is a live block of layout `old`, came from an equivalent backing allocator, and is
/// counted on `account`. `new` is not larger than `old`, and neither layout has size zero.
#[inline]
pub unsafe fn shrink<B: Allocator, A: Account>(
    backing: &B,
    account: &A,
    block: NonNull<u8>,
    (old, new): (Layout, Layout),
) -> Result<NonNull<u8>, AllocError> {
    // SAFETY: the caller's block is live with layout `old` and came from an equivalent allocator,
    // and `new` is not larger.
    let shrunk = unsafe { backing.shrink(block, old, new) }?;
    let less = old.size() - new.size();
    account.large(0, less, false);
    account.release(less);
    Ok(shrunk.cast())
}
