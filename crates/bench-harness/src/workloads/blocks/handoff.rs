//! S8, producer and consumer: blocks of 64 bytes allocated here, freed there, in batches over a bounded channel.
//!
//! Batches are vectors that travel back and forth, made before the loop; the channel has a fixed buffer. So the loop
//! itself allocates nothing, and what it costs over the allocator that does nothing is the channel's.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::layout;
use crate::blocks::{Contender, RawAlloc};
use crate::tally;
use crate::workloads::crew::{Mate, Shared, Travelling, Twice};
use crate::workloads::{Cell, Context, mix};

/// Size of a block.
const SIZE: usize = 64;

/// Blocks on their way. The contender frees them on any thread.
type Batch = Travelling<*mut u8>;

struct Handoff<C: Contender> {
    full: Option<SyncSender<Batch>>,
    empty: Receiver<Batch>,
    mate: Option<Mate>,
    alloc: Shared<C>,
    blocks: usize,
}

/// Fills an empty batch with `blocks` blocks, each touched.
#[inline(never)]
pub fn produce<R: RawAlloc + Copy>(alloc: R, batch: &mut Vec<*mut u8>, blocks: usize) {
    for i in 0..blocks {
        // SAFETY: the size is not zero.
        let block = unsafe { alloc.alloc(layout(SIZE, 8)) };
        // SAFETY: the block is aligned to eight and long enough for a word. Atomic, since the blocks of the allocator
        // that does nothing overlap.
        let word = unsafe { AtomicU64::from_ptr(block.cast()) };
        word.store(i as u64, Relaxed);
        batch.push(block);
    }
}

/// Reads and frees all blocks of a batch.
///
/// # Safety
///
/// The blocks came from [`produce`] over the same allocator, which frees on any thread.
#[inline(never)]
pub unsafe fn consume<R: RawAlloc + Copy>(alloc: R, batch: &mut Vec<*mut u8>, sum: &mut u64) {
    for (i, block) in batch.drain(..).enumerate() {
        // SAFETY: the block is aligned to eight, long enough for a word, and was written.
        let word = unsafe { AtomicU64::from_ptr(block.cast()) };
        let word = word.load(Relaxed);
        if R::CHECKED && word != i as u64 {
            tally::damaged();
        }
        *sum = sum.wrapping_add(word);
        // SAFETY: the block came with this layout and was drained from its batch.
        unsafe { alloc.dealloc(block, layout(SIZE, 8)) };
    }
}

impl<C: Contender> Handoff<C> {
    fn new(blocks: usize, in_flight: usize, cpu: Option<usize>) -> Self {
        let mut alloc = C::create();
        alloc.expect_live((in_flight + 2) * blocks * SIZE);
        let alloc = Shared(Arc::new(alloc));
        let (full, arriving) = sync_channel::<Batch>(in_flight);
        let (give_back, empty) = sync_channel(in_flight + 2);
        for _ in 0..in_flight + 2 {
            // The channel has room for all batches there are, and its other end is alive.
            let _ = give_back.send(Travelling(Vec::with_capacity(blocks)));
        }
        let theirs = Shared(Arc::clone(&alloc.0));
        let mate = Mate::new(cpu, move || {
            let theirs = theirs;
            move |units| {
                let mut sum = 0;
                for mut batch in arriving.iter().take(units as usize) {
                    // SAFETY: the producer filled the batch from the same contender.
                    unsafe { consume(theirs.0.by_ref(), &mut batch.0, &mut sum) };
                    if give_back.send(batch).is_err() {
                        break;
                    }
                }
                sum
            }
        });
        Self { full: Some(full), empty, mate: Some(mate), alloc, blocks }
    }
}

impl<C: Contender> Cell for Handoff<C> {
    fn run(&mut self, units: u64) -> u64 {
        let gone = "the consumer ended early";
        let (full, mate) = (self.full.as_ref().expect(gone), self.mate.as_ref().expect(gone));
        mate.order(units);
        for _ in 0..units {
            let mut batch = self.empty.recv().expect(gone);
            produce(self.alloc.0.by_ref(), &mut batch.0, self.blocks);
            full.send(batch).expect(gone);
        }
        mix(0, mate.answer())
    }

    fn ops_per_unit(&self) -> u64 {
        self.blocks as u64
    }
}

impl<C: Contender> Drop for Handoff<C> {
    fn drop(&mut self) {
        // The consumer's loop ends when its channel does; then it can be joined.
        self.full = None;
        self.mate = None;
    }
}

/// A cell whose batches have `blocks` blocks, at most `in_flight` of them on their way.
pub fn cell<C: Contender>(blocks: usize, in_flight: usize, context: &Context) -> Box<dyn Cell> {
    Box::new(Handoff::<C>::new(blocks, in_flight, context.second_cpu))
}

/// Two pairs at once, the producers on one processor and the consumers on the other.
pub fn pairs<C: Contender>(blocks: usize, in_flight: usize, context: &Context) -> Box<dyn Cell> {
    let cpu = context.second_cpu;
    Box::new(Twice::new(move || Handoff::<C>::new(blocks, in_flight, cpu)))
}
