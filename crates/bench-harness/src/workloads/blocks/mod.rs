//! Workloads over allocators of blocks of any size.

pub(crate) mod ageing;
pub(crate) mod batch;
pub(crate) mod frames;
pub(crate) mod grow;
pub(crate) mod idle;
pub(crate) mod json;
pub(crate) mod pair;
pub(crate) mod pareto;
pub(crate) mod replay;
pub(crate) mod threads;
pub(crate) mod window;

use core::alloc::Layout;

use super::slots::{SizeSpread, Slots};
use super::stock::{Lasting, Stock};
use super::{Cell, Context, mix, stragglers};
use crate::blocks::{Contender, RawAlloc};
use crate::tally;

/// Returns the layout of a block, without a check in release builds.
#[inline(always)]
pub(super) fn layout(size: usize, align: usize) -> Layout {
    debug_assert!(Layout::from_size_align(size, align).is_ok(), "size {size}, alignment {align}");
    // SAFETY: all callers pass an alignment of 4 or 8 and a size of at most 64 KiB.
    unsafe { Layout::from_size_align_unchecked(size, align) }
}

/// Writes the first and the last byte of a block.
///
/// # Safety
///
/// The block must have `size` bytes, `size` must be above zero, and the caller must own the block.
#[inline(always)]
unsafe fn touch(block: *mut u8, size: usize, tag: u8) {
    // SAFETY: the caller owns the block, which has at least one byte.
    unsafe { block.write(tag) };
    // SAFETY: `size - 1` is within the block.
    let last = unsafe { block.add(size - 1) };
    // SAFETY: the caller owns the block, and `last` is within it.
    unsafe { last.write(tag) };
}

/// Reads the first and the last byte of a block, counts the block as damaged if either is wrong,
/// and folds both into `sum`.
///
/// # Safety
///
/// [`touch`] must have written the block with this size and tag, and the caller must own the block.
#[inline(always)]
unsafe fn check(block: *mut u8, size: usize, tag: u8, sum: &mut u64) {
    // SAFETY: the block is not empty, and its first byte was written.
    let first = unsafe { block.read() };
    // SAFETY: `size - 1` is within the block.
    let last = unsafe { block.add(size - 1) };
    // SAFETY: that byte was written too.
    let last = unsafe { last.read() };
    if first != tag || last != tag {
        tally::damaged();
    }
    *sum = mix(*sum, u64::from(first) | u64::from(last) << 8 | (size as u64) << 16);
}

/// Calls [`check`] in a counted run.
///
/// # Safety
///
/// The contract of [`check`] applies.
#[inline(always)]
unsafe fn verify<R: RawAlloc>(block: *mut u8, size: usize, tag: u8, sum: &mut u64) {
    if R::CHECKED {
        // SAFETY: the caller upholds the callee's contract.
        unsafe { check(block, size, tag, sum) };
    }
}

/// A contender as the stock of a workload that is generic over stocks.
pub(super) struct BlockStock<C>(pub(super) C);

impl<C: Contender> Stock for BlockStock<C> {
    const SIZED: bool = true;
    type Item = *mut u8;

    #[inline(always)]
    unsafe fn take(&mut self, tag: u64, size: u16) -> *mut u8 {
        let size = usize::from(size);
        // SAFETY: this stock is `SIZED`, so the size is not zero.
        let block = unsafe { self.0.by_ref().alloc(layout(size, 8)) };
        // SAFETY: the block has this size and is new.
        unsafe { touch(block, size, tag as u8) };
        block
    }

    #[inline(always)]
    unsafe fn verify(&self, block: &*mut u8, tag: u64, size: u16, sum: &mut u64) {
        // SAFETY: `take` has touched the block with this tag and size.
        unsafe { verify::<C::Ref<'_>>(*block, usize::from(size), tag as u8, sum) };
    }

    #[inline(always)]
    unsafe fn free(&mut self, block: *mut u8, size: u16) {
        // SAFETY: `take` has allocated the block from this contender with this layout.
        unsafe { self.0.by_ref().dealloc(block, layout(usize::from(size), 8)) };
    }
}

/// Builds a cell of S3 with `count` slots.
pub(crate) fn slots<C: Contender>(count: u16, spread: SizeSpread, context: &Context) -> Box<dyn Cell> {
    let fill = |stock: &mut BlockStock<C>| Slots::fill(stock, context.seed, count, spread, 0);
    Box::new(Lasting::new(BlockStock(C::create()), fill))
}

/// Builds a cell of S6. One block in `one_in` is a straggler, or none if `one_in` is 0.
pub(crate) fn stragglers<C: Contender>(one_in: usize, context: &Context) -> Box<dyn Cell> {
    stragglers::cell(BlockStock(C::create()), context.seed, one_in)
}
