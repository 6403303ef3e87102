//! S2, batch: `n` objects alive, then all dropped, the oldest first, as a vector of them is.

use core::marker::PhantomData;

use super::{by_words, verify};
use crate::objects::{Maker, Object, RawPool};
use crate::workloads::{Cell, Context, mix};

/// Fills `handles` up to its capacity, then drops all.
#[inline(never)]
pub fn batch<T: Object, P: RawPool<T>>(pool: &P, handles: &mut Vec<P::Handle>) -> u64 {
    let mut sum = 0;
    for i in 0..handles.capacity() as u64 {
        handles.push(pool.put(T::new(i)));
    }
    for (i, handle) in handles.drain(..).enumerate() {
        // SAFETY: made with this tag above.
        unsafe { verify::<T, P>(pool, &handle, i as u64, &mut sum) };
        // SAFETY: the handle is this pool's.
        unsafe { pool.take(handle) };
    }
    sum
}

struct ObjectBatch<T: Object, P: RawPool<T>> {
    handles: Vec<P::Handle>,
    pool: P,
    objects: PhantomData<T>,
}

impl<T: Object, P: RawPool<T>> Cell for ObjectBatch<T, P> {
    fn run(&mut self, units: u64) -> u64 {
        let mut sum = 0;
        for _ in 0..units {
            sum = mix(sum, batch::<T, P>(&self.pool, &mut self.handles));
            self.pool.reset();
        }
        sum
    }

    fn ops_per_unit(&self) -> u64 {
        self.handles.capacity() as u64
    }
}

fn boxed<M: Maker, T: Object>(n: usize) -> Box<dyn Cell> {
    let mut handles = Vec::new();
    handles.reserve_exact(n);
    assert_eq!(handles.capacity(), n, "the capacity is the number of objects");
    Box::new(ObjectBatch { handles, pool: M::make_for::<T>(n), objects: PhantomData })
}

/// A cell of `n` objects of so many words.
pub fn cell<M: Maker>(n: usize, words: usize, _context: &Context) -> Box<dyn Cell> {
    by_words!(words, [1, 4, 5], T => boxed::<M, T>(n))
}
