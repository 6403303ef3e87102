//! What has no units: values of size zero, and blocks that are the backing allocator's own.
//!
//! A size of zero touches nothing: its slot is an aligned address. All others are counted against the limit; they may be
//! freed by any thread, since no unit knows of them.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use allocator_api2::alloc::{AllocError, Allocator};

use super::slow::{Reserved, reserved};
use crate::account::Account;

/// A block of a layout without units.
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

/// Gives back a block of a layout without units.
///
/// # Safety
/// `block` is a live block of this layout, from an equivalent backing allocator and booked in `account`.
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
    // Released behind the deallocation: another thread may ask for these bytes at once.
    let _booked = Reserved { account, bytes: layout.size() };
    // SAFETY: the caller's block.
    unsafe { backing.deallocate(block, layout) };
}

/// Gives back a block that is on no account.
///
/// # Safety
/// `block` is a live block of this layout, not of size zero, from an equivalent backing allocator.
#[cfg(all(feature = "std", not(ephemera_loom)))]
#[cold]
#[inline(never)]
pub(crate) unsafe fn deallocate_unbooked<A: Allocator>(backing: &A, block: NonNull<u8>, layout: Layout) {
    // SAFETY: the caller's block.
    unsafe { backing.deallocate(block, layout) };
}

/// Grows a block by the backing allocator's own means.
///
/// # Safety
/// As `Allocator::grow`; both layouts are without units and not of size zero.
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
            // SAFETY: the backing allocator's own block of layout `old`, which lives on if this fails.
            unsafe { backing.grow_zeroed(block, old, new) }
        } else {
            // SAFETY: as above.
            unsafe { backing.grow(block, old, new) }
        }
    })?;
    account.large(0, more, true);
    Ok(grown.cast())
}

/// Shrinks a block by the backing allocator's own means.
///
/// # Safety
/// As `Allocator::shrink`; both layouts are without units and not of size zero.
#[cfg(all(feature = "std", not(ephemera_loom)))]
pub(crate) unsafe fn shrink_large<A: Allocator, C: Account>(
    backing: &A,
    account: &C,
    block: NonNull<u8>,
    (old, new): (Layout, Layout),
) -> Result<NonNull<u8>, AllocError> {
    // SAFETY: the backing allocator's own block of layout `old`.
    let shrunk = unsafe { backing.shrink(block, old, new) }?;
    let less = old.size() - new.size();
    account.large(0, less, false);
    account.release(less);
    Ok(shrunk.cast())
}
