//! The chain from inside: where it restarts, what it remembers, how its marks survive merges.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use ephemera_testkit::SplitMix;

use super::RingAl;
use super::chain::NOWHERE;
use crate::FixedBufMut;
use crate::geometry::{GRANULE, OVERHEAD, region_of};

fn fill(ring: &mut RingAl, bytes: usize, count: usize) -> Vec<FixedBufMut> {
    (0..count).map(|_| ring.fixed(bytes).unwrap()).collect()
}

/// A ring of many strides.
const LARGE: usize = if cfg!(miri) { 16 << 10 } else { 1 << 20 };

/// Bytes such that a region has a round number of granules.
const SMALL: usize = 2 * GRANULE;

fn guards_are_in_order(ring: &RingAl) {
    let chain = &ring.chain;
    let mut guards = Vec::new();
    chain.walk(|at, word| {
        assert!(word.len() >= GRANULE && word.len() % GRANULE == 0);
        guards.push(at);
    });
    for mark in [chain.head, chain.low, chain.frontier] {
        assert!(
            mark == chain.end || mark == NOWHERE || guards.contains(&mark),
            "a mark at {mark}: {chain:?}"
        );
    }
    assert!(chain.stop <= chain.end && chain.stop <= chain.frontier);
}

#[test]
fn exact_fits_change_no_guard() {
    let mut ring = RingAl::new(4 << 10);
    drop(fill(&mut ring, SMALL, 10));
    let regions = ring.stats().regions;
    for _ in 0..100 {
        assert!(ring.fixed(SMALL).is_some());
        guards_are_in_order(&ring);
    }
    assert!(ring.stats().regions <= regions + 4 * ring.chain.stride / region_of(SMALL) + 1);
}

#[test]
fn a_restart_goes_on_from_the_frontier_behind_what_is_held() {
    let mut ring = RingAl::new(LARGE);
    let unit = region_of(SMALL);
    let per_stride = ring.chain.stride.div_ceil(unit);
    let mut held = fill(&mut ring, SMALL, per_stride);
    let left_off = ring.chain.head;
    assert!(left_off >= ring.chain.stop);
    // The first is free, the next nine are not: one request there, the next at the frontier.
    drop(held.remove(0));
    let first = ring.fixed(SMALL).unwrap();
    assert_eq!((ring.chain.head, ring.chain.frontier), (unit, left_off));
    guards_are_in_order(&ring);
    let second = ring.fixed(SMALL).unwrap();
    assert_eq!((ring.chain.head, ring.chain.frontier), (left_off + unit, NOWHERE));
    guards_are_in_order(&ring);
    drop((first, second, held));
    assert!(ring.fixed(ring.capacity()).is_some());
}

#[test]
fn a_merge_over_the_marks_moves_them() {
    let mut ring = RingAl::new(LARGE);
    let per_stride = ring.chain.stride.div_ceil(region_of(SMALL));
    let mut held = fill(&mut ring, SMALL, per_stride + 1);
    let frontier = ring.chain.head;
    drop(held.remove(0));
    while ring.chain.frontier == NOWHERE {
        held.push(ring.fixed(SMALL).unwrap());
        held.swap_remove(0);
    }
    drop(held);
    // From the restarted head over the frontier and far beyond.
    assert!(ring.fixed(2 * frontier).is_some());
    guards_are_in_order(&ring);
    assert!(ring.fixed(ring.capacity()).is_some());
    guards_are_in_order(&ring);
    assert_eq!(ring.chain.low, 0);
}

#[test]
#[cfg_attr(miri, ignore = "takes many strides of a large ring")]
fn a_place_that_stays_taken_is_given_up() {
    let mut ring = RingAl::new(LARGE);
    let kept = ring.fixed(SMALL).unwrap();
    let stride = ring.chain.stride;
    let laps = |strides| strides * stride / 4 / region_of(SMALL);
    // Not soon, though the place behind it is used before: the one who holds it may be the slow one
    // of several.
    (0..laps(100)).for_each(|_| drop(fill(&mut ring, SMALL, 4)));
    assert_eq!(ring.chain.low, 0);
    assert!(ring.chain.high < 30 * stride, "{:?}", ring.chain);
    for _ in 0..laps(400) {
        if ring.chain.low != 0 {
            break;
        }
        drop(fill(&mut ring, SMALL, 4));
    }
    assert_ne!(ring.chain.low, 0, "{:?}", ring.chain);
    assert!(ring.chain.high < ring.chain.end);
    drop(kept);
    assert!(ring.fixed(ring.capacity()).is_some());
}

/// Batches of large buffers go to a thread that frees each while the next is filled, now earlier
/// and now later.
#[test]
fn large_buffers_in_batches_stay_where_they_were() {
    const BATCH: usize = 64;
    const BYTES: usize = 64 << 10;
    const BATCHES: usize = if cfg!(miri) { 4 } else { 2_000 };
    let region = region_of(BYTES);
    let mut ring = RingAl::new(6 * BATCH * region);
    let mut away = VecDeque::new();
    let mut places = BTreeSet::new();
    let mut seed = 1_u64;
    for batch in 0..BATCHES {
        if batch == BATCHES / 2 {
            places.clear();
        }
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let wait = (seed >> 33) as usize % 40;
        let mut here = Vec::with_capacity(BATCH);
        for taken in 0..BATCH {
            let buffer = ring.fixed(BYTES).unwrap();
            places.insert(buffer.as_ptr().addr());
            here.push(buffer);
            if taken >= wait {
                drop((away.pop_front(), away.pop_front(), away.pop_front()));
            }
        }
        away.extend(here);
    }
    assert!(places.len() <= 2 * BATCH, "{} places of {}", places.len(), 6 * BATCH);
}

