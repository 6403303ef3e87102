//! Workloads over pools of objects of one type.

pub(crate) mod batch;
pub(crate) mod pair;
pub(crate) mod particles;
pub(crate) mod sharing;
pub(crate) mod threads;

use super::slots::{SizeSpread, Slots};
use super::stock::{Lasting, Stock};
use super::stragglers::{self, LONGER, WINDOW};
use super::{Cell, Context, mix};
use crate::objects::{Maker, Object, WordObject};
use crate::pools::RawPool;
use crate::tally;

/// The number of live objects in S3.
pub(crate) const SLOTS: u16 = 1024;

/// In a counted run, reads the first and the last word of an object, and folds both into `sum`.
/// Reports the object as damaged if a word differs from `tag`.
///
/// # Safety
///
/// `pool` must have returned the handle for an object made with `tag`, and the object must be live.
#[inline(always)]
pub(super) unsafe fn verify<T: Object, P: RawPool<T>>(pool: &P, handle: &P::Handle, tag: u64, sum: &mut u64) {
    if P::CHECKED {
        // SAFETY: the caller passes a handle that this pool returned, and the object is live.
        let (first, last) = unsafe { pool.look(handle, T::ends) };
        if first != tag || last != tag {
            tally::damaged();
        }
        *sum = mix(*sum, first.wrapping_mul(3).wrapping_add(last));
    }
}

/// The object of S3 and S6, which takes 64 bytes.
type StockObject = WordObject<8>;

impl<P: RawPool<StockObject>> Stock for P {
    const SIZED: bool = false;
    type Item = P::Handle;

    #[inline(always)]
    unsafe fn take(&mut self, tag: u64, _size: u16) -> P::Handle {
        // SAFETY: the workload frees its items before the stock ends.
        unsafe { self.put(StockObject::new(tag)) }
    }

    #[inline(always)]
    unsafe fn verify(&self, handle: &P::Handle, tag: u64, _size: u16, sum: &mut u64) {
        // SAFETY: this pool made the object with this tag, and it is live.
        unsafe { verify::<StockObject, P>(self, handle, tag, sum) };
    }

    #[inline(always)]
    unsafe fn free(&mut self, handle: P::Handle, _size: u16) {
        // SAFETY: this pool returned the handle.
        unsafe { RawPool::take(self, handle) };
    }
}

/// Builds a cell of S3 with 1,024 objects of 64 bytes.
pub(crate) fn slots<M: Maker>(context: &Context) -> Box<dyn Cell> {
    let fill = |stock: &mut _| Slots::fill(stock, context.seed, SLOTS, SizeSpread::Fixed(64), 0);
    Box::new(Lasting::new(M::make::<StockObject>(usize::from(SLOTS)), fill))
}

/// Builds a cell of S6 with objects of 64 bytes. One object in `one_in` is a straggler, or none if
/// `one_in` is 0.
pub(crate) fn stragglers<M: Maker>(one_in: usize, context: &Context) -> Box<dyn Cell> {
    let most = WINDOW + (WINDOW * LONGER).checked_div(one_in).unwrap_or(0);
    stragglers::cell(M::make::<StockObject>(most), context.seed, one_in)
}
