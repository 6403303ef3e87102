//! Values without units: those of size zero, and blocks of the backing allocator.
//!
//! A value of size zero has an aligned dangling address and no memory. Other blocks count against
//! the limit. Any thread may free them, because they belong to no unit.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use allocator_api2::alloc::{AllocError, Allocator};

use super::reserved::{Reserved, reserved};
use crate::account::Account;

/// Allocates a block of a layout without units.
#[cold]
pub(crate) fn allocate_large<A: Allocator, C: Account>(
    backing: &A,
    account: &C,
    layout: Layout,
    zeroed: bool,
) -> Result<NonNull<u8>, AllocError> {
    if layout.size() == 0 {
        // SAFETY: an alignment is not zero.
        return Ok(unsafe { NonNull::new_unchecked(ptr::without_provenance_mut(layout.align())) });
    }
    let block = reserved(account, layout.size(), || {
        if zeroed { backing.allocate_zeroed(layout) } else { backing.allocate(layout) }
    })?;
    account.large(1, layout.size(), true);
    Ok(block.cast())
}

/// Frees a block of a layout without units.
///
/// # Safety
/// `block` is a live block of this layout, came from an equivalent backing allocator, and is on
/// `account`.
#[cold]
pub(crate) unsafe fn deallocate_large<A: Allocator, C: Account>(
    backing: &A,
    account: &C,
    block: NonNull<u8>,
    layout: Layout,
) {
    if layout.size() == 0 {
        return;
    }
    account.large(1, layout.size(), false);
    // Releases the bytes after the deallocation: another thread may request them at once.
    let _booked = Reserved { account, bytes: layout.size() };
    // SAFETY: the block is live and came from an equivalent allocator with this layout.
    unsafe { backing.deallocate(block, layout) };
}

/// Frees a block that is on no account.
///
/// # Safety
/// `block` is a live block of this layout, not of size zero, and came from an equivalent backing
/// allocator.
#[cfg(all(feature = "std", not(ephemera_loom)))]
#[cold]
#[inline(never)]
pub(crate) unsafe fn deallocate_unbooked<A: Allocator>(backing: &A, block: NonNull<u8>, layout: Layout) {
    // SAFETY: the block is live and came from an equivalent allocator with this layout.
    unsafe { backing.deallocate(block, layout) };
}

/// Grows a block through the backing allocator.
///
/// # Safety
/// As `Allocator::grow`; both layouts have no units and are not of size zero.
#[cfg(all(feature = "std", not(ephemera_loom)))]
pub(crate) unsafe fn grow_large<A: Allocator, C: Account>(
    backing: &A,
    account: &C,
    block: NonNull<u8>,
    (old, new): (Layout, Layout),
    zeroed: bool,
) -> Result<NonNull<u8>, AllocError> {
    let more = new.size() - old.size();
    let grown = reserved(account, more, || {
        if zeroed {
            // SAFETY: a live block of the backing allocator with layout `old`, which stays live if
            // this fails.
            unsafe { backing.grow_zeroed(block, old, new) }
        } else {
            // SAFETY: a live block of the backing allocator with layout `old`, which stays live if
            // this fails.
            unsafe { backing.grow(block, old, new) }
        }
    })?;
    account.large(0, more, true);
    Ok(grown.cast())
}

/// Shrinks a block through the backing allocator.
///
/// # Safety
/// As `Allocator::shrink`; both layouts have no units and are not of size zero.
#[cfg(all(feature = "std", not(ephemera_loom)))]
pub(crate) unsafe fn shrink_large<A: Allocator, C: Account>(
    backing: &A,
    account: &C,
    block: NonNull<u8>,
    (old, new): (Layout, Layout),
) -> Result<NonNull<u8>, AllocError> {
    // SAFETY: a live block of the backing allocator with layout `old`.
    let shrunk = unsafe { backing.shrink(block, old, new) }?;
    let less = old.size() - new.size();
    account.large(0, less, false);
    account.release(less);
    Ok(shrunk.cast())
}
