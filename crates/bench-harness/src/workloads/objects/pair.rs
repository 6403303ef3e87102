//! S1, pair: makes one object and drops it. This measures the fast path alone.

use super::verify;
use crate::objects::{Maker, Object, WordObject};
use crate::pools::RawPool;
use crate::workloads::{Cell, StateCell, by_const, stretches};

/// The number of pairs after which the pool is reset. Without a reset, the arena of this class does
/// not even reuse the memory of its last object.
const BETWEEN_RESETS: u64 = 256;

/// Makes and drops an object, `ops` times.
#[inline(never)]
fn pair<T: Object, P: RawPool<T>>(pool: &P, ops: u64) -> u64 {
    let mut sum = 0;
    for i in 0..ops {
        // SAFETY: `take` below consumes the handle before the pool is reset or dropped.
        let handle = unsafe { pool.put(T::new(i)) };
        // SAFETY: this pool made the object with this tag above, and it is live.
        unsafe { verify::<T, P>(pool, &handle, i, &mut sum) };
        // SAFETY: this pool returned the handle.
        unsafe { pool.take(handle) };
    }
    sum
}

fn boxed<M: Maker, T: Object>() -> Box<dyn Cell> {
    StateCell::boxed(1, M::make::<T>(1), |pool, units| {
        stretches(units, BETWEEN_RESETS, |ops| {
            let sum = pair::<T, _>(pool, ops);
            pool.reset();
            sum
        })
    })
}

/// Builds a cell of objects of `words` words.
///
/// # Panics
///
/// Panics if there is no workload of objects of this size.
pub(crate) fn cell<M: Maker>(words: usize) -> Box<dyn Cell> {
    by_const!(words, [1, 4, 5, 8, 32], WORDS => boxed::<M, WordObject<WORDS>>())
}
