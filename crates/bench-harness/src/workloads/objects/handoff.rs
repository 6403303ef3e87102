//! S8, producer and consumer, over objects of one type.

use std::sync::Arc;

use super::verify;
use crate::objects::{Maker, Object, WordObject};
use crate::pools::RawPool;
use crate::workloads::crew::{Travelling, twice};
use crate::workloads::handoff::handing_over;
use crate::workloads::{Cell, Context, by_const};

fn hand_over<T: Object, P: RawPool<T>>(
    pool: Travelling<Arc<P>>,
    n: usize,
    in_flight: usize,
    cpu: Option<usize>,
) -> Box<dyn Cell> {
    let theirs = pool.clone();
    // SAFETY: the consumer drops the object before the pool ends.
    let produce = move |tag| unsafe { pool.0.put(T::new(tag)) };
    handing_over(produce, n, in_flight, cpu, move |handle: P::Handle, tag, sum| {
        let theirs = &theirs;
        // SAFETY: `theirs` is the producer's pool, which made the object with this tag, and the
        // object is live.
        unsafe { verify::<T, P>(&theirs.0, &handle, tag, sum) };
        // SAFETY: this pool returned the handle, and the object is live.
        *sum = sum.wrapping_add(unsafe { theirs.0.look(&handle, T::ends) }.0);
        // SAFETY: this pool returned the handle, and any thread may drop it.
        unsafe { theirs.0.take(handle) };
    })
}

/// Makes a pool for at most `most` live objects.
fn pool<T: Object, M: Maker>(most: usize) -> Travelling<Arc<impl RawPool<T>>> {
    let mut pool = M::make::<T>(most);
    pool.expect_live(most);
    Travelling(Arc::new(pool))
}

/// Builds a cell whose batches have `n` objects of `words` words, with at most `in_flight` batches
/// in the channel.
pub(crate) fn cell<M: Maker>(n: usize, words: usize, in_flight: usize, context: &Context) -> Box<dyn Cell> {
    let (most, cpu) = ((in_flight + 2) * n, context.second_cpu);
    by_const!(words, [4, 5], WORDS => {
        let pool = pool::<WordObject<WORDS>, M>(most);
        hand_over::<WordObject<WORDS>, _>(pool, n, in_flight, cpu)
    })
}

/// Builds a cell of two pairs of threads that share one pool. The producers run on one processor,
/// and the consumers on the other.
pub(crate) fn pairs<M: Maker>(n: usize, words: usize, in_flight: usize, context: &Context) -> Box<dyn Cell> {
    let (most, cpu) = (2 * (in_flight + 2) * n, context.second_cpu);
    by_const!(words, [4], WORDS => {
        let pool = pool::<WordObject<WORDS>, M>(most);
        twice(move || hand_over::<WordObject<WORDS>, _>(pool, n, in_flight, cpu))
    })
}
