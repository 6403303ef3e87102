//! Tests of sparse heaps that look at the chunk of the front.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;

use super::RingAlloc;
use crate::chunk::ChunkPtr;
use crate::geometry::Geometry;
use crate::heap::RingEnv;

/// A geometry whose small chunks have sections of 1 KiB. A heap is sparse from four chunks on.
struct Divided;

impl Geometry for Divided {
    const SMALL_MAX: usize = 256;
    const SMALL_ALIGN: usize = 64;
    const SMALL_CHUNK: usize = 8 << 10;
    const MEDIUM_MAX: usize = 2 << 10;
    const MEDIUM_ALIGN: usize = 128;
    const MEDIUM_CHUNK: usize = 16 << 10;
    const RETAIN: usize = 0;
}

type Ring = RingAlloc<allocator_api2::alloc::Global, Divided>;
type Block = Box<[u8; 200], Ring>;

fn block(ring: &Ring) -> Block {
    Box::new_in([7; 200], ring.clone())
}

/// Returns the chunk of the front of small blocks, if the chunk is divided.
fn divided_front(ring: &Ring) -> Option<ChunkPtr> {
    let inner = ring.inner();
    inner.heap().divided_front()
}

/// Returns a sparse ring whose front is in a divided chunk, and the blocks that pin the other
/// chunks.
fn sparse() -> (Ring, Vec<Block>) {
    let ring: Ring = RingAlloc::builder().geometry::<Divided>().build();
    let mut kept = Vec::new();
    while divided_front(&ring).is_none() {
        let blocks: Vec<_> = (0..39).map(|_| block(&ring)).collect();
        kept.extend(blocks.into_iter().next());
        assert!(kept.len() < 100, "the ring never becomes sparse");
    }
    (ring, kept)
}

#[test]
fn ring_with_one_block_in_each_chunk_becomes_sparse() {
    let (ring, kept) = sparse();
    assert!((4..10).contains(&kept.len()), "{} chunks", kept.len());
    drop(kept);
    ring.trim();
    assert_eq!((ring.stats().chunks(), divided_front(&ring)), (0, None));
}

#[test]
fn ring_whose_blocks_are_freed_at_once_stops_to_divide_chunks() {
    let (ring, _kept) = sparse();
    (0..100).for_each(|_| drop(block(&ring)));
    assert_eq!(divided_front(&ring), None);
}

#[test]
fn ring_whose_blocks_live_long_stops_to_divide_chunks() {
    let (ring, _kept) = sparse();
    let _blocks: Vec<_> = (0..39 * 100).map(|_| block(&ring)).collect();
    assert_eq!(divided_front(&ring), None);
}

#[test]
fn front_returns_to_the_bytes_that_it_left_once_their_section_is_free() {
    let (ring, _kept) = sparse();
    let chunk = divided_front(&ring).expect("the ring is sparse");
    let inside = |block: &Block| {
        let address = NonNull::from(&**block).addr().get();
        (address >= chunk.addr()).then(|| address - chunk.addr()).filter(|offset| *offset < 8 << 10)
    };
    // Fill the rest of this chunk, and then one block of the next one.
    let mut blocks = Vec::new();
    loop {
        blocks.push(block(&ring));
        if inside(&blocks[blocks.len() - 1]).is_none() {
            break;
        }
    }
    // Free the blocks in the third section, with the bytes between two blocks that reach into it.
    let third = 2 << 10..3 << 10;
    let reaches = |offset: usize| offset + 200 > third.start && offset < third.end;
    blocks.retain(|block| !inside(block).is_some_and(reaches));
    // The other sections of the chunk are full, so the front comes back only to the third one.
    let more: Vec<_> = (0..100).map(|_| block(&ring)).collect();
    let again: Vec<_> = more.iter().filter_map(inside).collect();
    assert_eq!(
        again,
        [third.start, third.start + 200, third.start + 400, third.start + 600, third.start + 800]
    );
}

#[test]
fn tail_of_a_block_that_shrank_counts_as_freed() {
    let (ring, _kept) = sparse();
    let (old, new) = (Layout::new::<[u64; 25]>(), Layout::new::<[u64; 5]>());
    let mut blocks = Vec::new();
    let first = divided_front(&ring);
    while divided_front(&ring) == first {
        blocks.push(ring.allocate(old).expect("no limit").cast::<u8>());
    }
    let before = ring.stats().small.chunks;
    // The first block keeps the chunk.
    for block in blocks.drain(1..) {
        // SAFETY: the block was allocated above with the layout `old`.
        let shrunk = unsafe { ring.shrink(block, old, new) }.expect("it stays in place");
        // SAFETY: the block now has the layout `new`.
        unsafe { ring.deallocate(shrunk.cast(), new) };
    }
    let _again: Vec<_> = (0..60).map(|_| block(&ring)).collect();
    assert_eq!(ring.stats().small.chunks, before);
    // SAFETY: the block was allocated above with the layout `old`.
    unsafe { ring.deallocate(blocks[0], old) };
}