#[test]
fn refusals_keep_as_many_guards_as_it_takes() {
    // Of 160 regions, requests of a 27th are blocked by 32 of them or fewer; requests of two
    // regions are not.
    let mut ring = RingAl::new(160 * region_of(SMALL));
    let held = fill(&mut ring, SMALL, 160);
    let part = 6 * region_of(SMALL) - OVERHEAD;
    assert!(ring.fixed(part).is_none());
    assert!(ring.chain.refusal_stands(region_of(part)) && ring.chain.refusal_stands(region_of(2 * part)));
    assert!(!ring.chain.refusal_stands(region_of(SMALL)));
    assert!(ring.fixed(SMALL + GRANULE).is_none());
    assert!(!ring.chain.refusal_stands(region_of(SMALL + GRANULE)), "eighty guards are too many to keep");
    assert!(ring.fixed(part).is_none());
    drop(held);
    assert!(!ring.chain.refusal_stands(region_of(part)));
    assert!(ring.fixed(part).is_some());
}

#[test]
fn refusals_of_a_sixteenth_are_kept_whatever_the_regions() {
    for seed in 0..if cfg!(miri) { 1 } else { 200 } {
        let mut rng = SplitMix::new(seed);
        let mut ring = RingAl::new(LARGE);
        let most = 1 + rng.below(LARGE / 10);
        let mut held = Vec::new();
        while let Some(buffer) = ring.fixed(rng.below(most)) {
            held.push(buffer);
        }
        let part = LARGE / 16;
        while ring.fixed(part).is_none() {
            assert!(ring.chain.refusal_stands(region_of(part)), "seed {seed}, {} buffers", held.len());
            assert!(!held.is_empty());
            drop(held.swap_remove(rng.below(held.len())));
        }
    }
}

#[test]
fn growth_that_is_refused_loses_nothing() {
    let mut ring = RingAl::new(12 * region_of(SMALL));
    let mut held = fill(&mut ring, SMALL, 12);
    drop(held.drain(2..6));
    let mut growing = ring.extendable(1).unwrap();
    growing.extend([7; SMALL]);
    assert!(growing.try_reserve(20 * SMALL).is_err());
    assert_eq!(growing.finalize(), [7; SMALL]);
    guards_are_in_order(&ring);
    assert_eq!(ring.stats().free_bytes, 4 * region_of(SMALL));
    drop(held);
    assert!(ring.fixed(ring.capacity()).is_some());
}

#[test]
fn a_move_into_a_run_around_the_open_region_keeps_the_bytes() {
    let mut ring = RingAl::new(12 * region_of(SMALL));
    let mut held = fill(&mut ring, SMALL, 12);
    // Free: 3, 4, 5 and 6. The buffer opens at 5 and can only grow downwards.
    drop(held.drain(5..7));
    let mut at = ring.extendable(SMALL).unwrap();
    at.extend(0..SMALL as u8);
    let before = at.as_ptr().addr();
    drop(at.finalize());
    drop(held.drain(3..5));
    ring.chain.head = 5 * region_of(SMALL);
    ring.chain.stop = ring.chain.end;
    let mut growing = ring.extendable(SMALL).unwrap();
    assert_eq!(growing.as_ptr().addr(), before);
    growing.extend(0..SMALL as u8);
    growing.try_reserve(2 * region_of(SMALL)).unwrap();
    assert!(growing.as_ptr().addr() < before, "it moved down");
    let moved = growing.finalize();
    assert!(moved.iter().copied().eq(0..SMALL as u8));
    guards_are_in_order(&ring);
}

#[test]
fn an_extendable_buffer_counts_as_far_as_it_was_written() {
    let ring = || RingAl::new(16 << 10);
    let reached = |ring: &RingAl, bytes| assert_eq!(ring.stats().high_water, region_of(bytes));

    let mut dropped = ring();
    drop(dropped.extendable(3_000).unwrap());
    reached(&dropped, 3_000);
    dropped.extendable(16).unwrap().try_extend_from_slice(&[1; 5_000]).unwrap();
    reached(&dropped, 5_000);

    let mut shortened = ring();
    let mut buffer = shortened.extendable(16).unwrap();
    buffer.try_extend_from_slice(&[1; 5_000]).unwrap();
    buffer.truncate(2_000);
    // SAFETY: less than was written.
    unsafe { buffer.set_len(10) };
    drop(buffer.finalize());
    assert!(shortened.chain.head < region_of(100));
    reached(&shortened, 5_000);

    // It moves down, over what came home in front of it.
    let mut moved = ring();
    let before = moved.fixed(10_000).unwrap();
    let mut buffer = moved.extendable(16).unwrap();
    buffer.try_extend_from_slice(&[1; 4_000]).unwrap();
    drop(before);
    buffer.try_extend_from_slice(&[2; 4_000]).unwrap();
    drop(buffer.finalize());
    assert_eq!(moved.chain.head, region_of(8_000));
    assert_eq!(moved.stats().high_water, region_of(10_000) + region_of(4_000));
}
