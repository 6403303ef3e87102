//! S11, frames: what a game or a simulation does. A frame is twenty-five steps; in each, some two hundred blocks of scratch come,
//! and go again at its end, newest first, but for one in twenty, which lives two or three frames longer. And a list is grown
//! to some tens of kilobytes, read, and dropped with the frame.
//!
//! An arena that cannot free block by block is used as it is in such programs: one for each of the last frames, reset when its
//! turn comes again.

use core::hint::black_box;
use std::time::Instant;

use allocator_api2::vec::Vec as List;
use hdrhistogram::Histogram;
use rand::RngExt;

use super::{layout, touch, verify};
use crate::blocks::{Contender, Handle, RawAlloc};
use crate::workloads::draws::{self, stream};
use crate::workloads::{Cell, Context, Load, load, mix};

/// Steps of a frame.
const STEPS: usize = 25;
/// Blocks of a step, on average.
const BLOCKS: f64 = 200.0;
/// Of so many blocks, one outlives its frame.
const KEPT_ONE_IN: u64 = 20;
/// Turns of frames: a block that comes in one has ended before the same turn comes again.
pub const TURNS: usize = 4;
/// Entries of the tables of sizes and lives, and of counts.
const TABLE: usize = 4096;
const COUNTS: usize = 1000;
/// Bytes that the list grows by at a time, and how often at least and at most.
const CHUNK: usize = 512;
const CHUNKS: (u16, u16) = (20, 80);

/// A block that is alive.
#[derive(Clone, Copy, Debug)]
struct FrameBlock {
    at: *mut u8,
    size: u16,
    tag: u8,
    /// The turn that it came in.
    turn: u8,
}

/// What comes in each frame, made beforehand.
#[derive(Debug)]
struct Tables {
    sizes: Box<[u16; TABLE]>,
    /// Frames that a block lives on: 0, mostly.
    lives: Box<[u8; TABLE]>,
    counts: Box<[u16; COUNTS]>,
    chunks: Box<[u16; COUNTS]>,
}

/// The frames so far: tables, blocks that live on, and room for those that do not.
#[derive(Debug)]
pub struct Frames {
    tables: Tables,
    /// Blocks that live on, by the turn that they end in.
    kept: [Vec<FrameBlock>; TURNS],
    scratch: Vec<FrameBlock>,
    frame: usize,
    block: usize,
}

impl Frames {
    /// Before the first frame.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut rng = stream(seed, 14);
        let mut lives = Box::new([0; TABLE]);
        lives.fill_with(|| {
            if rng.random_range(0..KEPT_ONE_IN) == 0 { 2 + rng.random_range(0..2_u64) as u8 } else { 0 }
        });
        let counts = draws::poisson::<COUNTS>(seed, BLOCKS);
        let most = counts.iter().copied().max().unwrap_or(0);
        let (low, high) = CHUNKS;
        let chunks = draws::uniform::<COUNTS>(seed, low, high);
        let tables = Tables { sizes: draws::uniform(seed, 16, 512), lives, counts, chunks };
        let kept = [(); TURNS].map(|()| Vec::with_capacity(STEPS * usize::from(most)));
        Self { tables, kept, scratch: Vec::with_capacity(usize::from(most)), frame: 0, block: 0 }
    }
}

/// Frees a block, after a look at it in a check run.
///
/// # Safety
///
/// The block came from this allocator, was touched with its tag, and is used no more.
#[inline(always)]
unsafe fn end<R: RawAlloc + Copy>(alloc: R, block: FrameBlock, sum: &mut u64) {
    let size = usize::from(block.size);
    // SAFETY: the block was touched when it came.
    unsafe { verify::<R>(block.at, size, block.tag, sum) };
    // SAFETY: the caller's duty is the callee's.
    unsafe { alloc.dealloc(block.at, layout(size, 8)) };
}

/// One frame, whose blocks come from the allocator of its turn.
///
/// # Safety
///
/// The frames before were given the same allocators.
#[inline(never)]
pub unsafe fn frame<R: RawAlloc + Copy>(allocs: &[R; TURNS], state: &mut Frames) -> u64 {
    let mut sum = 0;
    let now = state.frame;
    let turn = now % TURNS;
    let alloc = allocs[turn];
    let mut list = List::new_in(Handle(alloc));
    let chunks = usize::from(state.tables.chunks[now % COUNTS]);
    for step in 0..STEPS {
        for _ in 0..state.tables.counts[(now * STEPS + step) % COUNTS] {
            let index = state.block % TABLE;
            let (size, life) = (state.tables.sizes[index], usize::from(state.tables.lives[index]));
            // SAFETY: sizes start at 16.
            let at = unsafe { alloc.alloc(layout(usize::from(size), 8)) };
            let block = FrameBlock { at, size, tag: state.block as u8, turn: turn as u8 };
            // SAFETY: the block is that long and the frame's own.
            unsafe { touch(at, usize::from(size), block.tag) };
            state.block += 1;
            let until = if life == 0 { &mut state.scratch } else { &mut state.kept[(now + life) % TURNS] };
            until.push(block);
        }
        for block in state.scratch.drain(..).rev() {
            // SAFETY: it came from this allocator above.
            unsafe { end(alloc, block, &mut sum) };
        }
        list.resize((step + 1) * chunks / STEPS * CHUNK, step as u8);
    }
    // Read once, as who made it would.
    sum = mix(sum, list.iter().map(|&byte| u64::from(byte)).sum());
    drop(list);
    for block in state.kept[turn].drain(..) {
        // SAFETY: it came from the allocator of its turn, some frames ago.
        unsafe { end(allocs[usize::from(block.turn)], block, &mut sum) };
    }
    state.frame += 1;
    sum
}

/// The frames, over one allocator or, where it cannot free block by block, one for each turn.
struct Loop<C: Contender> {
    state: Frames,
    allocs: Vec<C>,
}

impl<C: Contender> Loop<C> {
    /// The allocator of each turn.
    fn turns(allocs: &[C]) -> [C::Ref<'_>; TURNS] {
        core::array::from_fn(|turn| allocs[turn % allocs.len()].by_ref())
    }
}

impl<C: Contender> Cell for Loop<C> {
    fn run(&mut self, units: u64) -> u64 {
        let mut sum = 0;
        for _ in 0..units {
            if self.allocs.len() == TURNS {
                // Its blocks ended with the frame before, at the latest.
                self.allocs[self.state.frame % TURNS].reset();
            }
            // SAFETY: the allocators are the cell's own.
            sum = mix(sum, unsafe { frame(&Self::turns(&self.allocs), &mut self.state) });
        }
        sum
    }

    /// What each frame takes, one after the other: a program that draws misses its moment by the longest, not by the mean.
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
            // SAFETY: it came from the allocator of its turn.
            unsafe { end(turns[usize::from(block.turn)], block, &mut sum) };
        }
    }
}

/// A cell before its first frame.
pub fn cell<C: Contender>(context: &Context) -> Box<dyn Cell> {
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
        // One frame follows the other without a gap, and figures are true to three digits.
        let sum: f64 = times
            .iter_recorded()
            .map(|bar| bar.value_iterated_to() as f64 * bar.count_at_value() as f64)
            .sum();
        assert!(sum >= load.length.as_nanos() as f64 * 0.998, "{sum} ns");
    }
}
