//! Tests of units that rest: how far a heap grows for them, how long they rest, and when the heap
//! frees them.
#![expect(unreachable_pub, reason = "the methods of an allocator that the macro declares are public")]

use core::mem::MaybeUninit;
use std_alloc::collections::BTreeMap;
use std_alloc::vec::Vec;

use allocator_api2::boxed::Box;
use ephemera_testkit::handover;
use ephemera_testkit::suite::take_turn;

use crate::pooled_allocator;

pooled_allocator! {
    struct RestPool;
}

/// The size of a value in bytes. Under Miri, few values fill a unit.
const SIZE: usize = if cfg!(miri) { 30_000 } else { 64 };
/// The size of a value of another class.
const OTHER: usize = if cfg!(miri) { 20_000 } else { 128 };
/// The size of a unit in bytes.
const UNIT: usize = if cfg!(miri) { 256 << 10 } else { 32 << 10 };
/// The number of units that a heap grows to, about 2 MiB, so that emptied units can rest before
/// it reuses them.
const RESTING: usize = (2 << 20) / UNIT;
/// The maximum number of units of a heap that does not grow and has at most `BATCH` live values.
const FEW: usize = if cfg!(miri) { 4 } else { 12 };
/// The number of values in one hand-over: about as many as two units hold.
const BATCH: usize = if cfg!(miri) { 14 } else { 1_000 };
/// A number of hand-overs after which the heap does not grow any more.
const MANY: usize = if cfg!(miri) { 48 } else { 1_000 };

type Bytes<const SIZE: usize, A> = Box<MaybeUninit<[u8; SIZE]>, A>;

fn value<const SIZE: usize>() -> Bytes<SIZE, RestPool> {
    Box::new_uninit_in(RestPool)
}

/// Makes values in batches with `make`. Another thread frees each batch before this thread makes
/// the next one.
fn hand_over<V: Send>(batches: usize, make: impl FnMut() -> V) {
    handover::hand_over(batches, BATCH, make);
}

/// Hands over values until the heap does not grow any more.
fn grow() {
    hand_over(MANY, value::<SIZE>);
}

fn held() -> usize {
    RestPool.stats().bytes_held
}

fn assert_grown() {
    assert!(held() > (RESTING + FEW) / 2 * UNIT, "{} bytes", held());
}

#[test]
#[cfg_attr(miri, ignore = "takes 20 s or more; the test of a limit set later runs the same code")]
fn a_heap_whose_units_another_thread_empties_grows_to_two_mebibytes() {
    take_turn();
    grow();
    grow();
    let most = (RESTING + FEW) * UNIT;
    assert!((RESTING * UNIT * 3 / 4..=most).contains(&held()), "{} bytes", held());
    RestPool.trim();
}

#[test]
#[cfg_attr(miri, ignore = "takes 20 s or more; the test of a limit set later runs the same code")]
fn a_unit_that_another_thread_emptied_rests_until_many_others_were_used() {
    take_turn();
    grow();
    let (mut fronts, mut last, mut used) = (0_usize, 0, BTreeMap::new());
    let (mut early, mut all) = (0, 0);
    hand_over(MANY / 4, || {
        let value = value::<SIZE>();
        let unit = core::ptr::from_ref(&*value).addr() & !(UNIT - 1);
        if unit != last {
            last = unit;
            fronts += 1;
            if let Some(before) = used.insert(unit, fronts) {
                all += 1;
                early += usize::from(fronts - before < RESTING / 4);
            }
        }
        value
    });
    RestPool.trim();
    assert!(used.len() >= RESTING / 2, "{} units were used", used.len());
    // A unit that was the front when another thread freed its slots may rest for a shorter time.
    assert!(early * 8 <= all, "{early} of {all} units were used again early");
}

#[test]
#[cfg_attr(miri, ignore = "takes 20 s or more; the test of a limit set later runs the same code")]
fn units_that_rested_are_freed_once_only_their_owner_frees() {
    take_turn();
    grow();
    assert_grown();
    for _ in 0..2 * MANY {
        drop((0..BATCH).map(|_| value::<SIZE>()).collect::<Vec<_>>());
    }
    assert!(held() <= FEW * UNIT, "{} bytes", held());
    RestPool.trim();
}

#[test]
#[cfg_attr(miri, ignore = "takes 20 s or more; the test of a limit set later runs the same code")]
fn a_heap_of_which_another_thread_empties_few_units_does_not_grow() {
    take_turn();
    pooled_allocator! {
        struct NewPool;
    }
    let new = || -> Bytes<SIZE, _> { Box::new_uninit_in(NewPool) };
    let mut most = 0;
    for _ in 0..5 {
        hand_over(1, new);
        // Each batch takes the slow path at least once, so 150 batches take at least two rounds.
        for _ in 0..150 {
            drop((0..BATCH).map(|_| new()).collect::<Vec<_>>());
            most = most.max(NewPool.stats().bytes_held);
        }
    }
    assert!(most <= FEW * UNIT, "{most} bytes");
}

#[test]
#[cfg_attr(miri, ignore = "takes 20 s or more; the test of a limit set later runs the same code")]
fn one_heap_of_a_thread_grows_at_a_time() {
    take_turn();
    for _ in 0..MANY / 2 {
        hand_over(1, value::<SIZE>);
        hand_over(1, value::<OTHER>);
    }
    let held = held();
    RestPool.trim();
    assert!(held > RESTING / 2 * UNIT, "no heap grew: {held} bytes");
    assert!(held <= (RESTING + 2 * FEW) * UNIT, "{held} bytes");
}

#[test]
fn a_heap_that_grew_shrinks_in_a_hand_over_under_a_limit() {
    take_turn();
    grow();
    assert_grown();
    RestPool.set_limit(1 << 30);
    hand_over(MANY, value::<SIZE>);
    let held = held();
    RestPool.set_limit(usize::MAX);
    RestPool.trim();
    assert!(held <= FEW * UNIT, "{held} bytes");
}

#[test]
#[cfg_attr(miri, ignore = "takes 20 s or more; the test of a limit set later runs the same code")]
fn a_heap_with_a_limit_does_not_grow_so_that_units_rest() {
    take_turn();
    RestPool.set_limit(1 << 30);
    grow();
    let held = held();
    RestPool.set_limit(usize::MAX);
    RestPool.trim();
    assert!(held <= FEW * UNIT, "{held} bytes");
}
