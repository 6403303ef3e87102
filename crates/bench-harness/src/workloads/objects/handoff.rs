//! S8 over objects of one type.

use core::marker::PhantomData;
use std::sync::Arc;

use super::{by_words, verify};
use crate::objects::{Maker, Object, RawPool};
use crate::workloads::crew::{AcrossThreads, Twice};
use crate::workloads::handoff::{HandingOver, Producer};
use crate::workloads::{Cell, Context};

/// Fills batches with objects.
struct ObjectProducer<T, P> {
    pool: AcrossThreads<P>,
    n: usize,
    objects: PhantomData<T>,
}

impl<T: Object, P: RawPool<T>> Producer for ObjectProducer<T, P> {
    type Item = P::Handle;

    #[inline(never)]
    fn fill(&mut self, batch: &mut Vec<P::Handle>) {
        for i in 0..self.n as u64 {
            // SAFETY: the consumer drops the object before the pool ends.
            batch.push(unsafe { self.pool.0.put(T::new(i)) });
        }
    }
}

/// Reads and drops all objects of a batch.
///
/// # Safety
///
/// An [`ObjectProducer`] over the same pool filled the batch. The pool drops on any thread.
#[inline(never)]
unsafe fn consume<T: Object, P: RawPool<T>>(pool: &P, batch: &mut Vec<P::Handle>, sum: &mut u64) {
    for (i, handle) in batch.drain(..).enumerate() {
        // SAFETY: this pool made the object with this tag.
        unsafe { verify::<T, P>(pool, &handle, i as u64, sum) };
        // SAFETY: the object is live.
        *sum = sum.wrapping_add(unsafe { pool.look(&handle, T::ends) }.0);
        // SAFETY: the handle is this pool's.
        unsafe { pool.take(handle) };
    }
}

fn hand_over<T: Object, P: RawPool<T>>(
    pool: AcrossThreads<P>,
    n: usize,
    in_flight: usize,
    cpu: Option<usize>,
) -> HandingOver<ObjectProducer<T, P>> {
    let theirs = pool.clone();
    let producer = ObjectProducer { pool, n, objects: PhantomData };
    HandingOver::new(producer, n, in_flight, cpu, move |batch, sum| {
        let theirs = &theirs;
        // SAFETY: the producer has the same pool.
        unsafe { consume::<T, P>(&theirs.0, batch, sum) };
    })
}

/// Makes a pool for at most `most` objects.
fn pool<T: Object, M: Maker>(most: usize) -> AcrossThreads<impl RawPool<T>> {
    let mut pool = M::make_for::<T>(most);
    pool.expect_live(most);
    AcrossThreads(Arc::new(pool))
}

/// Builds a cell whose batches have `n` objects of `words` words, with at most `in_flight` batches
/// in the channel.
pub(crate) fn cell<M: Maker>(n: usize, words: usize, in_flight: usize, context: &Context) -> Box<dyn Cell> {
    let (most, cpu) = ((in_flight + 2) * n, context.second_cpu);
    by_words!(words, [4, 5], T => Box::new(hand_over::<T, _>(pool::<T, M>(most), n, in_flight, cpu)))
}

/// Builds a cell of two pairs over one pool, the producers on one processor and the consumers on
/// the other.
pub(crate) fn pairs<M: Maker>(n: usize, words: usize, in_flight: usize, context: &Context) -> Box<dyn Cell> {
    let (most, cpu) = (2 * (in_flight + 2) * n, context.second_cpu);
    by_words!(words, [4], T => {
        let pool = pool::<T, M>(most);
        Box::new(Twice::new(move || hand_over::<T, _>(pool, n, in_flight, cpu)))
    })
}
