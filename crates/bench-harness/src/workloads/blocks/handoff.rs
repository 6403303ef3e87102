//! S8 over blocks of 64 bytes.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

use super::layout;
use crate::blocks::{Contender, RawAlloc};
use crate::tally;
use crate::workloads::crew::{AcrossThreads, Twice};
use crate::workloads::handoff::{HandingOver, Producer};
use crate::workloads::{Cell, Context};

/// Size of a block.
const SIZE: usize = 64;

/// Fills batches with blocks. Each has its index in its first word.
struct BlockProducer<C> {
    alloc: AcrossThreads<C>,
    n: usize,
}

impl<C: Contender> Producer for BlockProducer<C> {
    type Item = *mut u8;

    #[inline(never)]
    fn fill(&mut self, batch: &mut Vec<*mut u8>) {
        let alloc = self.alloc.0.by_ref();
        for i in 0..self.n {
            // SAFETY: the size is not zero.
            let block = unsafe { alloc.alloc(layout(SIZE, 8)) };
            // SAFETY: the block is aligned to eight and has room for a word. The store is atomic,
            // since the blocks of the allocator that does nothing overlap.
            let word = unsafe { AtomicU64::from_ptr(block.cast()) };
            word.store(i as u64, Relaxed);
            batch.push(block);
        }
    }
}

/// Reads and frees all blocks of a batch.
///
/// # Safety
///
/// A [`BlockProducer`] over the same contender filled the batch. The contender frees on any thread.
#[inline(never)]
unsafe fn consume<R: RawAlloc + Copy>(alloc: R, batch: &mut Vec<*mut u8>, sum: &mut u64) {
    for (i, block) in batch.drain(..).enumerate() {
        // SAFETY: the block is aligned to eight, has room for a word, and was written.
        let word = unsafe { AtomicU64::from_ptr(block.cast()) };
        let word = word.load(Relaxed);
        if R::CHECKED && word != i as u64 {
            tally::damaged();
        }
        *sum = sum.wrapping_add(word);
        // SAFETY: the block was allocated with this layout and has left its batch.
        unsafe { alloc.dealloc(block, layout(SIZE, 8)) };
    }
}

fn hand_over<C: Contender>(n: usize, in_flight: usize, cpu: Option<usize>) -> HandingOver<BlockProducer<C>> {
    let mut alloc = C::create();
    alloc.expect_live((in_flight + 2) * n * SIZE);
    let alloc = AcrossThreads(Arc::new(alloc));
    let theirs = alloc.clone();
    HandingOver::new(BlockProducer { alloc, n }, n, in_flight, cpu, move |batch, sum| {
        let theirs = &theirs;
        // SAFETY: the producer has the same contender.
        unsafe { consume(theirs.0.by_ref(), batch, sum) };
    })
}

/// Builds a cell whose batches have `n` blocks, with at most `in_flight` batches in the channel.
pub(crate) fn cell<C: Contender>(n: usize, in_flight: usize, context: &Context) -> Box<dyn Cell> {
    Box::new(hand_over::<C>(n, in_flight, context.second_cpu))
}

/// Builds a cell of two pairs, the producers on one processor and the consumers on the other.
pub(crate) fn pairs<C: Contender>(n: usize, in_flight: usize, context: &Context) -> Box<dyn Cell> {
    let cpu = context.second_cpu;
    Box::new(Twice::new(move || hand_over::<C>(n, in_flight, cpu)))
}
