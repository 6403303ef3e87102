//! Tests of sparse heaps: a few long-lived blocks among many short-lived ones keep little memory,
//! and a heap whose blocks are short-lived again is as before.
#![cfg(all(feature = "std", target_has_atomic = "64", not(miri)))]

extern crate alloc;

use alloc::collections::VecDeque;
use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use ephemera_testkit::SplitMix;
use ephemera_testkit::suite::take_turn;
use ring_alloc::{OneRingAlloc, RingAlloc, Stats};

/// The number of live blocks that are no stragglers.
const WINDOW: usize = 4_096;
/// A straggler lives this many times longer than the other blocks.
const LONGER: usize = 100;

/// Blocks of 64 to 1,024 bytes, of which the oldest is freed first. One block in `one_in` is a
/// straggler.
struct Window<A: Allocator + Clone> {
    alloc: A,
    rng: SplitMix,
    one_in: usize,
    blocks: VecDeque<Vec<u8, A>>,
    stragglers: VecDeque<Vec<u8, A>>,
}

impl<A: Allocator + Clone> Window<A> {
    fn new(alloc: A, one_in: usize) -> Self {
        Self { alloc, rng: SplitMix::new(7), one_in, blocks: VecDeque::new(), stragglers: VecDeque::new() }
    }

    /// Replaces blocks until each straggler that is live now has been freed.
    fn run(&mut self) {
        for _ in 0..2 * LONGER * WINDOW {
            let mut block = Vec::with_capacity_in(64 + self.rng.below(961), self.alloc.clone());
            block.push(7);
            let kept = if self.rng.below(self.one_in) == 0 { &mut self.stragglers } else { &mut self.blocks };
            kept.push_back(block);
            if self.blocks.len() > WINDOW {
                self.blocks.pop_front();
            }
            if self.stragglers.len() > LONGER * WINDOW / self.one_in {
                self.stragglers.pop_front();
            }
        }
    }
}

fn check_held(stats: impl Fn() -> Stats, alloc: impl Allocator + Clone) {
    let mut window = Window::new(alloc, 100);
    window.run();
    let sparse = stats();
    let times = sparse.bytes_held / sparse.bytes_live;
    assert!(times < 6, "{} bytes held for {} live ones", sparse.bytes_held, sparse.bytes_live);
    drop(window);
}

#[test]
fn one_straggler_in_a_hundred_keeps_six_times_the_live_bytes_at_most() {
    let ring = RingAlloc::new();
    check_held(|| ring.stats(), &ring);
    ring.trim();
    assert_eq!(ring.stats().chunks(), 0);
}

#[test]
fn one_straggler_in_a_hundred_keeps_little_in_the_heap_of_a_thread() {
    take_turn();
    check_held(|| OneRingAlloc.stats(), OneRingAlloc);
    OneRingAlloc.trim();
    assert_eq!(OneRingAlloc.stats().bytes_held, 0);
}

/// Returns a ring whose heap is sparse, and the blocks that pin its chunks.
fn sparse() -> (RingAlloc, alloc::vec::Vec<Box<[u8; 1_000], RingAlloc>>) {
    let ring = RingAlloc::new();
    let mut blocks: alloc::vec::Vec<_> =
        (0..32 * 80).map(|_| Some(Box::new_in([7; 1_000], ring.clone()))).collect();
    let kept = blocks.iter_mut().step_by(32).filter_map(Option::take).collect();
    drop(blocks);
    // The heap takes its census when it grows.
    drop((0..32 * 10).map(|_| Box::new_in([7; 1_000], ring.clone())).collect::<alloc::vec::Vec<_>>());
    (ring, kept)
}

#[test]
fn hole_is_reused_while_other_sections_of_its_chunk_are_live() {
    let (ring, _kept) = sparse();
    let fill = |chunks| {
        (0..32 * chunks).map(|_| Box::new_in([3_u8; 1_000], ring.clone())).collect::<alloc::vec::Vec<_>>()
    };
    let mut blocks: alloc::vec::Vec<_> = fill(60).into_iter().map(Some).collect();
    // One block in a chunk stays.
    let stays: alloc::vec::Vec<_> = blocks.iter_mut().step_by(32).filter_map(Option::take).collect();
    drop(blocks);
    let before = ring.stats().small.chunks;
    let again = fill(40);
    assert_eq!(ring.stats().small.chunks, before);
    assert!(again.iter().chain(&stays).all(|block| block.iter().all(|byte| *byte == 3)));
}

#[test]
fn block_at_the_end_of_a_hole_grows_in_place() {
    let (ring, _kept) = sparse();
    let mut vec = Vec::with_capacity_in(16, &ring);
    vec.push(1_u8);
    let before = vec.as_ptr();
    vec.reserve_exact(100);
    assert_eq!(before, vec.as_ptr());
}

#[test]
fn blocks_that_are_freed_at_once_stay_in_the_same_cache_lines_in_a_sparse_heap() {
    let (ring, _kept) = sparse();
    let layout = Layout::new::<[u64; 8]>();
    let place = || {
        let block: NonNull<u8> = ring.allocate(layout).expect("no limit").cast();
        // SAFETY: the block was allocated above with this layout.
        unsafe { ring.deallocate(block, layout) };
        block
    };
    let first = (0..200).map(|_| place()).next_back();
    assert_eq!(first, Some(place()), "each block starts at the start of the front");
}
