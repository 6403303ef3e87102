//! S1, pair: make one object, drop it. The fast path alone.

use core::marker::PhantomData;

use super::{by_words, verify};
use crate::objects::{Maker, Object, RawPool};
use crate::workloads::{Cell, Context, mix};

/// Pairs after which an arena is reset, which does not take back even its last object.
const BETWEEN_RESETS: u64 = 256;

/// Makes and drops an object, `ops` times.
#[inline(never)]
pub fn pair<T: Object, P: RawPool<T>>(pool: &P, ops: u64) -> u64 {
    let mut sum = 0;
    for i in 0..ops {
        let handle = pool.put(T::new(i));
        // SAFETY: made with this tag the line before.
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

/// Words of the objects that there are.
pub const WORDS: [usize; 5] = [1, 4, 5, 8, 32];

/// A cell for one of [`WORDS`].
///
/// # Panics
///
/// For any other.
pub fn cell<M: Maker>(words: usize, _context: &Context) -> Box<dyn Cell> {
    by_words!(words, [1, 4, 5, 8, 32], T => boxed::<M, T>())
}
