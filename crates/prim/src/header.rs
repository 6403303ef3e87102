//! Lookup of the header of a unit from the address of a block, by masking.
//!
//! Units are aligned to their size, so clearing the low bits of a block's address gives the address
//! of the header. That address alone does not permit an access: the user's pointer may have
//! provenance over only the block, for example if it came out of a `Box`. If the calling thread
//! allocates from this unit, it uses the pointer that it keeps to the unit. Otherwise it uses the
//! provenance that was exposed when the unit was created.
//!
//! No function here creates a reference to a header, because another thread may free the unit
//! after the operation. Callers access fields through raw pointers, and an atomic through a
//! reference that covers only the atomic.

use core::ptr::NonNull;

use crate::align::base_of;
use crate::raw;

/// Returns the address of the unit of `size` bytes (a power of two) that contains `block`.
#[inline]
#[must_use]
pub fn base_addr(block: NonNull<u8>, size: usize) -> usize {
    base_of(block.addr().get(), size)
}

/// Returns a pointer to the header of the unit of `size` bytes that contains `block`.
///
/// # Safety
/// `block` lies in a unit of `size` bytes (a power of two) that is aligned to `size` and starts
/// with an `H`. The unit's pointer was passed to [`raw::expose`] when the unit was created. The
/// unit is not freed while the result is used.
#[inline]
#[must_use]
pub unsafe fn header_of<H>(block: NonNull<u8>, size: usize) -> NonNull<H> {
    let base = base_addr(block, size);
    // SAFETY: the caller's live unit starts at `base`, and its pointer was exposed.
    let header = unsafe { raw::with_exposed::<H>(base) };
    // SAFETY: a unit is allocated memory, which does not start at address null.
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
    fn header_is_found_from_any_block_of_its_unit() {
        const SIZE: usize = 256;
        let layout = Layout::from_size_align(SIZE, SIZE).unwrap();
        let unit = raw::acquire(&Global, layout).unwrap();
        raw::expose(unit.as_ptr());
        // SAFETY: the unit starts here, aligned and large enough for a word.
        unsafe { unit.cast::<u64>().write(0xA11C) };
        for offset in [8, 9, 64, SIZE - 1] {
            // SAFETY: the offset is less than the unit's size.
            let block = unsafe { unit.add(offset) };
            assert_eq!(base_addr(block, SIZE), unit.addr().get());
            // A pointer that may access only the block, like one from a box.
            // SAFETY: the block is a byte of the unit that nothing else uses.
            let alone = NonNull::from(unsafe { &mut *block.as_ptr().cast::<core::mem::MaybeUninit<u8>>() });
            // SAFETY: the unit is live, aligned to its size and exposed, and starts with a word.
            let header = unsafe { header_of::<u64>(alone.cast(), SIZE) };
            assert_eq!(header.addr(), unit.addr());
            // SAFETY: the header is live and was written above.
            assert_eq!(unsafe { header.read() }, 0xA11C);
        }
        // SAFETY: the unit was acquired above with this layout, and is not used again.
        unsafe { raw::release(&Global, unit, layout) };
    }
}
