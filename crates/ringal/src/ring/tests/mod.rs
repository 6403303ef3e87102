//! Tests of the chain's internals: restarts, windows that rest, remembered refusals, open regions,
//! and the positions (`head`, `low`, `frontier` and `probe`) that a merge moves or forgets.

#[cfg(all(feature = "std", not(miri)))]
mod cost;
#[cfg(all(feature = "std", not(miri)))]
mod ends;

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

/// The size in bytes of a ring that spans many intervals.
const LARGE: usize = if cfg!(miri) { 16 << 10 } else { 1 << 20 };

/// A buffer size that is a multiple of the granule, so its region is not rounded up.
const SMALL: usize = 2 * GRANULE;

fn guards_are_in_order(ring: &RingAl) {
    let chain = &ring.chain;
    let mut guards = Vec::new();
    chain.walk(|at, word, _| {
        assert!(word.len() >= GRANULE && word.len() % GRANULE == 0);
        guards.push(at);
    });
    for position in [chain.head, chain.low, chain.frontier, chain.probe] {
        assert!(
            position == chain.end || position == NOWHERE || guards.contains(&position),
            "no guard at the position {position}: {chain:?}"
        );
    }
    assert!(chain.stop <= chain.end && chain.stop <= chain.frontier);
}

#[test]
fn exact_fit_creates_and_merges_no_region() {
    let mut ring = RingAl::new(4 << 10);
    drop(fill(&mut ring, SMALL, 10));
    let regions = ring.stats().regions;
    for _ in 0..100 {
        assert!(ring.fixed(SMALL).is_some());
        guards_are_in_order(&ring);
    }
    assert!(ring.stats().regions <= regions + 4 * ring.chain.interval / region_of(SMALL) + 1);
}

