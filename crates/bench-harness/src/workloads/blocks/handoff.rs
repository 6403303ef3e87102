//! S8, producer and consumer: blocks of 64 bytes allocated here, freed there, in batches over a bounded channel.
//!
//! Batches are vectors that travel back and forth, made before the loop; the channel has a fixed buffer. So the loop
//! itself allocates nothing, and what it costs over the allocator that does nothing is the channel's.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::layout;
use crate::blocks::{Contender, RawAlloc};
use crate::workloads::crew::Mate;
use crate::workloads::{Cell, Context, mix};
use crate::{os, tally};

/// Size of a block.
const SIZE: usize = 64;

/// Pointers to blocks on their way.
struct Batch(Vec<*mut u8>);

// SAFETY: the blocks are exclusive to whoever has the batch, and the contender frees on any thread.
unsafe impl Send for Batch {}

/// The contender, known to both threads.
struct Shared<C>(Arc<C>);

// SAFETY: a cell of this workload is built for contenders with `any_thread_free` alone, whose contract is that one thread
// allocates while another one frees. The value itself is dropped after the other thread was joined.
unsafe impl<C> Send for Shared<C> {}

enum Message {
    /// Free these.
    Blocks(Batch),
    /// Say what the checksum is.
    Report,
}

struct Handoff<C: Contender> {
    full: Option<SyncSender<Message>>,
    empty: Receiver<Batch>,
    report: Receiver<u64>,
    consumer: Option<JoinHandle<()>>,
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
        let (full, arriving) = sync_channel::<Message>(in_flight);
        let (give_back, empty) = sync_channel(in_flight + 2);
        let (say, report) = sync_channel(1);
        for _ in 0..in_flight + 2 {
            // The channel has room for all batches there are, and its other end is alive.
            let _ = give_back.send(Batch(Vec::with_capacity(blocks)));
        }
        let theirs = Shared(Arc::clone(&alloc.0));
        let consumer = std::thread::spawn(move || {
            if let Some(cpu) = cpu {
                os::pin(cpu);
            }
            let theirs = theirs;
            let mut sum = 0;
            while let Ok(message) = arriving.recv() {
                let sent = match message {
                    Message::Blocks(mut batch) => {
                        // SAFETY: the producer filled the batch from the same contender.
                        unsafe { consume(theirs.0.by_ref(), &mut batch.0, &mut sum) };
                        give_back.send(batch).is_ok()
                    }
                    Message::Report => say.send(core::mem::take(&mut sum)).is_ok(),
                };
                if !sent {
                    return;
                }
            }
        });
        Self { full: Some(full), empty, report, consumer: Some(consumer), alloc, blocks }
    }
}

impl<C: Contender> Cell for Handoff<C> {
    fn run(&mut self, units: u64) -> u64 {
        let gone = "the consumer ended early";
        let full = self.full.as_ref().expect(gone);
        for _ in 0..units {
            let mut batch = self.empty.recv().expect(gone);
            produce(self.alloc.0.by_ref(), &mut batch.0, self.blocks);
            full.send(Message::Blocks(batch)).expect(gone);
        }
        full.send(Message::Report).expect(gone);
        mix(0, self.report.recv().expect(gone))
    }

    fn ops_per_unit(&self) -> u64 {
        self.blocks as u64
    }
}

impl<C: Contender> Drop for Handoff<C> {
    fn drop(&mut self) {
        self.full = None;
        if let Some(consumer) = self.consumer.take() {
            // A consumer that panicked has said so already.
            let _ = consumer.join();
        }
    }
}

/// A cell whose batches have `blocks` blocks, at most `in_flight` of them on their way.
pub fn cell<C: Contender>(blocks: usize, in_flight: usize, context: &Context) -> Box<dyn Cell> {
    Box::new(Handoff::<C>::new(blocks, in_flight, context.second_cpu))
}

/// Two pairs at once, the producers on one processor and the consumers on the other: more threads than processors.
struct Pairs<C: Contender> {
    here: Handoff<C>,
    there: Mate,
}

impl<C: Contender> Cell for Pairs<C> {
    fn run(&mut self, units: u64) -> u64 {
        self.there.order(units);
        let sum = self.here.run(units);
        mix(sum, self.there.answer())
    }

    fn ops_per_unit(&self) -> u64 {
        2 * self.here.ops_per_unit()
    }
}

/// As [`cell`], twice.
pub fn pairs<C: Contender>(blocks: usize, in_flight: usize, context: &Context) -> Box<dyn Cell> {
    let cpu = context.second_cpu;
    // The other producer stays on this thread's processor.
    let there = Mate::new(None, move || {
        let mut pair = Handoff::<C>::new(blocks, in_flight, cpu);
        move |units| pair.run(units)
    });
    Box::new(Pairs::<C> { here: Handoff::new(blocks, in_flight, cpu), there })
}
