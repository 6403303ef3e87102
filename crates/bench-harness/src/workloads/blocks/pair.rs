//! S1, pair: allocate one block, touch it, free it. The fast path alone, and the one place where an arena frees too.

use super::{layout, touch, verify};
use crate::blocks::{Contender, RawAlloc};
use crate::workloads::{Cell, Context, mix};

/// Pairs after which an arena is reset: one of them does not take back even its last block.
const BETWEEN_RESETS: u64 = 256;

/// Allocates and frees a block of `SIZE` bytes, `ops` times. The layout is a constant, as it is for a `Box<T>`.
#[inline(never)]
pub fn pair<R: RawAlloc + Copy, const SIZE: usize>(alloc: R, ops: u64) -> u64 {
    let layout = layout(SIZE, if SIZE < 8 { 4 } else { 8 });
    let mut sum = 0;
    for i in 0..ops {
        // SAFETY: no size of this workload is zero.
        let block = unsafe { alloc.alloc(layout) };
        // SAFETY: the block is that long and this loop's own.
        unsafe { touch(block, SIZE, i as u8) };
        // SAFETY: written the line before.
        unsafe { verify::<R>(block, SIZE, i as u8, &mut sum) };
        // SAFETY: the block came from this allocator for this layout, and this is its last use.
        unsafe { alloc.dealloc(block, layout) };
    }
    sum
}

/// A contender that runs [`pair`].
#[derive(Debug)]
struct BlockPair<C, const SIZE: usize>(C);

impl<C: Contender, const SIZE: usize> Cell for BlockPair<C, SIZE> {
    fn run(&mut self, units: u64) -> u64 {
        let mut sum = 0;
        let mut left = units;
        while left > 0 {
            let ops = left.min(BETWEEN_RESETS);
            sum = mix(sum, pair::<_, SIZE>(self.0.by_ref(), ops));
            self.0.reset();
            left -= ops;
        }
        sum
    }
}

/// The sizes that exist.
pub const SIZES: [usize; 8] = [4, 16, 64, 256, 400, 1024, 3000, 8192];

/// A cell for one of [`SIZES`].
///
/// # Panics
///
/// For any other size.
pub fn cell<C: Contender>(size: usize, _context: &Context) -> Box<dyn Cell> {
    match size {
        4 => Box::new(BlockPair::<C, 4>(C::create())),
        16 => Box::new(BlockPair::<C, 16>(C::create())),
        64 => Box::new(BlockPair::<C, 64>(C::create())),
        256 => Box::new(BlockPair::<C, 256>(C::create())),
        400 => Box::new(BlockPair::<C, 400>(C::create())),
        1024 => Box::new(BlockPair::<C, 1024>(C::create())),
        3000 => Box::new(BlockPair::<C, 3000>(C::create())),
        8192 => Box::new(BlockPair::<C, 8192>(C::create())),
        other => panic!("no pair workload of {other} bytes; there are {SIZES:?}"),
    }
}
