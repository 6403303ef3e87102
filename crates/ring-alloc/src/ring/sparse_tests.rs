//! Tests of sparse heaps that look at the chunk of the front.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use ephemera_testkit::SplitMix;

use super::RingAlloc;
use crate::chunk::ChunkPtr;
use crate::divided::Divided;
use crate::geometry::Geometry;
use crate::heap::RingEnv;

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
    sparse_within(usize::MAX)
}

/// Returns what [`sparse`] returns, for a ring with this limit.
fn sparse_within(limit: usize) -> (Ring, Vec<Block>) {
    let ring: Ring = RingAlloc::builder().geometry::<Divided>().limit(limit).build();
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
fn ring_whose_blocks_are_freed_at_once_stops_dividing_chunks() {
    let (ring, _kept) = sparse();
    (0..100).for_each(|_| drop(block(&ring)));
    assert_eq!(divided_front(&ring), None);
}

#[test]
fn ring_whose_blocks_live_long_stops_dividing_chunks() {
    let (ring, _kept) = sparse();
    let _blocks: Vec<_> = (0..39 * 20).map(|_| block(&ring)).collect();
    assert_eq!(divided_front(&ring), None);
}

#[test]
fn census_does_not_continue_at_a_chunk_that_was_freed() {
    let ring: Ring = RingAlloc::builder().geometry::<Divided>().retain(0).build();
    // The census examines 16 chunks at a time, so it ends no pass over more chunks at once.
    let mut blocks: Vec<_> = (0..39 * 24).map(|_| block(&ring)).collect();
    while !ring.inner().heap().check_holes::<Divided>() {
        blocks.extend((0..39).map(|_| block(&ring)));
    }
    while blocks.pop().is_some() {
        if blocks.len() % 13 == 0 {
            ring.inner().heap().check_holes::<Divided>();
        }
    }
}

#[test]
fn front_returns_to_a_chunk_once_half_of_its_bytes_were_freed() {
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
    // Free the blocks of twenty sections of 256 bytes. First free the blocks of ten sections, which
    // are a third of the blocks.
    let offsets: Vec<_> =
        blocks.iter().filter_map(inside).filter(|at| (1 << 10..6 << 10).contains(at)).collect();
    let start = offsets[0].next_multiple_of(256);
    let end = (offsets[offsets.len() - 1] + 200) / 256 * 256;
    let mut free =
        |below| blocks.retain(|block| !inside(block).is_some_and(|at| at < below && offsets.contains(&at)));
    let fill = || (0..60).map(|_| block(&ring)).collect::<Vec<_>>();
    free(3584);
    let more = fill();
    assert_eq!(more.iter().filter_map(inside).count(), 0);
    free(usize::MAX);
    // The other sections of the chunk are not free, so the front returns only to these ones.
    let again: Vec<_> = fill().iter().filter_map(inside).collect();
    assert_eq!(again, (start..=end - 200).step_by(200).collect::<Vec<_>>());
}

#[test]
fn long_lived_blocks_that_are_many_and_small_keep_few_chunks() {
    let (ring, _kept) = sparse();
    let mut small = Vec::new();
    let before = ring.stats().small.chunks;
    for _ in 0..if cfg!(miri) { 6 } else { 60 } {
        let large: Vec<_> = (0..30).map(|_| block(&ring)).collect();
        small.extend((0..60).map(|_| Box::new_in(7_u64, ring.clone())));
        drop(large);
    }
    // The large blocks of all rounds would fill 48 chunks, and the small ones take four.
    assert!(ring.stats().small.chunks < before + 14, "{} more chunks", ring.stats().small.chunks - before);
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
    // The first block stays live and pins the chunk.
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

#[test]
fn tails_of_blocks_that_stay_are_used_again() {
    let (ring, _kept) = sparse();
    // Blocks of the size of a section, so that each takes up one.
    let (old, new) = (Layout::new::<[u64; 32]>(), Layout::new::<u64>());
    let allocate = |layout| ring.allocate(layout).expect("no limit").cast::<u8>();
    let mut blocks = Vec::new();
    let first = divided_front(&ring);
    while divided_front(&ring) == first {
        blocks.push(allocate(old));
    }
    // Free three neighbours of seven, which is less than half, and shrink the others.
    let (freed, shrunk): (Vec<_>, Vec<_>) = blocks.into_iter().enumerate().partition(|(at, _)| at % 7 < 3);
    for (_, block) in freed {
        // SAFETY: the block was allocated above with the layout `old`.
        unsafe { ring.deallocate(block, old) };
    }
    for (_, block) in &shrunk {
        // SAFETY: the block was allocated above with the layout `old`.
        let tail = unsafe { ring.shrink(*block, old, new) };
        assert!(tail.is_ok());
    }
    // The front has room for 30 of these 36 blocks. Most of the others go to holes of the first
    // chunk.
    let again: Vec<_> = (0..36).map(|_| allocate(old)).collect();
    let chunk = first.expect("the ring is sparse").addr();
    let inside = |block: &&NonNull<u8>| block.addr().get() & !(Divided::SMALL_CHUNK - 1) == chunk;
    assert!(again.iter().filter(inside).count() > 2);
    // SAFETY: the block was allocated above with the layout `old`.
    again.into_iter().for_each(|block| unsafe { ring.deallocate(block, old) });
    // SAFETY: the block has the layout `new` since it was shrunk.
    shrunk.into_iter().for_each(|(_, block)| unsafe { ring.deallocate(block, new) });
}

/// Fills six chunks, and frees a third of the blocks of each, side by side. Returns the others.
fn two_thirds(ring: &Ring) -> Vec<Block> {
    let blocks = (0..39 * 6).map(|_| block(ring)).collect::<Vec<_>>().into_iter().enumerate();
    blocks.filter(|(number, _)| number % 39 < 26).map(|(_, block)| block).collect()
}

#[test]
fn refused_request_takes_a_hole_that_no_search_has_found() {
    let most = {
        let (ring, _kept) = sparse();
        let _blocks = two_thirds(&ring);
        ring.stats().bytes_held
    };
    let (ring, _kept) = sparse_within(most);
    let _blocks = two_thirds(&ring);
    let more = (0..).map_while(|_| Box::try_new_in([7; 200], ring.clone()).ok()).collect::<Vec<Block>>();
    // The front has room for 39 blocks at most.
    assert!(more.len() > 45, "{} blocks", more.len());
}

#[test]
fn top_block_of_a_hole_grows_in_place() {
    let (ring, _kept) = sparse();
    let mut vec = Vec::with_capacity_in(16, ring.clone());
    vec.push(1_u8);
    let before = vec.as_ptr();
    vec.reserve_exact(100);
    assert_eq!((before, divided_front(&ring).is_some()), (vec.as_ptr(), true));
}

#[test]
fn block_that_replaces_the_top_block_of_a_hole_takes_its_place() {
    let (ring, _kept) = sparse();
    let _below = block(&ring);
    let place = || (NonNull::from(&*block(&ring)), divided_front(&ring).is_some());
    let first = place();
    assert!((0..100).all(|_| place() == first) && first.1);
}

#[test]
fn refused_request_keeps_the_room_of_the_front() {
    let (ring, _kept) = sparse_within(sparse().0.stats().bytes_held);
    let (large, small) = (Layout::new::<[u64; 25]>(), Layout::new::<u64>());
    let blocks = (0..).map_while(|_| ring.allocate(large).ok()).collect::<Vec<_>>();
    assert!(divided_front(&ring).is_some());
    // The hole has no room for 200 bytes, so fewer than 25 small blocks fit into it.
    let more = (0..).map_while(|_| ring.allocate(small).ok()).collect::<Vec<_>>();
    assert!((3..25).contains(&more.len()), "{} small blocks", more.len());
    let all = blocks.iter().map(|block| (block, large)).chain(more.iter().map(|block| (block, small)));
    // SAFETY: the blocks were allocated above with these layouts.
    all.for_each(|(block, layout)| unsafe { ring.deallocate(block.cast(), layout) });
}

/// The number of operations in each round of the test below.
const OPERATIONS: usize = if cfg!(miri) { 250 } else { 20_000 };

/// A block of random size and alignment, whose bytes have one value.
struct Stamped {
    start: NonNull<u8>,
    layout: Layout,
    stamp: u8,
}

impl Stamped {
    fn new(ring: &Ring, rng: &mut SplitMix, stamp: u8) -> Self {
        let align = 1 << rng.below(7);
        let layout =
            Layout::from_size_align(1 + rng.below(Divided::SMALL_MAX), align).expect("a valid layout");
        let mut block = Self { start: ring.allocate(layout).expect("no limit").cast(), layout, stamp };
        block.fill();
        block
    }

    fn fill(&mut self) {
        // SAFETY: the block is live and has this many bytes.
        unsafe { self.start.write_bytes(self.stamp, self.layout.size()) };
    }

    fn check(&self, bytes: usize) {
        // SAFETY: the block is live, has at least this many bytes, and was filled.
        let bytes = unsafe { core::slice::from_raw_parts(self.start.as_ptr(), bytes) };
        assert!(bytes.iter().all(|byte| *byte == self.stamp), "a block has two users");
    }

    /// Grows or shrinks the block to `size` bytes.
    fn resize(&mut self, ring: &Ring, size: usize) {
        let new = Layout::from_size_align(size, self.layout.align()).expect("a valid layout");
        let block = if size >= self.layout.size() {
            // SAFETY: the block is live with this layout, and the new one is not smaller.
            unsafe { ring.grow(self.start, self.layout, new) }
        } else {
            // SAFETY: the block is live with this layout, and the new one is smaller.
            unsafe { ring.shrink(self.start, self.layout, new) }
        };
        self.start = block.expect("no limit").cast();
        self.check(size.min(self.layout.size()));
        self.layout = new;
        self.fill();
    }

    fn free(self, ring: &Ring) {
        self.check(self.layout.size());
        // SAFETY: the block is live with this layout.
        unsafe { ring.deallocate(self.start, self.layout) };
    }
}

/// Replaces, grows and shrinks random blocks, of which a few live long, and checks the contents of
/// the blocks, the statistics, and the list of chunks with holes.
#[test]
fn blocks_of_a_sparse_ring_do_not_overlap() {
    for seed in 0..if cfg!(miri) { 1 } else { 20 } {
        let (ring, kept) = sparse();
        let (mut rng, mut divided) = (SplitMix::new(seed), 0);
        let mut blocks: Vec<_> = (0..100).map(|stamp| Stamped::new(&ring, &mut rng, stamp)).collect();
        for step in 0..OPERATIONS {
            // One block in ten is replaced rarely.
            let index = if rng.below(300) == 0 { rng.below(10) } else { 10 + rng.below(90) };
            match rng.below(4) {
                0 => blocks[index].resize(&ring, 1 + rng.below(Divided::SMALL_MAX)),
                _ => {
                    let new = Stamped::new(&ring, &mut rng, step as u8);
                    core::mem::replace(&mut blocks[index], new).free(&ring);
                }
            }
            if step % 64 == 0 {
                ring.inner().heap().check_holes::<Divided>();
                divided += usize::from(divided_front(&ring).is_some());
                assert_eq!(ring.stats().blocks_live(), blocks.len() + kept.len());
            }
        }
        assert!(divided > OPERATIONS / 64 / 4, "the ring was sparse at {divided} checks");
        blocks.into_iter().for_each(|block| block.free(&ring));
        drop(kept);
        ring.trim();
        assert_eq!(ring.stats().chunks(), 0);
    }
}
