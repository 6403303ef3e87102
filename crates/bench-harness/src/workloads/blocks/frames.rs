//! S11, frames: the pattern of a game or a simulation. A frame has twenty-five steps. Each step
//! allocates about two hundred blocks and frees most of them at its end, newest first. One block in
//! twenty lives two or three frames longer. In addition, a list grows to tens of kilobytes, is
//! read, and is dropped with the frame.
//!
//! An arena that cannot free single blocks is used as real programs use it: each of the last four
//! frames has its own arena, which is reset before a new frame uses it.

use core::hint::black_box;
use std::time::Instant;

use allocator_api2::vec::Vec as List;
use hdrhistogram::Histogram;
use rand::RngExt;

use super::{layout, touch, verify};
use crate::blocks::{BlockHandle, Contender, RawAlloc};
use crate::workloads::draws::{self, stream};
use crate::workloads::{Cell, Context, Load, load, mix};

const STEPS: usize = 25;
/// The mean number of blocks that a step allocates.
const BLOCKS: f64 = 200.0;
/// On average, one block in this number outlives its frame.
const KEPT_ONE_IN: u64 = 20;
/// The number of turns. Frame `n` has the turn `n % TURNS`. A block is freed before its turn comes
/// again.
const TURNS: usize = 4;
/// The number of entries in the tables of sizes and lifetimes.
const TABLE: usize = 4096;
/// The number of entries in the tables of counts.
const COUNTS: usize = 1000;
/// The unit of the list's length, in bytes.
const CHUNK: usize = 512;
/// The smallest and the largest final length of the list, in units of [`CHUNK`] bytes.
const CHUNKS: (u16, u16) = (20, 80);

/// A live block.
#[derive(Clone, Copy, Debug)]
struct FrameBlock {
    at: *mut u8,
    size: u16,
    tag: u8,
    /// The turn in which the block was allocated.
    turn: u8,
}

/// The state of the frames: the tables that determine their allocations, the blocks that outlive
/// their frame, and room for the other blocks of a step.
struct Frames {
    sizes: Box<[u16; TABLE]>,
    /// The number of frames for which a block outlives its own frame, mostly 0.
    lives: Box<[u8; TABLE]>,
    counts: Box<[u16; COUNTS]>,
    chunks: Box<[u16; COUNTS]>,
    /// The blocks that outlive their frame, by the turn in which they are freed.
    kept: [Vec<FrameBlock>; TURNS],
    scratch: Vec<FrameBlock>,
    frame: usize,
    block: usize,
}

impl Frames {
    /// Creates the state before the first frame.
    fn new(seed: u64) -> Self {
        let mut rng = stream(seed, 14);
        let mut lives = Box::new([0; TABLE]);
        lives.fill_with(|| {
            if rng.random_range(0..KEPT_ONE_IN) == 0 { 2 + rng.random_range(0..2_u64) as u8 } else { 0 }
        });
        let counts = draws::poisson::<COUNTS>(seed, BLOCKS);
        let most = counts.iter().copied().max().unwrap_or(0);
        let (low, high) = CHUNKS;
        let chunks = draws::uniform::<COUNTS>(seed, low, high);
        let sizes = draws::uniform(seed, 16, 512);
        let kept = [(); TURNS].map(|()| Vec::with_capacity(STEPS * usize::from(most)));
        let scratch = Vec::with_capacity(usize::from(most));
        Self { sizes, lives, counts, chunks, kept, scratch, frame: 0, block: 0 }
    }
}

/// Verifies a block in a counted run, and frees it.
///
/// # Safety
///
/// `alloc` must have returned the block, and [`touch`] must have written the block's tag. The
/// caller must not use the block again.
#[inline(always)]
unsafe fn end<R: RawAlloc + Copy>(alloc: R, block: FrameBlock, sum: &mut u64) {
    let size = usize::from(block.size);
    // SAFETY: the block was touched when it was allocated.
    unsafe { verify::<R>(block.at, size, block.tag, sum) };
    // SAFETY: `alloc` returned the block for this layout, and the caller does not use it again.
    unsafe { alloc.dealloc(block.at, layout(size, 8)) };
}

