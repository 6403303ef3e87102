//! S2, batch: makes `n` objects, then drops them oldest first, like the elements of a vector.

use super::verify;
use crate::objects::{Maker, Object, WordObject};
use crate::pools::RawPool;
use crate::workloads::{Cell, StateCell, by_const, each};

/// Makes objects until the empty vector `handles` is full, then drops all objects.
#[inline(never)]
pub(crate) fn batch<T: Object, P: RawPool<T>>(pool: &P, handles: &mut Vec<P::Handle>) -> u64 {
    let mut sum = 0;
    for i in 0..handles.capacity() as u64 {
        // SAFETY: the pool exists until all objects are dropped below.
        handles.push(unsafe { pool.put(T::new(i)) });
    }
    for (i, handle) in handles.drain(..).enumerate() {
        // SAFETY: this pool made the object with this tag above, and it is live.
        unsafe { verify::<T, P>(pool, &handle, i as u64, &mut sum) };
        // SAFETY: this pool returned the handle.
        unsafe { pool.take(handle) };
    }
    sum
}

/// Returns an empty vector with room for exactly `n` handles.
pub(super) fn room<H>(n: usize) -> Vec<H> {
    let mut handles = Vec::new();
    handles.reserve_exact(n);
    assert_eq!(handles.capacity(), n, "the capacity is the number of objects");
    handles
}

fn boxed<M: Maker, T: Object>(n: usize) -> Box<dyn Cell> {
    StateCell::boxed(n, (room(n), M::make::<T>(n)), |(handles, pool), units| {
        each(units, || {
            let sum = batch::<T, _>(pool, handles);
            pool.reset();
            sum
        })
    })
}

/// Builds a cell of `n` objects of `words` words.
pub(crate) fn cell<M: Maker>(n: usize, words: usize) -> Box<dyn Cell> {
    by_const!(words, [1, 4, 5], WORDS => boxed::<M, WordObject<WORDS>>(n))
}
