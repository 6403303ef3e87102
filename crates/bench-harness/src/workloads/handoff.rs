//! S8, producer and consumer: items allocated on one thread and freed on another, in batches over a
//! bounded channel.
//!
//! Batches are vectors that the two threads send back and forth. All batches and the channel's
//! buffer exist before the loop, so the loop itself allocates only items. Over the allocator that
//! does nothing, the loop costs as much as the channel.

use std::sync::mpsc::sync_channel;

use super::crew::{GONE, Mate, Parcel, Travelling};
use super::{Cell, StateCell, mix};

/// Returns the vector in a parcel, or panics if the parcel is not a batch of these items.
fn batch<I: 'static>(parcel: &mut Parcel) -> &mut Vec<I> {
    parcel.0.downcast_mut().expect("both threads have the same type of items")
}

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
) -> Box<dyn Cell> {
    let (full, arriving) = sync_channel::<Parcel>(in_flight);
    let (back, free) = sync_channel::<Parcel>(in_flight + 2);
    for _ in 0..in_flight + 2 {
        // The channel has room for all batches, and its other end is live, so the send succeeds.
        let _ = back.send(Travelling(Box::new(Vec::<I>::with_capacity(n))));
    }
    let mate = Mate::new(cpu, move || {
        move |units| {
            let mut sum = 0;
            for _ in 0..units {
                let Ok(mut parcel) = arriving.recv() else { break };
                empty(batch(&mut parcel), &mut |item, tag| consume(item, tag, &mut sum));
                if back.send(parcel).is_err() {
                    break;
                }
            }
            sum
        }
    });
    // These fields are dropped in order. The consumer's loop ends when `full` is dropped, so the
    // drop of `mate` can join the thread. The contender, which `produce` owns, outlives both.
    StateCell::boxed(n, (full, mate, free, produce, n), |(full, mate, free, produce, n), units| {
        mate.order(units);
        for _ in 0..units {
            let mut parcel = free.recv().expect(GONE);
            fill(batch(&mut parcel), *n, produce);
            full.send(parcel).expect(GONE);
        }
        mix(0, mate.answer())
    })
}
