//! S1, pair: make one object and drop it. This is the fast path alone.

use core::marker::PhantomData;

use super::{by_words, verify};
use crate::objects::{Maker, Object, RawPool};
use crate::workloads::{Cell, Context, mix};

/// The pairs after which an arena is reset. It does not reuse even its last object.
const BETWEEN_RESETS: u64 = 256;

/// Makes and drops an object, `ops` times.
#[inline(never)]
pub fn pair<T: Object, P: RawPool<T>>(pool: &P, ops: u64) -> u64 {
    let mut sum = 0;
    for i in 0..ops {
        let handle = pool.put(T::new(i));
        // SAFETY: this pool made the object with this tag in the line before.
        unsafe { verify::<T, P>(pool, &handle, i, &mut sum) };
        // SAFETY: the handle is this pool's.
        unsafe { pool.take(handle) };
    }
    sum
}

struct ObjectPair<T, P> {
    pool: P,
    objects: PhantomData<T>,
}

impl<T: Object, P: RawPool<T>> Cell for ObjectPair<T, P> {
    fn run(&mut self, units: u64) -> u64 {
        let mut sum = 0;
        let mut left = units;
        while left > 0 {
            let ops = left.min(BETWEEN_RESETS);
            sum = mix(sum, pair::<T, P>(&self.pool, ops));
            self.pool.reset();
            left -= ops;
        }
        sum
    }
}

fn boxed<M: Maker, T: Object>() -> Box<dyn Cell> {
    Box::new(ObjectPair { pool: M::make_for::<T>(1), objects: PhantomData })
}

/// The numbers of words for which there is a workload.
pub const WORDS: [usize; 5] = [1, 4, 5, 8, 32];

/// Builds a cell for one of [`WORDS`].
///
/// # Panics
///
/// For any other.
pub fn cell<M: Maker>(words: usize, _context: &Context) -> Box<dyn Cell> {
    by_words!(words, [1, 4, 5, 8, 32], T => boxed::<M, T>())
}
