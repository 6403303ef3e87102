//! Tests that a few long-lived blocks among many short-lived ones keep little memory.
#![cfg(all(feature = "std", target_has_atomic = "64", not(miri)))]

extern crate alloc;

use alloc::collections::VecDeque;
use allocator_api2::alloc::Allocator;
use core::alloc::Layout;
use core::ptr::NonNull;
use ephemera_testkit::SplitMix;
use ephemera_testkit::suite::take_turn;
use ring_alloc::{OneRingAlloc, RingAlloc, Stats};

/// The number of live blocks that are no stragglers.
const WINDOW: usize = 4_096;
/// A straggler lives this many times longer than the other blocks.
const LONGER: usize = 100;

/// One block in this number is a straggler.
const ONE_IN: usize = 100;

/// Blocks of 64 to 1,024 bytes, of which the oldest is freed first. One block in `aligned` is
/// aligned to 64 bytes.
struct Window<A: Allocator + Clone> {
    alloc: A,
    rng: SplitMix,
    aligned: usize,
    blocks: VecDeque<Block<A>>,
    stragglers: VecDeque<Block<A>>,
}

/// A block that is freed when it is dropped.
struct Block<A: Allocator> {
    start: NonNull<u8>,
    layout: Layout,
    alloc: A,
}

impl<A: Allocator> Drop for Block<A> {
    fn drop(&mut self) {
        // SAFETY: the block was allocated from this allocator with this layout.
        unsafe { self.alloc.deallocate(self.start, self.layout) };
    }
}

impl<A: Allocator + Clone> Window<A> {
    fn new(alloc: A, aligned: usize) -> Self {
        Self { alloc, rng: SplitMix::new(7), aligned, blocks: VecDeque::new(), stragglers: VecDeque::new() }
    }

    /// Allocates and frees blocks until about as many stragglers have been freed as are live.
    fn run(&mut self) {
        for _ in 0..2 * LONGER * WINDOW {
            let align = if self.rng.below(self.aligned) == 0 { 64 } else { 8 };
            let layout = Layout::from_size_align(64 + self.rng.below(961), align).expect("a valid layout");
            let start = self.alloc.allocate(layout).expect("no limit").cast();
            let block = Block { start, layout, alloc: self.alloc.clone() };
            let stays = self.rng.below(ONE_IN) == 0;
            if stays { &mut self.stragglers } else { &mut self.blocks }.push_back(block);
            if self.blocks.len() > WINDOW {
                self.blocks.pop_front();
            }
            if self.stragglers.len() > LONGER * WINDOW / ONE_IN {
                self.stragglers.pop_front();
            }
        }
    }
}

/// Checks that an allocator holds less than six times the live bytes of a window.
fn check_held(stats: impl Fn() -> Stats, alloc: impl Allocator + Clone, aligned: usize) {
    let mut window = Window::new(alloc, aligned);
    window.run();
    let stats = stats();
    let most = 6 * stats.bytes_live;
    assert!(stats.bytes_held < most, "{} bytes held for {} live ones", stats.bytes_held, stats.bytes_live);
}

#[test]
fn one_straggler_in_a_hundred_keeps_six_times_the_live_bytes_at_most() {
    let ring = RingAlloc::new();
    check_held(|| ring.stats(), &ring, usize::MAX);
    ring.trim();
    assert_eq!(ring.stats().chunks(), 0);
}

#[test]
fn stragglers_among_aligned_blocks_keep_as_little() {
    let ring = RingAlloc::new();
    check_held(|| ring.stats(), &ring, 10);
}

#[test]
fn one_straggler_in_a_hundred_keeps_little_in_the_heap_of_a_thread() {
    take_turn();
    check_held(|| OneRingAlloc.stats(), OneRingAlloc, usize::MAX);
    OneRingAlloc.trim();
    assert_eq!(OneRingAlloc.stats().bytes_held, 0);
}
