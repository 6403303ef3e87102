//! S2, batch: `n` blocks, every byte written, the first half freed oldest first, the second newest first.

use core::ptr::null_mut;

use super::layout;
use crate::blocks::{Contender, RawAlloc};
use crate::tally;
use crate::workloads::{Cell, Context, mix};

/// Runs one batch of as many blocks as `blocks` has room for.
#[inline(never)]
pub fn batch<R: RawAlloc + Copy, const SIZE: usize>(alloc: R, blocks: &mut [*mut u8]) -> u64 {
    let layout = layout(SIZE, 8);
    let mut sum = 0;
    for (i, slot) in blocks.iter_mut().enumerate() {
        // SAFETY: no size of this workload is zero.
        let block = unsafe { alloc.alloc(layout) };
        // SAFETY: the block is that long and this loop's own.
        unsafe { block.write_bytes(i as u8, SIZE) };
        *slot = block;
    }
    let (oldest_first, newest_first) = blocks.split_at(blocks.len() / 2);
    let half = oldest_first.len();
    for (i, &block) in oldest_first.iter().enumerate() {
        // SAFETY: allocated above, written with `i`, freed once: it is in this half alone.
        unsafe { free::<R, SIZE>(alloc, block, i as u8, &mut sum) };
    }
    for (i, &block) in newest_first.iter().enumerate().rev() {
        // SAFETY: allocated above, written with `half + i`, freed once: it is in this half alone.
        unsafe { free::<R, SIZE>(alloc, block, (half + i) as u8, &mut sum) };
    }
    sum
}

/// Verifies all bytes in a check run, then frees.
///
/// # Safety
///
/// `block` came from `alloc` with this workload's layout, all its bytes are `tag`, and it is not used afterwards.
#[inline(always)]
unsafe fn free<R: RawAlloc, const SIZE: usize>(alloc: R, block: *mut u8, tag: u8, sum: &mut u64) {
    if R::CHECKED {
        // SAFETY: the block is that long, initialised, and nobody else's.
        let bytes = unsafe { core::slice::from_raw_parts(block, SIZE) };
        if bytes.iter().any(|&byte| byte != tag) {
            tally::damaged();
        }
        *sum = mix(*sum, bytes.iter().map(|&byte| u64::from(byte)).sum());
    }
    // SAFETY: the caller's duty is the callee's.
    unsafe { alloc.dealloc(block, layout(SIZE, 8)) };
}

struct BlockBatch<C, const SIZE: usize> {
    alloc: C,
    blocks: Box<[*mut u8]>,
}

impl<C: Contender, const SIZE: usize> BlockBatch<C, SIZE> {
    fn boxed(n: usize) -> Box<dyn Cell> {
        Box::new(Self { alloc: C::create(), blocks: vec![null_mut(); n].into() })
    }
}

impl<C: Contender, const SIZE: usize> Cell for BlockBatch<C, SIZE> {
    fn run(&mut self, units: u64) -> u64 {
        let mut sum = 0;
        for _ in 0..units {
            sum = mix(sum, batch::<_, SIZE>(self.alloc.by_ref(), &mut self.blocks));
            self.alloc.reset();
        }
        sum
    }

    fn ops_per_unit(&self) -> u64 {
        self.blocks.len() as u64
    }
}

/// A cell of `n` blocks of 16, 64 or 256 bytes.
///
/// # Panics
///
/// For any other size.
pub fn cell<C: Contender>(n: usize, size: usize, _context: &Context) -> Box<dyn Cell> {
    match size {
        16 => BlockBatch::<C, 16>::boxed(n),
        64 => BlockBatch::<C, 64>::boxed(n),
        256 => BlockBatch::<C, 256>::boxed(n),
        other => panic!("no batch workload of {other} bytes; there are 16, 64 and 256"),
    }
}
