//! Refusals at a limit, counted in units that the heap looks at.

use std_alloc::vec::Vec;

use crate::{TypedBox, TypedPool};

/// 63 to a unit.
type Value = [u64; 128];

const UNITS: usize = if cfg!(miri) { 3 } else { 40 };

/// A pool that its limit keeps from growing beyond `UNITS` units, and as many values as fit it.
fn full() -> TypedPool<Value> {
    let spec = TypedPool::<Value>::SPEC.expect("these values have units");
    let limit = UNITS * spec.layout(spec.slots).size();
    TypedPool::builder().chunk_len(spec.slots).limit(limit).build()
}

fn values(pool: &TypedPool<Value>) -> Vec<TypedBox<'_, Value>> {
    core::iter::from_fn(|| pool.try_alloc([7; 128]).ok()).collect()
}

#[test]
fn a_refusal_looks_at_each_full_unit_once() {
    let pool = full();
    let all = values(&pool);
    assert_eq!(all.len(), UNITS * 63);
    assert_eq!(pool.heap.scraped.get(), UNITS, "the first refusal looks at all");
    for _ in 0..20 {
        assert!(pool.try_alloc([8; 128]).is_err());
    }
    assert_eq!(pool.heap.scraped.get(), UNITS, "nothing ran full since");
}

#[test]
fn looks_are_bounded_by_fills_while_slots_come_and_go_at_the_limit() {
    let pool = full();
    let mut all = values(&pool);
    let (before, rounds) = (pool.heap.scraped.get(), if cfg!(miri) { 20 } else { 2_000 });
    for round in 0..rounds {
        let at = round * 31 % all.len();
        drop(all.swap_remove(at));
        all.push(pool.try_alloc([9; 128]).expect("the slot that was freed"));
        assert!(pool.try_alloc([9; 128]).is_err());
    }
    // Each round fills one unit: the one whose slot it freed.
    assert!(pool.heap.scraped.get() - before <= rounds, "{}", pool.heap.scraped.get());
    assert_eq!(pool.len(), all.len());
}

#[test]
fn a_full_unit_whose_slots_are_all_freed_leaves_the_list_of_full_units() {
    let pool = TypedPool::<Value>::with_chunk_len(2);
    let mut all: Vec<_> = (0..8).map(|number| pool.alloc([number; 128])).collect();
    // The middle, the first and the last of the three units on that list; the fourth is the front.
    for pair in [2, 0, 0] {
        drop(all.drain(pair..pair + 2));
    }
    assert!(pool.heap.full.get().is_null());
    assert_eq!((pool.len(), pool.stats().empty_units), (2, 3));
}

#[test]
fn a_unit_on_which_a_walker_stood_goes_back_with_the_next_one() {
    let pool = TypedPool::<Value>::with_chunk_len(1);
    let mut all: Vec<_> = (0..20).map(|number| Some(pool.alloc([number; 128]))).collect();
    let mut visits = 0;
    // The newest unit is visited first. At the fifth the walker protects that unit and the one before it.
    assert!(pool.heap.walk(|_| {
        visits += 1;
        if visits == 5 {
            all[..18].iter_mut().enumerate().filter(|(at, _)| *at != 5).for_each(|(_, value)| *value = None);
        }
    }));
    assert_eq!((pool.len(), pool.stats().empty_units), (3, 4 + 2));
    all[5] = None;
    assert_eq!((pool.len(), pool.stats().empty_units), (2, 4));
    assert!(all[18..].iter().all(Option::is_some));
}
