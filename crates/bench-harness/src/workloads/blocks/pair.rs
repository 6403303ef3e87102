//! S1, pair: allocates one block, touches it and frees it. Only the fast path runs. Arenas take
//! part, too: some reuse the block that was allocated last, and all are reset every 256 pairs.

use super::{layout, touch, verify};
use crate::blocks::{Contender, RawAlloc};
use crate::workloads::{Cell, StateCell, by_const, stretches};

/// The number of pairs after which an arena is reset, because one of the arenas does not reuse even
/// its last block.
const BETWEEN_RESETS: u64 = 256;

/// Allocates and frees a block of `SIZE` bytes, `ops` times. The layout is a constant, as it is for
/// a `Box<T>`. Returns a checksum, which is 0 in a timed run.
#[inline(never)]
pub(crate) fn pair<R: RawAlloc + Copy, const SIZE: usize>(alloc: R, ops: u64) -> u64 {
    let layout = layout(SIZE, if SIZE < 8 { 4 } else { 8 });
    let mut sum = 0;
    for i in 0..ops {
        // SAFETY: no size of this workload is zero.
        let block = unsafe { alloc.alloc(layout) };
        // SAFETY: the block has this size, and only this loop uses it.
        unsafe { touch(block, SIZE, i as u8) };
        // SAFETY: `touch` wrote the block in the line before, with this size and tag.
        unsafe { verify::<R>(block, SIZE, i as u8, &mut sum) };
        // SAFETY: this allocator returned the block for this layout, and this is its last use.
        unsafe { alloc.dealloc(block, layout) };
    }
    sum
}

fn boxed<C: Contender, const SIZE: usize>() -> Box<dyn Cell> {
    StateCell::boxed(1, C::create(), |alloc, units| {
        stretches(units, BETWEEN_RESETS, |ops| {
            let sum = pair::<_, SIZE>(alloc.by_ref(), ops);
            alloc.reset();
            sum
        })
    })
}

/// Builds a cell of blocks of `size` bytes.
///
/// # Panics
///
/// Panics if there is no workload of blocks of this size.
pub(crate) fn cell<C: Contender>(size: usize) -> Box<dyn Cell> {
    by_const!(size, [4, 16, 64, 256, 400, 1024, 3000, 8192], SIZE => boxed::<C, SIZE>())
}
