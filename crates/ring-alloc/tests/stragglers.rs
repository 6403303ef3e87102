//! Tests that a few long-lived blocks among many short-lived ones keep little memory, whichever
//! thread frees the others.
#![cfg(all(feature = "std", target_has_atomic = "64", not(miri)))]

extern crate alloc;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use allocator_api2::alloc::Allocator;
use core::alloc::Layout;
use core::ptr::NonNull;
use std::sync::mpsc::sync_channel;
use std::thread;

use ephemera_testkit::SplitMix;
use ephemera_testkit::suite::take_turn;
use ring_alloc::{OneRingAlloc, RingAlloc, Stats};

/// The number of live blocks that are not stragglers.
const WINDOW: usize = 4_096;
/// A straggler lives this many times longer than the other blocks.
const LONGER: usize = 100;

/// One in this many blocks is a straggler.
const ONE_IN: usize = 100;

/// Blocks of 64 to 1,024 bytes, of which the oldest is freed first. One block in `aligned` is
/// aligned to 64 bytes.
struct Window<A: Allocator + Clone, F: FnMut(Block<A>)> {
    alloc: A,
    rng: SplitMix,
    aligned: usize,
    blocks: VecDeque<Block<A>>,
    stragglers: VecDeque<Block<A>>,
    free: F,
}

/// A block whose first and last byte are its size, modulo 256. It is freed when it is dropped.
struct Block<A: Allocator> {
    start: NonNull<u8>,
    layout: Layout,
    alloc: A,
}

// SAFETY: any thread may free a block of such an allocator.
unsafe impl<A: Allocator + Send> Send for Block<A> {}

impl<A: Allocator> Block<A> {
    /// Returns the first and the last byte.
    fn ends(&self) -> [*mut u8; 2] {
        [0, self.layout.size() - 1].map(|offset| self.start.as_ptr().wrapping_add(offset))
    }
}

impl<A: Allocator> Drop for Block<A> {
    fn drop(&mut self) {
        // SAFETY: both bytes are in the block, and were written after it was allocated.
        let ends = self.ends().map(|end| unsafe { end.read() });
        assert_eq!(ends, [self.layout.size() as u8; 2], "a block has two users");
        // SAFETY: the block was allocated from this allocator with this layout.
        unsafe { self.alloc.deallocate(self.start, self.layout) };
    }
}

impl<A: Allocator + Clone, F: FnMut(Block<A>)> Window<A, F> {
    /// Creates an empty window, which passes each block to `free` at the end of its life.
    fn new(alloc: A, aligned: usize, free: F) -> Self {
        let (blocks, stragglers) = (VecDeque::new(), VecDeque::new());
        Self { alloc, rng: SplitMix::new(7), aligned, blocks, stragglers, free }
    }

    /// Allocates and frees blocks until about as many stragglers have been freed as are live.
    fn run(&mut self) {
        for _ in 0..2 * LONGER * WINDOW {
            let align = if self.rng.below(self.aligned) == 0 { 64 } else { 8 };
            let layout = Layout::from_size_align(64 + self.rng.below(961), align).expect("a valid layout");
            let start = self.alloc.allocate(layout).expect("no limit").cast();
            let block = Block { start, layout, alloc: self.alloc.clone() };
            // SAFETY: both bytes are in the new block.
            block.ends().into_iter().for_each(|end| unsafe { end.write(layout.size() as u8) });
            let stays = self.rng.below(ONE_IN) == 0;
            if stays { &mut self.stragglers } else { &mut self.blocks }.push_back(block);
            if self.blocks.len() > WINDOW {
                self.blocks.pop_front().into_iter().for_each(&mut self.free);
            }
            if self.stragglers.len() > LONGER * WINDOW / ONE_IN {
                self.stragglers.pop_front().into_iter().for_each(&mut self.free);
            }
        }
    }
}

/// Checks that an allocator holds less than four times the live bytes of a window whose blocks its
/// own thread frees.
fn check_held(stats: impl Fn() -> Stats, alloc: impl Allocator + Clone, aligned: usize) {
    let mut window = Window::new(alloc, aligned, drop);
    window.run();
    check(stats(), 4);
}

/// Checks that an allocator holds less than `times` times the live bytes.
fn check(stats: Stats, times: usize) {
    let (held, live) = (stats.bytes_held, stats.bytes_live);
    assert!(held < times * live, "{held} bytes held for {live} live ones");
}

#[test]
fn one_straggler_in_a_hundred_keeps_four_times_the_live_bytes_at_most() {
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

/// Another thread frees one block in twenty, stragglers too.
#[test]
fn frees_by_another_thread_let_stragglers_keep_little_more() {
    take_turn();
    let (send, blocks) = sync_channel::<Vec<Block<OneRingAlloc>>>(4);
    let other = thread::spawn(move || blocks.into_iter().for_each(drop));
    let (mut rng, mut sent) = (SplitMix::new(8), Vec::new());
    let mut window = Window::new(OneRingAlloc, usize::MAX, |block| {
        if rng.below(20) == 0 {
            sent.push(block);
        }
        if sent.len() == 100 {
            send.send(core::mem::take(&mut sent)).expect("the other thread receives");
        }
    });
    window.run();
    check(OneRingAlloc.stats(), 5);
    drop(window);
    drop((sent, send));
    other.join().expect("no panic");
    OneRingAlloc.trim();
    assert_eq!(OneRingAlloc.stats().bytes_held, 0);
}
