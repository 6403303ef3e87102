//! S8, producer and consumer: items allocated on one thread and freed on another, in batches over a
//! bounded channel.
//!
//! Batches are vectors that the two threads send back and forth. All batches and the channel's
//! buffer exist before the loop, so the loop itself allocates only items. Over the allocator that
//! does nothing, the loop costs as much as the channel.

use super::crew::{GONE, Mate};
use super::travel::vec_channel;
use super::{Cell, StateCell, mix};

/// Fills an empty batch with `n` items from `produce`. The tag of an item is its index.
#[inline(never)]
fn fill<I>(batch: &mut Vec<I>, n: usize, produce: &mut impl FnMut(u64) -> I) {
    for tag in 0..n as u64 {
        batch.push(produce(tag));
    }
}

/// Empties a batch and passes each item with its tag to `consume`.
#[inline(never)]
fn empty<I>(batch: &mut Vec<I>, consume: &mut impl FnMut(I, u64)) {
    for (tag, item) in batch.drain(..).enumerate() {
        consume(item, tag as u64);
    }
}

/// Builds a cell with a producer on this thread, and starts a consumer on `cpu`. The contender must
/// let any thread free items. A batch has `n` items, and the channel holds at most `in_flight`
/// batches. `produce` makes the item for a tag. `consume` folds an item into a checksum and frees
/// it.
pub(super) fn handing_over<I: 'static>(
    produce: impl FnMut(u64) -> I + 'static,
    n: usize,
    in_flight: usize,
    cpu: Option<usize>,
    mut consume: impl FnMut(I, u64, &mut u64) + Send + 'static,
) -> impl Cell + 'static {
    let (full, arriving) = vec_channel(in_flight);
    let (back, free) = vec_channel(in_flight + 2);
    for _ in 0..in_flight + 2 {
        // The channel has room for all batches, and its other end is live, so the send succeeds.
        let _ = back.send(Vec::with_capacity(n));
    }
    let mate = Mate::new(cpu, move || {
        move |units| {
            let mut sum = 0;
            for _ in 0..units {
                let Ok(mut batch) = arriving.recv() else { break };
                empty(&mut batch, &mut |item, tag| consume(item, tag, &mut sum));
                if back.send(batch).is_err() {
                    break;
                }
            }
            sum
        }
    });
    // These fields are dropped in order. The consumer's loop ends when `full` is dropped, so the
    // drop of `mate` can join the thread. The contender, which `produce` owns, outlives both.
    StateCell::new(n, (full, mate, free, produce, n), |(full, mate, free, produce, n), units| {
        mate.order(units);
        for _ in 0..units {
            let mut batch = free.recv().expect(GONE);
            fill(&mut batch, *n, produce);
            full.send(batch).expect(GONE);
        }
        mix(0, mate.answer())
    })
}
