//! S5, grow: fills an empty vector, which grows by amortized doubling or by one element at a time.

use core::hint::black_box;

use allocator_api2::vec::Vec;

use crate::blocks::{BlockHandle, Contender, RawAlloc};
use crate::tally;
use crate::workloads::{Cell, StateCell, each, mix, stretches};

/// The approximate number of elements that are pushed between two resets of an arena.
const BETWEEN_RESETS: u64 = 4096;

/// Pushes `n` numbers onto an empty vector and drops it.
#[inline(never)]
pub(crate) fn push<R: RawAlloc + Copy>(alloc: R, n: u32) -> u64 {
    let mut vec = Vec::new_in(BlockHandle(alloc));
    for i in 0..n {
        vec.push(i);
    }
    finish::<R>(&vec)
}

/// Pushes like [`push`], but calls `reserve_exact(1)` before each element, so every element grows
/// the vector.
#[inline(never)]
pub(crate) fn reserve_exact<R: RawAlloc + Copy>(alloc: R, n: u32) -> u64 {
    let mut vec = Vec::new_in(BlockHandle(alloc));
    for i in 0..n {
        vec.reserve_exact(1);
        vec.push(i);
    }
    finish::<R>(&vec)
}

/// Hides the vector from the optimiser, and verifies it in a counted run.
#[inline(always)]
fn finish<R: RawAlloc + Copy>(vec: &Vec<u32, BlockHandle<R>>) -> u64 {
    black_box(vec.as_ptr());
    if !R::CHECKED {
        return 0;
    }
    if vec.iter().enumerate().any(|(i, &number)| i != number as usize) {
        tally::damaged();
    }
    vec.iter().fold(vec.capacity() as u64, |sum, &number| mix(sum, u64::from(number)))
}

/// Builds a cell of vectors of `n` numbers. `exact` says whether they grow by one element at a
/// time.
pub(crate) fn cell<C: Contender>(n: u32, exact: bool) -> Box<dyn Cell> {
    StateCell::boxed(1, (C::create(), n, exact), |(alloc, n, exact), units| {
        let n = black_box(*n);
        let between_resets = (BETWEEN_RESETS / u64::from(n)).max(1);
        stretches(units, between_resets, |vectors| {
            let sum = each(vectors, || {
                let alloc = alloc.by_ref();
                if *exact { reserve_exact(alloc, n) } else { push(alloc, n) }
            });
            alloc.reset();
            sum
        })
    })
}
