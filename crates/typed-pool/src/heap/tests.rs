//! Tests of a heap's lists and counts: scrapes before a refusal, full units, and units that a
//! walker protected.

use std_alloc::vec::Vec;

#[cfg(all(feature = "std", target_has_atomic = "64"))]
use super::fast::give_known;
use crate::{TypedBox, TypedPool};

/// A value of a type whose units have 63 slots.
type Value = [u64; 128];

const UNITS: usize = if cfg!(miri) { 3 } else { 40 };

/// Creates a pool whose limit has room for `UNITS` units.
fn full() -> TypedPool<Value> {
    let spec = TypedPool::<Value>::SPEC.expect("these values have units");
    let limit = UNITS * spec.layout(spec.slots).size();
    TypedPool::builder().chunk_len(spec.slots).limit(limit).build()
}

fn values(pool: &TypedPool<Value>) -> Vec<TypedBox<'_, Value>> {
    core::iter::from_fn(|| pool.try_alloc([7; 128]).ok()).collect()
}

#[test]
fn a_refusal_visits_each_full_unit_once() {
    let pool = full();
    let all = values(&pool);
    assert_eq!(all.len(), UNITS * 63);
    assert_eq!(pool.heap.scraped.get(), UNITS, "the first refusal visits all full units");
    for _ in 0..20 {
        assert!(pool.try_alloc([8; 128]).is_err());
    }
    assert_eq!(pool.heap.scraped.get(), UNITS, "no unit became full since");
}

#[test]
fn scrapes_visit_at_most_one_unit_for_each_fill_at_the_limit() {
    let pool = full();
    let mut all = values(&pool);
    let (before, rounds) = (pool.heap.scraped.get(), if cfg!(miri) { 20 } else { 2_000 });
    for round in 0..rounds {
        let at = round * 31 % all.len();
        drop(all.swap_remove(at));
        all.push(pool.try_alloc([9; 128]).expect("the slot that was freed"));
        assert!(pool.try_alloc([9; 128]).is_err());
    }
    // Each round fills only the unit in which it freed a slot.
    assert!(pool.heap.scraped.get() - before <= rounds, "{}", pool.heap.scraped.get());
    assert_eq!(pool.len(), all.len());
}

#[test]
fn a_full_unit_is_reused_once_an_eighth_of_its_slots_are_free() {
    let slots = TypedPool::<Value>::SPEC.expect("these values have units").slots;
    let (eighth, pool) = (slots.div_ceil(8), TypedPool::<Value>::builder().chunk_len(slots).build());
    let mut first: Vec<_> = (0..slots).map(|_| pool.alloc([1; 128])).collect();
    let mut others: Vec<_> = (0..slots).map(|_| pool.alloc([2; 128])).collect();
    first.truncate(slots - (eighth - 1));
    others.push(pool.alloc([3; 128]));
    assert_eq!(pool.stats().units, 3, "too few slots of the first unit are free");
    drop(first.pop());
    others.extend((1..slots + eighth).map(|_| pool.alloc([4; 128])));
    assert_eq!(pool.stats().units, 3, "the first unit is the next front");
    others.push(pool.alloc([5; 128]));
    assert_eq!((pool.stats().units, pool.len()), (4, first.len() + others.len()));
}

#[test]
#[cfg_attr(miri, ignore = "a large heap has 256 units")]
fn a_large_heap_reuses_a_full_unit_after_a_few_frees() {
    // 1,019 of these values fit in a unit, so 15 frees are far fewer than an eighth of its slots.
    let (units, few) = (300, 15);
    let pool = TypedPool::<[u64; 4]>::new();
    let slots = TypedPool::<[u64; 4]>::SPEC.expect("these values have units").slots;
    let mut all: Vec<_> = (0..units * slots).map(|number| Some(pool.alloc([number as u64; 4]))).collect();
    all.extend((all.len()..pool.capacity()).map(|number| Some(pool.alloc([number as u64; 4]))));
    let held = pool.stats().bytes_held;
    // Use the last units, because the first ones became full while the heap was small.
    let late = all.len() - 20 * slots;
    for unit in all[late..].chunks_mut(slots) {
        unit.iter_mut().step_by(slots / few).take(few).for_each(|value| drop(value.take()));
    }
    let freed = all.iter().filter(|value| value.is_none()).count();
    let again: Vec<_> = (0..freed - 2 * few).map(|_| pool.alloc([0; 4])).collect();
    assert_eq!(pool.stats().bytes_held, held);
    assert_eq!(pool.len(), all.len() - freed + again.len());
}

#[test]
fn a_full_unit_whose_slots_are_all_freed_leaves_the_list_of_full_units() {
    let pool = TypedPool::<Value>::with_chunk_len(2);
    let mut all: Vec<_> = (0..8).map(|number| pool.alloc([number; 128])).collect();
    // Free the values of the middle, the first, and the last of the three full units. The fourth
    // unit is the front.
    for pair in [2, 0, 0] {
        drop(all.drain(pair..pair + 2));
    }
    assert!(pool.heap.full.get().is_null());
    assert_eq!((pool.len(), pool.stats().empty_units), (2, 3));
}

#[test]
fn a_unit_that_a_walker_protected_is_freed_with_the_next_empty_one() {
    let pool = TypedPool::<Value>::with_chunk_len(1);
    let mut all: Vec<_> = (0..20).map(|number| Some(pool.alloc([number; 128]))).collect();
    let mut visits = 0;
    // The walker visits the newest unit first. At its fifth visit, it protects the unit that it
    // visits and the unit of the fourth visit.
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

#[test]
#[cfg(all(feature = "std", target_has_atomic = "64"))]
fn the_count_of_a_front_restarts_when_it_ends() {
    let pool = TypedPool::<Value>::new();
    let free = || {
        let slot = TypedBox::into_raw(pool.alloc([7; 128])).cast::<u8>();
        let unit = pool.heap.front().expect("a front");
        // SAFETY: this thread owns the heap, and the slot is a live slot of its front with room for
        // a link.
        let is_free = unsafe { give_known(&pool.heap, unit, slot) };
        if !is_free {
            // SAFETY: the slot was not freed, so it still has its value, and only this handle uses
            // it.
            drop(unsafe { pool.from_raw(slot.cast()) });
        }
        is_free
    };
    assert!(free(), "a free to the front needs no slow path");
    pool.heap.local.until.set(1);
    assert!(!free(), "the last free of the count");
    assert!((0..100).all(|_| free()), "the count restarted");
}
