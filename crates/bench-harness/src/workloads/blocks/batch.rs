//! S2, batch: allocates `n` blocks and writes every byte. Then it frees the first half oldest
//! first, and the second half newest first.

use core::ptr::null_mut;

use super::layout;
use crate::blocks::{Contender, RawAlloc};
use crate::tally;
use crate::workloads::{Cell, StateCell, by_const, each, mix};

/// Runs one batch of `blocks.len()` blocks. Returns a checksum, which is 0 in a timed run.
#[inline(never)]
pub(crate) fn batch<R: RawAlloc + Copy, const SIZE: usize>(alloc: R, blocks: &mut [*mut u8]) -> u64 {
    let layout = layout(SIZE, 8);
    let mut sum = 0;
    for (i, slot) in blocks.iter_mut().enumerate() {
        // SAFETY: no size of this workload is zero.
        let block = unsafe { alloc.alloc(layout) };
        // SAFETY: the block has this size, and only this loop uses it.
        unsafe { block.write_bytes(i as u8, SIZE) };
        *slot = block;
    }
    let (oldest_first, newest_first) = blocks.split_at(blocks.len() / 2);
    let half = oldest_first.len();
    for (i, &block) in oldest_first.iter().enumerate() {
        // SAFETY: the block was allocated above and written with `i`. It is only in this half, so
        // it is freed once.
        unsafe { free::<R, SIZE>(alloc, block, i as u8, &mut sum) };
    }
    for (i, &block) in newest_first.iter().enumerate().rev() {
        // SAFETY: the block was allocated above and written with `half + i`. It is only in this
        // half, so it is freed once.
        unsafe { free::<R, SIZE>(alloc, block, (half + i) as u8, &mut sum) };
    }
    sum
}

/// Verifies all bytes in a counted run, then frees the block.
///
/// # Safety
///
/// `alloc` must have returned `block` for this workload's layout, and all its bytes must be `tag`.
/// The caller must not use the block afterwards.
#[inline(always)]
unsafe fn free<R: RawAlloc, const SIZE: usize>(alloc: R, block: *mut u8, tag: u8, sum: &mut u64) {
    if R::CHECKED {
        // SAFETY: the block has this size and is initialised, and no other code uses it.
        let bytes = unsafe { core::slice::from_raw_parts(block, SIZE) };
        if bytes.iter().any(|&byte| byte != tag) {
            tally::damaged();
        }
        *sum = mix(*sum, bytes.iter().map(|&byte| u64::from(byte)).sum());
    }
    // SAFETY: `alloc` returned the block for this layout, and the caller does not use it
    // afterwards.
    unsafe { alloc.dealloc(block, layout(SIZE, 8)) };
}

fn boxed<C: Contender, const SIZE: usize>(n: usize) -> Box<dyn Cell> {
    let state = (C::create(), vec![null_mut(); n]);
    StateCell::boxed(n, state, |(alloc, blocks), units| {
        each(units, || {
            let sum = batch::<_, SIZE>(alloc.by_ref(), blocks);
            alloc.reset();
            sum
        })
    })
}

/// Builds a cell of `n` blocks of 16, 64 or 256 bytes.
///
/// # Panics
///
/// Panics for any other size.
pub(crate) fn cell<C: Contender>(n: usize, size: usize) -> Box<dyn Cell> {
    by_const!(size, [16, 64, 256], SIZE => boxed::<C, SIZE>(n))
}
