//! S8, producer and consumer: buffers filled here, looked at and dropped there, in batches over a bounded channel. Batches
//! are vectors that travel back and forth, so that the loop itself allocates nothing.
//!
//! The consumer reads the first bytes and the last. It could read all, as the check run does; but then the table would
//! compare how long a processor takes to fetch what another one wrote.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::{Payload, verify};
use crate::buffers::{Demand, OrHeap, Readable, Source, give};
use crate::workloads::crew::{Mate, Travelling};
use crate::workloads::{Cell, Context, mix};

/// Buffers on their way.
type Batch<S> = Travelling<OrHeap<<S as Source>::Buf>>;

struct Handoff<S: Source> {
    full: Option<SyncSender<Batch<S>>>,
    empty: Receiver<Batch<S>>,
    mate: Option<Mate>,
    payload: Arc<Payload>,
    n: usize,
    size: usize,
    source: S,
}

/// Fills an empty batch with `n` buffers of `size` bytes.
///
/// # Safety
///
/// No more batches are alive than the source was told, and they end in the order in which they were filled.
#[inline(never)]
pub unsafe fn produce<S: Source>(
    source: &mut S,
    batch: &mut Vec<OrHeap<S::Buf>>,
    (n, size): (usize, usize),
    payload: &Payload,
) {
    for tag in 0..n as u64 {
        // SAFETY: the caller's duty is the callee's.
        batch.push(unsafe { source.filled([payload.piece(tag, size)]) });
    }
}

/// Looks at and drops all buffers of a batch.
#[inline(never)]
pub fn consume<S: Source>(batch: &mut Vec<OrHeap<S::Buf>>, size: usize, payload: &Payload, sum: &mut u64) {
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

impl<S: Source> Handoff<S> {
    fn new(n: usize, size: usize, in_flight: usize, context: &Context) -> Self {
        let source = S::create(&Demand::of((in_flight + 2) * n, size));
        let payload = Arc::new(Payload::new(context.seed, size));
        let (full, arriving) = sync_channel::<Batch<S>>(in_flight);
        let (give_back, empty) = sync_channel(in_flight + 2);
        for _ in 0..in_flight + 2 {
            // The channel has room for all batches there are, and its other end is alive.
            let _ = give_back.send(Travelling(Vec::with_capacity(n)));
        }
        let theirs = Arc::clone(&payload);
        let mate = Mate::new(context.second_cpu, move || {
            move |units| {
                let mut sum = 0;
                for mut batch in arriving.iter().take(units as usize) {
                    consume::<S>(&mut batch.0, size, &theirs, &mut sum);
                    if give_back.send(batch).is_err() {
                        break;
                    }
                }
                sum
            }
        });
        Self { full: Some(full), empty, mate: Some(mate), payload, n, size, source }
    }
}

impl<S: Source> Cell for Handoff<S> {
    fn run(&mut self, units: u64) -> u64 {
        let gone = "the consumer ended early";
        let (full, mate) = (self.full.as_ref().expect(gone), self.mate.as_ref().expect(gone));
        mate.order(units);
        for _ in 0..units {
            let mut batch = self.empty.recv().expect(gone);
            // SAFETY: the source was told of all batches there are, and the channel keeps their order.
            unsafe { produce(&mut self.source, &mut batch.0, (self.n, self.size), &self.payload) };
            full.send(batch).expect(gone);
        }
        mix(0, mate.answer())
    }

    fn ops_per_unit(&self) -> u64 {
        self.n as u64
    }

    fn refused(&self) -> u64 {
        self.source.refused()
    }
}

impl<S: Source> Drop for Handoff<S> {
    fn drop(&mut self) {
        // The consumer's loop ends when its channel does; then it can be joined.
        self.full = None;
        self.mate = None;
    }
}

/// A cell whose batches have `n` buffers of `size` bytes, at most `in_flight` batches on their way.
pub fn cell<S: Source>(n: usize, size: usize, in_flight: usize, context: &Context) -> Box<dyn Cell> {
    Box::new(Handoff::<S>::new(n, size, in_flight, context))
}
