//! Workloads over pools of objects of one type.

pub mod batch;
pub mod handoff;
pub mod pair;
pub mod particles;
pub mod sharing;
pub mod slots;
pub mod straggler;
pub mod threads;

use super::mix;
use crate::objects::{Object, Pool};
use crate::tally;

/// In a check run: looks at an object's ends, reports wrong ones, folds both into `sum`.
///
/// # Safety
///
/// The handle came from `pool`, for an object made with `tag`, and was not taken.
#[inline(always)]
unsafe fn verify<T: Object, P: Pool<T>>(pool: &P, handle: &P::Handle, tag: u64, sum: &mut u64) {
    if P::CHECKED {
        // SAFETY: the caller's duty is the callee's.
        let (first, last) = unsafe { pool.look(handle, T::ends) };
        if first != tag || last != tag {
            tally::damaged();
        }
        *sum = mix(*sum, first.wrapping_mul(3).wrapping_add(last));
    }
}

/// Builds a cell for objects of `$words` words: `by_words!(words, [1, 4], Cell::<M, Words<N>>::boxed(…))`.
macro_rules! by_words {
    ($words:expr, [$($n:literal),+], $name:ident => $cell:expr) => {
        match $words {
            $($n => {
                type $name = crate::objects::Words<$n>;
                $cell
            })+
            other => panic!("no such workload of objects of {other} words; there are {:?}", [$($n),+]),
        }
    };
}
use by_words;
