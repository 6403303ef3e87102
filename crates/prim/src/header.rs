//! From a block to the header of its unit, by masking.
//!
//! Units are aligned to their size, so the header of a block stands at the block's address with the low
//! bits cleared. The address is arithmetic; the right to use it is not. The pointer that a user hands in
//! may touch the block alone (it may have come out of a `Box`), so the header is reached by the pointer
//! that the owner keeps, where the unit is one of its fronts, and else by the provenance that was exposed
//! when the unit was made. No reference to a header is ever made: fields are reached through raw pointers, atomics
//! by a reference to the atomic alone, since another thread may free the unit after the operation.

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

#[cfg(all(test, feature = "alloc", not(ephemera_loom)))]
mod tests {
    use core::alloc::Layout;
    use core::ptr::NonNull;

    use allocator_api2::alloc::Global;

    use super::{base_addr, header_of};
    use crate::raw;

    #[test]
    fn any_block_of_a_unit_leads_to_its_header() {
        const SIZE: usize = 256;
        let layout = Layout::from_size_align(SIZE, SIZE).unwrap();
        let unit = raw::acquire(&Global, layout).unwrap();
        raw::expose(unit.as_ptr());
        // SAFETY: the start of the unit, aligned and large enough for a word.
        unsafe { unit.cast::<u64>().write(0xA11C) };
        for offset in [8, 9, 64, SIZE - 1] {
            // SAFETY: inside the unit.
            let block = unsafe { unit.add(offset) };
            assert_eq!(base_addr(block, SIZE), unit.addr().get());
            // A pointer that may touch the block alone, as one out of a box.
            // SAFETY: a byte of the unit, which nobody else uses.
            let alone = NonNull::from(unsafe { &mut *block.as_ptr().cast::<core::mem::MaybeUninit<u8>>() });
            // SAFETY: the unit is alive, aligned to its size and exposed, and starts with a word.
            let header = unsafe { header_of::<u64>(alone.cast(), SIZE) };
            assert_eq!(header.addr(), unit.addr());
            // SAFETY: the header is alive and was written above.
            assert_eq!(unsafe { header.read() }, 0xA11C);
        }
        // SAFETY: acquired above with this layout, and used no more.
        unsafe { raw::release(&Global, unit, layout) };
    }
}
