//! From a block to the header of its unit, by masking.
//!
//! Units are aligned to their size, so the header of a block stands at the block's address with the low
//! bits cleared. The address is arithmetic; the right to use it is not. The pointer that a user hands in
//! may touch the block alone (it may have come out of a `Box`), so the header is reached by the pointer
//! that the owner keeps, where the unit is one of its fronts, and else by the provenance that was exposed
//! when the unit was made. Rule: no `&Header`, ever; fields by `&raw`, atomics by a reference to the
//! atomic alone (DESIGN, rule 10).

use core::ptr::NonNull;

use crate::align::base_of;
use crate::raw;

/// The address of the unit of `size` bytes (a power of two) that `block` lies in.
#[inline]
#[must_use]
pub fn base_addr(block: NonNull<u8>, size: usize) -> usize {
    base_of(block.addr().get(), size)
}

/// The header of the unit that `block` lies in.
///
/// # Safety
/// `block` lies in a unit of `size` bytes (a power of two) that is aligned to `size`, starts with an `H`
/// and whose pointer was exposed by [`raw::expose`] when it was made; and the unit is not freed while the
/// result is used.
#[inline]
#[must_use]
pub unsafe fn header_of<H>(block: NonNull<u8>, size: usize) -> NonNull<H> {
    let base = base_addr(block, size);
    // SAFETY: the caller's unit starts at `base` and was exposed; it is no null pointer, being the start of memory.
    let header = unsafe { raw::with_exposed::<H>(base) };
    // SAFETY: the same: the start of allocated memory is not null.
    unsafe { NonNull::new_unchecked(header) }
}
