//! S8, producer and consumer: items allocated on one thread and freed on another, in batches over a
//! bounded channel.
//!
//! Batches are vectors that travel back and forth. They and the channel's buffer exist before the
//! loop, so the loop itself allocates nothing. Over the allocator that does nothing, its cost is
//! that of the channel.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::crew::{Mate, Travelling};
use super::{Cell, mix};

/// The panic message if the second thread has ended.
const GONE: &str = "the consumer ended early";

/// The producer of batches.
pub(super) trait Producer {
    /// What is handed over. The contender frees it on any thread.
    type Item: 'static;

    /// Fills an empty batch.
    fn fill(&mut self, batch: &mut Vec<Self::Item>);

    /// Returns the number of requests that the contender refused so far and the heap served.
    fn refused(&self) -> u64 {
        0
    }
}

/// A producer on this thread and a consumer on another one.
pub(super) struct HandingOver<P: Producer> {
    full: Option<SyncSender<Travelling<P::Item>>>,
    empty: Receiver<Travelling<P::Item>>,
    mate: Option<Mate>,
    producer: P,
    n: usize,
}

impl<P: Producer> HandingOver<P> {
    /// Starts the consumer on `cpu`. Batches have `n` items, and at most `in_flight` batches are in
    /// the channel. `consume` empties a batch and folds it into a checksum.
    pub(super) fn new(
        producer: P,
        n: usize,
        in_flight: usize,
        cpu: Option<usize>,
        mut consume: impl FnMut(&mut Vec<P::Item>, &mut u64) + Send + 'static,
    ) -> Self {
        let (full, arriving) = sync_channel::<Travelling<P::Item>>(in_flight);
        let (back, empty) = sync_channel(in_flight + 2);
        for _ in 0..in_flight + 2 {
            // The channel has room for all batches, and its other end is live.
            let _ = back.send(Travelling(Vec::with_capacity(n)));
        }
        let mate = Mate::new(cpu, move || {
            move |units| {
                let mut sum = 0;
                for mut batch in arriving.iter().take(units as usize) {
                    consume(&mut batch.0, &mut sum);
                    if back.send(batch).is_err() {
                        break;
                    }
                }
                sum
            }
        });
        Self { full: Some(full), empty, mate: Some(mate), producer, n }
    }
}

impl<P: Producer> Cell for HandingOver<P> {
    fn run(&mut self, units: u64) -> u64 {
        let (full, mate) = (self.full.as_ref().expect(GONE), self.mate.as_ref().expect(GONE));
        mate.order(units);
        for _ in 0..units {
            let mut batch = self.empty.recv().expect(GONE);
            self.producer.fill(&mut batch.0);
            full.send(batch).expect(GONE);
        }
        mix(0, mate.answer())
    }

    fn ops_per_unit(&self) -> u64 {
        self.n as u64
    }

    fn refused(&self) -> u64 {
        self.producer.refused()
    }
}

impl<P: Producer> Drop for HandingOver<P> {
    fn drop(&mut self) {
        // The consumer's loop ends when its channel does. Then the thread can be joined.
        self.full = None;
        self.mate = None;
    }
}
