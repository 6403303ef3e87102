//! S8 over buffers.
//!
//! The consumer reads the first byte and the last. It could read all, as the check run does. But
//! then the table would compare the time that a processor takes to fetch another one's writes.

use std::sync::Arc;

use super::{Payload, verify};
use crate::buffers::{Demand, OrHeap, Readable, Source, give};
use crate::workloads::handoff::{HandingOver, Producer};
use crate::workloads::{Cell, Context};

/// Fills batches with buffers of `size` bytes.
struct BufferProducer<S> {
    payload: Arc<Payload>,
    n: usize,
    size: usize,
    source: S,
}

impl<S: Source> Producer for BufferProducer<S> {
    type Item = OrHeap<S::Buf>;

    #[inline(never)]
    fn fill(&mut self, batch: &mut Vec<OrHeap<S::Buf>>) {
        for tag in 0..self.n as u64 {
            // SAFETY: the source was made for all batches, and the channel keeps their order.
            batch.push(unsafe { self.source.filled([self.payload.piece(tag, self.size)]) });
        }
    }

    fn refused(&self) -> u64 {
        self.source.refused()
    }
}

/// Reads and drops all buffers of a batch.
#[inline(never)]
fn consume<S: Source>(batch: &mut Vec<OrHeap<S::Buf>>, size: usize, payload: &Payload, sum: &mut u64) {
    for (tag, buffer) in batch.drain(..).enumerate() {
        verify::<S>(&buffer, payload.piece(tag as u64, size), sum);
        buffer.read(|bytes| {
            let ends = bytes.first().zip(bytes.last());
            let (first, last) = ends.map_or((0, 0), |(&first, &last)| (u64::from(first), u64::from(last)));
            *sum = sum.wrapping_add(first << 8 | last);
        });
        give(buffer);
    }
}

/// Builds a cell whose batches have `n` buffers of `size` bytes, with at most `in_flight` batches
/// in the channel.
pub(crate) fn cell<S: Source>(n: usize, size: usize, in_flight: usize, context: &Context) -> Box<dyn Cell> {
    let source = S::create(&Demand::of((in_flight + 2) * n, size));
    let payload = Arc::new(Payload::new(context.seed, size));
    let theirs = Arc::clone(&payload);
    let producer = BufferProducer { payload, n, size, source };
    Box::new(HandingOver::new(producer, n, in_flight, context.second_cpu, move |batch, sum| {
        consume::<S>(batch, size, &theirs, sum);
    }))
}
