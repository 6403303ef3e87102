//! S8, producer and consumer: objects made here, dropped there, in batches over a bounded channel. Batches are vectors that
//! travel back and forth, so that the loop itself allocates nothing.

use core::marker::PhantomData;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::{by_words, verify};
use crate::objects::{Maker, Object, Pool};
use crate::workloads::crew::{Mate, Shared, Travelling, Twice};
use crate::workloads::{Cell, Context, mix};

struct Handoff<T: Object, P: Pool<T>> {
    full: Option<SyncSender<Travelling<P::Handle>>>,
    empty: Receiver<Travelling<P::Handle>>,
    mate: Option<Mate>,
    pool: Shared<P>,
    n: usize,
    objects: PhantomData<T>,
}

/// Fills an empty batch.
#[inline(never)]
pub fn produce<T: Object, P: Pool<T>>(pool: &P, batch: &mut Vec<P::Handle>, n: usize) {
    for i in 0..n as u64 {
        batch.push(pool.put(T::new(i)));
    }
}

/// Looks at and drops all objects of a batch.
///
/// # Safety
///
/// The objects came from [`produce`] over the same pool, which drops on any thread.
#[inline(never)]
pub unsafe fn consume<T: Object, P: Pool<T>>(pool: &P, batch: &mut Vec<P::Handle>, sum: &mut u64) {
    for (i, handle) in batch.drain(..).enumerate() {
        // SAFETY: made with this tag by this pool.
        unsafe { verify::<T, P>(pool, &handle, i as u64, sum) };
        // SAFETY: the object is alive.
        *sum = sum.wrapping_add(unsafe { pool.look(&handle, T::ends) }.0);
        // SAFETY: the handle is this pool's.
        unsafe { pool.take(handle) };
    }
}

impl<T: Object, P: Pool<T>> Handoff<T, P> {
    fn new(pool: Shared<P>, n: usize, in_flight: usize, cpu: Option<usize>) -> Self {
        let (full, arriving) = sync_channel::<Travelling<P::Handle>>(in_flight);
        let (give_back, empty) = sync_channel(in_flight + 2);
        for _ in 0..in_flight + 2 {
            // The channel has room for all batches there are, and its other end is alive.
            let _ = give_back.send(Travelling(Vec::with_capacity(n)));
        }
        let theirs = pool.clone();
        let mate = Mate::new(cpu, move || {
            let theirs = theirs;
            move |units| {
                let mut sum = 0;
                for mut batch in arriving.iter().take(units as usize) {
                    // SAFETY: the producer filled the batch from the same pool.
                    unsafe { consume::<T, P>(&theirs.0, &mut batch.0, &mut sum) };
                    if give_back.send(batch).is_err() {
                        break;
                    }
                }
                sum
            }
        });
        Self { full: Some(full), empty, mate: Some(mate), pool, n, objects: PhantomData }
    }
}

impl<T: Object, P: Pool<T>> Cell for Handoff<T, P> {
    fn run(&mut self, units: u64) -> u64 {
        let gone = "the consumer ended early";
        let (full, mate) = (self.full.as_ref().expect(gone), self.mate.as_ref().expect(gone));
        mate.order(units);
        for _ in 0..units {
            let mut batch = self.empty.recv().expect(gone);
            produce::<T, P>(&self.pool.0, &mut batch.0, self.n);
            full.send(batch).expect(gone);
        }
        mix(0, mate.answer())
    }

    fn ops_per_unit(&self) -> u64 {
        self.n as u64
    }
}

impl<T: Object, P: Pool<T>> Drop for Handoff<T, P> {
    fn drop(&mut self) {
        // The consumer's loop ends when its channel does; then it can be joined.
        self.full = None;
        self.mate = None;
    }
}

/// A pool for as many objects.
fn pool<T: Object, M: Maker>(most: usize) -> Shared<impl Pool<T>> {
    let mut pool = M::make_for::<T>(most);
    pool.expect_live(most);
    Shared(Arc::new(pool))
}

/// A cell whose batches have `n` objects of so many words, at most `in_flight` batches on their way.
pub fn cell<M: Maker>(n: usize, words: usize, in_flight: usize, context: &Context) -> Box<dyn Cell> {
    let (most, cpu) = ((in_flight + 2) * n, context.second_cpu);
    by_words!(words, [4, 5], T => Box::new(Handoff::<T, _>::new(pool::<T, M>(most), n, in_flight, cpu)))
}

/// Two pairs at once over one pool, the producers on one processor and the consumers on the other.
pub fn pairs<M: Maker>(n: usize, words: usize, in_flight: usize, context: &Context) -> Box<dyn Cell> {
    let (most, cpu) = (2 * (in_flight + 2) * n, context.second_cpu);
    by_words!(words, [4], T => {
        let pool = pool::<T, M>(most);
        Box::new(Twice::new(move || Handoff::<T, _>::new(pool, n, in_flight, cpu)))
    })
}