#[test]
fn restarted_head_continues_at_the_frontier_after_taken_regions() {
    let mut ring = RingAl::new(LARGE);
    let unit = region_of(SMALL);
    let per_interval = ring.chain.interval.div_ceil(unit);
    let mut held = fill(&mut ring, SMALL, per_interval);
    let left_off = ring.chain.head;
    assert!(left_off >= ring.chain.stop);
    // The first region is free, and the regions after it are taken, so the first request is served
    // in the first region, and the next request at the frontier.
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
fn merge_moves_the_positions_that_it_covers() {
    let mut ring = RingAl::new(LARGE);
    let per_interval = ring.chain.interval.div_ceil(region_of(SMALL));
    let mut held = fill(&mut ring, SMALL, per_interval + 1);
    let frontier = ring.chain.head;
    drop(held.remove(0));
    while ring.chain.frontier == NOWHERE {
        held.push(ring.fixed(SMALL).unwrap());
        held.swap_remove(0);
    }
    drop(held);
    // The request needs the memory from the restarted head to far beyond the frontier.
    assert!(ring.fixed(2 * frontier).is_some());
    guards_are_in_order(&ring);
    assert!(ring.fixed(ring.capacity()).is_some());
    guards_are_in_order(&ring);
    assert_eq!(ring.chain.low, 0);
}

#[test]
#[cfg_attr(miri, ignore = "takes many intervals of a large ring")]
fn low_moves_when_its_region_stays_taken_for_long() {
    let mut ring = RingAl::new(LARGE);
    let kept = ring.fixed(SMALL).unwrap();
    let interval = ring.chain.interval;
    let laps = |intervals| intervals * interval / 4 / region_of(SMALL);
    // `low` does not move soon, although the memory after it is reused. The buffer at `low` could
    // simply be the last of several buffers to be freed.
    (0..laps(100)).for_each(|_| drop(fill(&mut ring, SMALL, 4)));
    assert_eq!(ring.chain.low, 0);
    assert!(ring.chain.high < 30 * interval, "{:?}", ring.chain);
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

/// Each batch of large buffers is freed while the next batch is allocated, sometimes early and
/// sometimes late.
#[test]
fn batches_of_large_buffers_reuse_the_same_addresses() {
    const BATCH: usize = if cfg!(miri) { 16 } else { 64 };
    const BYTES: usize = 64 << 10;
    const BATCHES: usize = if cfg!(miri) { 4 } else { 2_000 };
    let region = region_of(BYTES);
    let mut ring = RingAl::new(6 * BATCH * region);
    let mut away = VecDeque::new();
    let mut places = BTreeSet::new();
    let mut random = SplitMix::new(1);
    for batch in 0..BATCHES {
        if batch == BATCHES / 2 {
            places.clear();
        }
        let wait = random.below(BATCH * 5 / 8);
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

/// The size of a buffer in bytes in the tests of windows that rest.
const BYTES: usize = if cfg!(miri) { 32 << 10 } else { 1 << 10 };

/// Allocates `batches` batches of `bytes` bytes in a ring of 8 MiB, and frees each batch before it
/// allocates the next one. Returns the highest offset that the head reached.
fn high_after_bursts(batches: usize, bytes: usize) -> usize {
    let mut ring = RingAl::new(8 << 20);
    for _ in 0..batches {
        drop(fill(&mut ring, BYTES, bytes / BYTES));
        if cfg!(not(miri)) {
            guards_are_in_order(&ring);
        }
    }
    ring.chain.high.max(ring.chain.head)
}

#[test]
fn window_rests_after_bursts_of_frees() {
    let high = high_after_bursts(if cfg!(miri) { 20 } else { 400 }, 512 << 10);
    assert!((4 << 20..5 << 20).contains(&high), "{high}");
}

#[test]
#[cfg_attr(miri, ignore = "takes many buffers; the test of bursts runs this code under Miri")]
fn short_window_does_not_rest() {
    let high = high_after_bursts(200, 192 << 10);
    assert!(high < 512 << 10, "{high}");
}

/// Allocates `count` buffers with `make`, and frees the oldest as soon as more than `len` are live.
/// Returns the highest offset that the head reached.
fn high_after_stream(
    mut ring: RingAl,
    (count, len): (usize, usize),
    mut make: impl FnMut(&mut RingAl) -> FixedBufMut,
) -> usize {
    let mut live = VecDeque::new();
    for _ in 0..count {
        live.push_back(make(&mut ring));
        if live.len() > len {
            live.pop_front();
        }
    }
    ring.chain.high.max(ring.chain.head)
}

#[test]
#[cfg_attr(miri, ignore = "takes many buffers; the test of bursts runs this code under Miri")]
fn window_does_not_rest_if_buffers_are_freed_one_by_one() {
    let counts = ((6 << 20) / BYTES, (512 << 10) / BYTES);
    let high = high_after_stream(RingAl::new(8 << 20), counts, |ring| ring.fixed(BYTES).unwrap());
    assert!(high < 1 << 20, "{high}");
}

/// The region at the head may become the lead of an aligned buffer. That region must not become the
/// probe, because a lead stays free.
#[test]
#[cfg_attr(miri, ignore = "takes minutes; smaller tests run this code under Miri")]
fn window_of_aligned_buffers_does_not_rest_if_they_are_freed_one_by_one() {
    let ring = RingAl::new_with_align(8 << 20, 4096);
    let high = high_after_stream(ring, (20_000, 64), |ring| ring.fixed_aligned(4096, 4096).unwrap());
    assert!(high < 1 << 20, "{high}");
}

/// If a buffer does not fit between older ones, the head jumps to the frontier. A region right
/// after the jump must not become the probe, because it is about as old as the one at `low`.
#[test]
#[cfg_attr(miri, ignore = "takes many buffers; the test of bursts runs this code under Miri")]
fn window_of_mixed_sizes_does_not_rest_if_buffers_are_freed_one_by_one() {
    let mut random = SplitMix::new(3);
    let high = high_after_stream(RingAl::new(8 << 20), (50_000, 64), |ring| {
        ring.fixed(1 + random.below(4_096)).unwrap()
    });
    assert!(high < 1 << 20, "{high}");
}

/// The ring alternately places extendable buffers at the head and at the frontier.
#[test]
#[cfg_attr(miri, ignore = "takes minutes; smaller tests run this code under Miri")]
fn window_of_extendable_buffers_does_not_rest_if_they_are_freed_one_by_one() {
    let mut random = SplitMix::new(3);
    let high = high_after_stream(RingAl::new(8 << 20), (50_000, 64), |ring| {
        let mut buffer = ring.extendable(64).unwrap();
        buffer.try_extend_from_slice(&[7; 4096][..64 + random.below(4033)]).unwrap();
        buffer.finalize()
    });
    assert!(high < 1 << 20, "{high}");
}

/// The buffer at `low` lives longer than the buffers after it, like a buffer with the header of a
/// request. The region at `probe` is free long before the region at `low`, so no burst freed both.
#[test]
#[cfg_attr(miri, ignore = "takes many buffers; the test of bursts runs this code under Miri")]
fn window_does_not_rest_if_only_its_first_buffer_lives_long() {
    let mut ring = RingAl::new(8 << 20);
    for _ in 0..200 {
        let first = ring.fixed(256).unwrap();
        let mut live = VecDeque::new();
        for _ in 0..300 {
            live.push_back(ring.fixed(1_000).unwrap());
            if live.len() > 10 {
                live.pop_front();
            }
        }
        drop((live, first));
    }
    let high = ring.chain.high.max(ring.chain.head);
    assert!(high < 1 << 20, "{high}");
}

#[test]
fn merge_forgets_a_probe_that_it_covers() {
    const KIB: usize = 1 << 10;
    let mut ring = RingAl::new(640 * KIB);
    let mut held = fill(&mut ring, KIB, 275);
    let probe = ring.chain.probe;
    assert!(probe < ring.chain.head);
    // Only the first and the last region are taken now. The search for a request that no run serves
    // merges the regions between them.
    drop(held.drain(1..274));
    assert!(ring.fixed(500 * KIB).is_none());
    guards_are_in_order(&ring);
    assert_eq!(ring.chain.probe, NOWHERE);
}

#[test]
fn refusal_keeps_the_guards_that_prove_it() {
    // A request for a 27th of the ring is blocked by 32 of the 160 regions or fewer. A request that
    // is slightly longer than one region is blocked only by more than 32.
    let mut ring = RingAl::new(160 * region_of(SMALL));
    let held = fill(&mut ring, SMALL, 160);
    let part = 6 * region_of(SMALL) - OVERHEAD;
    assert!(ring.fixed(part).is_none());
    assert!(ring.chain.refusal_stands(region_of(part)) && ring.chain.refusal_stands(region_of(2 * part)));
    assert!(!ring.chain.refusal_stands(region_of(SMALL)));
    assert!(ring.fixed(SMALL + GRANULE).is_none());
    assert!(
        !ring.chain.refusal_stands(region_of(SMALL + GRANULE)),
        "eighty guards are more than a refusal keeps"
    );
    assert!(ring.fixed(part).is_none());
    drop(held);
    assert!(!ring.chain.refusal_stands(region_of(part)));
    assert!(ring.fixed(part).is_some());
}

#[test]
fn refusal_of_a_sixteenth_of_the_ring_is_always_remembered() {
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
fn refused_growth_keeps_the_written_bytes() {
    let mut ring = RingAl::new(12 * region_of(SMALL));
    let mut held = fill(&mut ring, SMALL, 12);
    drop(held.drain(2..6));
    let mut growing = ring.extendable(1).unwrap();
    growing.extend([7; SMALL]);
    assert!(growing.try_reserve(20 * SMALL).is_err());
    assert_eq!(growing.finalize(), [7; SMALL]);
    guards_are_in_order(&ring);
    assert_eq!(ring.stats().bytes_free, 4 * region_of(SMALL));
    drop(held);
    assert!(ring.fixed(ring.capacity()).is_some());
}

#[test]
fn open_region_keeps_its_bytes_when_it_moves_into_an_overlapping_run() {
    let mut ring = RingAl::new(12 * region_of(SMALL));
    let mut held = fill(&mut ring, SMALL, 12);
    // Regions 3 to 6 become free. The buffer starts in region 5, and must move to region 3 to grow.
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
    assert!(growing.as_ptr().addr() < before, "the buffer moved down");
    let moved = growing.finalize();
    assert!(moved.iter().copied().eq(0..SMALL as u8));
    guards_are_in_order(&ring);
}

#[test]
fn high_water_includes_all_that_an_extendable_buffer_wrote() {
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
    // SAFETY: the first 10 bytes were written.
    unsafe { buffer.set_len(10) };
    drop(buffer.finalize());
    assert!(shortened.chain.head < region_of(100));
    reached(&shortened, 5_000);

    // The buffer moves down into the region that was freed in front of it.
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
