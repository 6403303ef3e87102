//! Tests of raw memory: the module refuses and frees blocks near the top of the address space and
//! accepts all others, exposed addresses lead to their block, and unpoisoned memory is usable.
#![cfg_attr(all(feature = "nightly", not(ephemera_std_allocator)), feature(allocator_api))]

use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::{self, NonNull};

use allocator_api2::alloc::{AllocError, Allocator};
use ephemera_prim::raw::{TOP_GUARD, acquire};

/// An allocator whose blocks all have the same address and no memory. It counts the live blocks.
#[derive(Debug)]
struct At {
    address: usize,
    outstanding: Cell<isize>,
}

impl At {
    fn new(address: usize) -> Self {
        Self { address, outstanding: Cell::new(0) }
    }
}

// SAFETY: this breaks the contract, because the blocks do not have memory, but the tests never
// access their bytes.
unsafe impl Allocator for At {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let block = NonNull::new(ptr::without_provenance_mut(self.address)).ok_or(AllocError)?;
        self.outstanding.set(self.outstanding.get() + 1);
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, _: Layout) {
        assert_eq!(block.addr().get(), self.address);
        self.outstanding.set(self.outstanding.get() - 1);
    }
}

#[test]
fn block_that_ends_in_the_top_guard_is_refused_and_freed() {
    let page = Layout::from_size_align(4096, 1).expect("a small layout");
    let last_end = usize::MAX - TOP_GUARD;
    // Each block ends in the guard or past the end of the address space.
    for address in [last_end - 4095, last_end, usize::MAX - 4096, usize::MAX - 4095, usize::MAX] {
        let backing = At::new(address);
        assert_eq!(acquire(&backing, page), Err(AllocError), "{address:#x}");
        assert_eq!(backing.outstanding.get(), 0, "{address:#x}");
    }
}

#[test]
fn block_that_ends_below_the_top_guard_is_accepted() {
    let page = Layout::from_size_align(4096, 1).expect("a small layout");
    let last_end = usize::MAX - TOP_GUARD;
    for address in [4096, last_end / 2, last_end - 4097, last_end - 4096] {
        let backing = At::new(address);
        let block = acquire(&backing, page).expect("below the guard");
        assert_eq!(block.addr().get(), address);
        assert_eq!(backing.outstanding.get(), 1);
    }
}

#[test]
fn refusal_of_the_backing_allocator_is_returned() {
    assert_eq!(acquire(&At::new(0), Layout::new::<u64>()), Err(AllocError));
}

#[cfg(feature = "alloc")]
mod with_memory {
    use super::*;
    use allocator_api2::alloc::Global;
    use ephemera_prim::poison::{poison, unpoison};
    use ephemera_prim::raw::{base_addr, expose, header_of, release, with_exposed};

    const CHUNK: Layout = match Layout::from_size_align(1 << 16, 1 << 16) {
        Ok(layout) => layout,
        Err(_) => panic!("a valid layout"),
    };

    #[test]
    fn chunk_is_found_by_masking_an_address_inside_it() {
        let chunk = acquire(&Global, CHUNK).expect("64 KiB");
        // SAFETY: the first word is in the chunk, which is aligned to 64 KiB.
        unsafe { chunk.cast::<u64>().write(0xC0FFEE) };
        let address = expose(chunk.as_ptr());
        assert_eq!(address, chunk.addr().get());
        for offset in [0, 1, 40_000, 65_535] {
            // SAFETY: the masked address is the chunk's address, and the chunk's pointer was
            // exposed.
            let header = unsafe { with_exposed::<u64>((address + offset) & !(CHUNK.size() - 1)) };
            // SAFETY: the first word was written, and only this test accesses it.
            assert_eq!(unsafe { header.read() }, 0xC0FFEE);
            // SAFETY: the pointer has the access rights of the exposed pointer.
            unsafe { header.write(0xC0FFEE) };
        }
        // SAFETY: `acquire` returned the chunk for these arguments, and it is not used again.
        unsafe { release(&Global, chunk, CHUNK) };
    }

    #[test]
    fn header_is_found_from_any_block_of_its_unit() {
        const SIZE: usize = 256;
        let layout = Layout::from_size_align(SIZE, SIZE).unwrap();
        let unit = acquire(&Global, layout).unwrap();
        expose(unit.as_ptr());
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
        unsafe { release(&Global, unit, layout) };
    }

    #[test]
    fn memory_is_usable_after_unpoison_and_released_while_poisoned() {
        let chunk = acquire(&Global, CHUNK).expect("64 KiB");
        for round in 0..3_u8 {
            // SAFETY: the chunk belongs to this test, which does not need its content.
            unsafe { poison(chunk, CHUNK.size()) };
            // SAFETY: 4,096 bytes from 512 on are in the chunk.
            let block = unsafe { chunk.add(512) };
            // SAFETY: the block is in the chunk, and its content is not needed.
            unsafe { unpoison(block, 4096) };
            // SAFETY: the bytes are in the chunk and are not poisoned.
            unsafe { block.write_bytes(round, 4096) };
            // SAFETY: the block has 4,096 bytes.
            let last = unsafe { block.add(4095) };
            // SAFETY: the byte was written above.
            assert_eq!(unsafe { last.read() }, round);
        }
        // SAFETY: `acquire` returned the chunk for these arguments, and it is not used again.
        unsafe { release(&Global, chunk, CHUNK) };

        // The next user of the memory may read and write all of it.
        let again = acquire(&Global, CHUNK).expect("64 KiB");
        // SAFETY: the chunk belongs to this test.
        unsafe { again.write_bytes(1, CHUNK.size()) };
        // SAFETY: the offset is less than the chunk's size.
        let last = unsafe { again.add(CHUNK.size() - 1) };
        // SAFETY: the byte was written above.
        assert_eq!(unsafe { last.read() }, 1);
        // SAFETY: `acquire` returned the chunk for these arguments, and it is not used again.
        unsafe { release(&Global, again, CHUNK) };
    }
}