/// Runs one frame, which allocates its blocks from `allocs[frame % TURNS]`. Returns a checksum.
///
/// # Safety
///
/// The caller must pass the same allocators in every call with this state.
#[inline(never)]
unsafe fn frame<R: RawAlloc + Copy>(allocs: &[R; TURNS], state: &mut Frames) -> u64 {
    let mut sum = 0;
    let now = state.frame;
    let turn = now % TURNS;
    let alloc = allocs[turn];
    let mut list = List::new_in(BlockHandle::<_, true>(alloc));
    let chunks = usize::from(state.chunks[now % COUNTS]);
    for step in 0..STEPS {
        for _ in 0..state.counts[(now * STEPS + step) % COUNTS] {
            let index = state.block % TABLE;
            let (size, life) = (state.sizes[index], usize::from(state.lives[index]));
            // SAFETY: sizes start at 16.
            let at = unsafe { alloc.alloc(layout(usize::from(size), 8)) };
            let block = FrameBlock { at, size, tag: state.block as u8, turn: turn as u8 };
            // SAFETY: the block was just allocated with this size, which is at least 16.
            unsafe { touch(at, usize::from(size), block.tag) };
            state.block += 1;
            let until = if life == 0 { &mut state.scratch } else { &mut state.kept[(now + life) % TURNS] };
            until.push(block);
        }
        for block in state.scratch.drain(..).rev() {
            // SAFETY: `alloc` returned the block in this step. The step touched the block with its
            // tag and does not use it again.
            unsafe { end(alloc, block, &mut sum) };
        }
        list.resize((step + 1) * chunks / STEPS * CHUNK, step as u8);
    }
    // The list is read once, as a program would read it.
    sum = mix(sum, list.iter().map(|&byte| u64::from(byte)).sum());
    drop(list);
    for block in state.kept[turn].drain(..) {
        // SAFETY: an earlier frame allocated the block from the allocator of the block's turn and
        // touched it with its tag. The block has just left the list, so it is not used again.
        unsafe { end(allocs[usize::from(block.turn)], block, &mut sum) };
    }
    state.frame += 1;
    sum
}

/// The frames over one contender: one allocator for all turns, or one for each turn if the
/// contender cannot free block by block.
struct Loop<C: Contender> {
    state: Frames,
    allocs: Vec<C>,
}

impl<C: Contender> Loop<C> {
    /// Returns the allocator of each turn.
    fn turns(allocs: &[C]) -> [C::Ref<'_>; TURNS] {
        core::array::from_fn(|turn| allocs[turn % allocs.len()].by_ref())
    }
}

impl<C: Contender> Cell for Loop<C> {
    fn run(&mut self, units: u64) -> u64 {
        let mut sum = 0;
        for _ in 0..units {
            if self.allocs.len() == TURNS {
                // The blocks of this allocator were freed in the previous frame at the latest.
                self.allocs[self.state.frame % TURNS].reset();
            }
            // SAFETY: only this cell runs frames on its state, always with its own allocators in
            // the same order.
            sum = mix(sum, unsafe { frame(&Self::turns(&self.allocs), &mut self.state) });
        }
        sum
    }

    /// Measures the time of each frame, one after the other. Whether a program misses a deadline
    /// depends on the longest frame, not on the mean.
    fn latencies(&mut self, load: &Load) -> Option<Histogram<u64>> {
        let mut times = load::latencies();
        let start = Instant::now();
        let mut begun = start;
        while begun - start < load.length {
            black_box(self.run(1));
            let ended = Instant::now();
            times.saturating_record((ended - begun).as_nanos() as u64);
            begun = ended;
        }
        Some(times)
    }
}

impl<C: Contender> Drop for Loop<C> {
    fn drop(&mut self) {
        let turns = Self::turns(&self.allocs);
        let mut sum = 0;
        for block in self.state.kept.iter_mut().flat_map(|blocks| blocks.drain(..)) {
            // SAFETY: a frame allocated the block from the allocator of the block's turn and
            // touched it with its tag. The block has just left its list, so it is not used again.
            unsafe { end(turns[usize::from(block.turn)], block, &mut sum) };
        }
    }
}

/// Builds a cell that has not run a frame yet.
pub(crate) fn cell<C: Contender>(context: &Context) -> Box<dyn Cell> {
    let turns = if C::INFO.caps.free_individually { 1 } else { TURNS };
    let allocs = core::iter::repeat_with(C::create).take(turns).collect();
    Box::new(Loop { state: Frames::new(context.seed), allocs })
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::contenders::blocks::System;

    #[test]
    fn each_frame_is_timed() {
        let mut frames = Loop { state: Frames::new(1), allocs: vec![System] };
        let load = Load { interval: Duration::from_millis(1), length: Duration::from_millis(20) };
        let times = frames.latencies(&load).expect("frames have latencies");
        assert_eq!(times.len(), frames.state.frame as u64);
        assert!(times.min() > 0);
        // Frames follow each other without a gap, and latencies are exact to three digits, so the
        // sum of the latencies is the length of the run, within that error.
        let sum: f64 = times
            .iter_recorded()
            .map(|bar| bar.value_iterated_to() as f64 * bar.count_at_value() as f64)
            .sum();
        assert!(sum >= load.length.as_nanos() as f64 * 0.998, "{sum} ns");
    }
}
