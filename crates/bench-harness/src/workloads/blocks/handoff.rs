//! S8, hand-off, over blocks of 64 bytes.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

use super::layout;
use crate::blocks::{Contender, RawAlloc};
use crate::tally;
use crate::workloads::crew::{Travelling, twice};
use crate::workloads::handoff::handing_over;
use crate::workloads::{Cell, Context};

/// The size of a block, in bytes.
const SIZE: usize = 64;

/// Creates a cell that hands over blocks, each with its tag in the first word.
fn hand_over<C: Contender>(n: usize, in_flight: usize, cpu: Option<usize>) -> Box<dyn Cell> {
    let mut alloc = C::create();
    alloc.expect_live((in_flight + 2) * n * SIZE);
    let alloc = Travelling(Arc::new(alloc));
    let theirs = alloc.clone();
    let produce = move |tag| {
        // SAFETY: the size is not zero.
        let block = unsafe { alloc.0.by_ref().alloc(layout(SIZE, 8)) };
        // SAFETY: the block is aligned to eight and has room for a word. The store is atomic, since
        // the blocks of the allocator that does nothing overlap.
        let word = unsafe { AtomicU64::from_ptr(block.cast()) };
        word.store(tag, Relaxed);
        block
    };
    handing_over(produce, n, in_flight, cpu, move |block: *mut u8, tag, sum| {
        let theirs = &theirs;
        // SAFETY: the block is aligned to eight, has room for a word, and was written.
        let word = unsafe { AtomicU64::from_ptr(block.cast()) };
        let word = word.load(Relaxed);
        if C::Ref::<'_>::CHECKED && word != tag {
            tally::damaged();
        }
        *sum = sum.wrapping_add(word);
        // SAFETY: the producer has the same contender, which frees on any thread. The block was
        // allocated with this layout and has left its batch.
        unsafe { theirs.0.by_ref().dealloc(block, layout(SIZE, 8)) };
    })
}

/// Builds a cell whose batches have `n` blocks, with at most `in_flight` batches in the channel.
pub(crate) fn cell<C: Contender>(n: usize, in_flight: usize, context: &Context) -> Box<dyn Cell> {
    hand_over::<C>(n, in_flight, context.second_cpu)
}

/// Builds a cell of two pairs of threads, with the producers on one processor and the consumers on
/// another.
pub(crate) fn pairs<C: Contender>(n: usize, in_flight: usize, context: &Context) -> Box<dyn Cell> {
    let cpu = context.second_cpu;
    twice(move || hand_over::<C>(n, in_flight, cpu))
}
