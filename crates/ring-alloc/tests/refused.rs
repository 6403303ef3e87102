//! Tests `OneRingAlloc` while the operating system refuses memory: a request fails, no block is
//! lost, and a later request is served.
#![cfg(all(feature = "std", target_os = "linux", target_pointer_width = "64", not(miri)))]

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;
use ephemera_prim::pages;
use ephemera_testkit::suite::take_turn;
use ring_alloc::OneRingAlloc;

/// The sizes of a small, a medium and two large blocks. The last one has a mapping of its own.
const SIZES: [usize; 4] = [2_000, 60_000, 300_000, 3 << 20];

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).expect("a layout")
}

/// Allocates a block, and writes its size to both ends.
fn allocate(size: usize) -> Result<NonNull<u8>, AllocError> {
    let block = OneRingAlloc.allocate(layout(size))?.cast::<u8>();
    for at in [0, size - 8] {
        // SAFETY: the eight bytes are in the block, whose size is a multiple of eight.
        let word = unsafe { block.add(at) }.cast::<usize>();
        // SAFETY: the block is new, and aligned to eight bytes.
        unsafe { word.write(size) };
    }
    Ok(block)
}

/// Checks that a block still has its size at both ends, and frees the block.
fn free(block: NonNull<u8>, size: usize) {
    for at in [0, size - 8] {
        // SAFETY: the eight bytes are in the block, whose size is a multiple of eight.
        let word = unsafe { block.add(at) }.cast::<usize>();
        // SAFETY: `allocate` wrote this word.
        assert_eq!(unsafe { word.read() }, size);
    }
    // SAFETY: `allocate` allocated the block with this layout, and nothing uses it any more.
    unsafe { OneRingAlloc.deallocate(block, layout(size)) };
}

/// Returns all memory to the operating system, so that requests need system calls.
fn let_go() {
    OneRingAlloc.trim_all();
    assert_eq!(OneRingAlloc.stats().bytes_held, 0);
    pages::purge();
}

#[test]
fn request_fails_while_the_system_refuses_all_calls_and_is_served_afterwards() {
    take_turn();
    // The record of this thread takes permanent memory.
    free(allocate(8).expect("memory"), 8);
    for size in SIZES {
        let_go();
        pages::refuse_call(usize::MAX);
        let mut blocks: Vec<_> = (0..100_000).map_while(|_| allocate(size).ok()).collect();
        let refused = allocate(size);
        pages::refuse_call(0);
        assert_eq!(refused, Err(AllocError), "{} blocks of {size} bytes", blocks.len());
        blocks.push(allocate(size).expect("the system refuses no call"));
        assert_eq!(OneRingAlloc.stats().blocks_live(), blocks.len());
        blocks.into_iter().for_each(|block| free(block, size));
    }
    let_go();
}

#[test]
fn each_refused_call_costs_one_request_at_most() {
    take_turn();
    free(allocate(8).expect("memory"), 8);
    for number in 1.. {
        let_go();
        pages::refuse_call(number);
        let blocks = SIZES.map(|size| (allocate(size).or_else(|_| allocate(size)), size));
        for (block, size) in blocks {
            free(block.expect("only one call is refused"), size);
        }
        OneRingAlloc.trim_all();
        pages::purge();
        if pages::refuse_call(0) != 0 {
            assert!(number > SIZES.len(), "each of these requests takes a system call");
            break;
        }
    }
    assert_eq!(OneRingAlloc.stats().blocks_live(), 0);
}
