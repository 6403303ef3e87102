//! S8, hand-off, over buffers.
//!
//! The consumer reads only the first and the last byte in a timed run. If it read all bytes, the
//! table would compare how fast a processor fetches another processor's writes.

use std::sync::Arc;

use super::{Payload, verify};
use crate::buffers::{Demand, OrHeap, Readable, Source, give};
use crate::workloads::handoff::handing_over;
use crate::workloads::{Cell, Context};

/// Builds a cell whose batches have `n` buffers of `size` bytes, with at most `in_flight` batches
/// in the channel.
pub(crate) fn cell<S: Source>(n: usize, size: usize, in_flight: usize, context: &Context) -> Box<dyn Cell> {
    let mut source = S::create(&Demand::of((in_flight + 2) * n, size));
    let payload = Arc::new(Payload::new(context.seed, size));
    let theirs = Arc::clone(&payload);
    // SAFETY: the source was made for all batches, and the channel keeps their order.
    let produce = move |tag| unsafe { source.filled([payload.piece(tag, size)]) };
    let consume = move |buffer: OrHeap<S::Buf>, tag, sum: &mut u64| {
        verify::<S>(&buffer, theirs.piece(tag, size), sum);
        buffer.read(|bytes| {
            let ends = bytes.first().zip(bytes.last());
            let (first, last) = ends.map_or((0, 0), |(&first, &last)| (u64::from(first), u64::from(last)));
            *sum = sum.wrapping_add(first << 8 | last);
        });
        give(buffer);
    };
    handing_over(produce, n, in_flight, context.second_cpu, consume)
}
