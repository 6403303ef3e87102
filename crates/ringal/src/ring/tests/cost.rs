//! Tests of the cost of an allocation in a ring where long-lived buffers leave little room. The
//! cost is the number of guards that the allocation loads.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;

use ephemera_testkit::SplitMix;

use crate::geometry::{GRANULE, OVERHEAD, region_of};
use crate::guard::LOOKS;
use crate::{FixedBufMut, RingAl};

/// A buffer size that is a multiple of the granule, so its region is not rounded up.
const SMALL: usize = 2 * GRANULE;
const UNIT: usize = region_of(SMALL);

/// The number of regions of a ring that spans many intervals.
const REGIONS: usize = 3_000;

const CALLS: usize = 1_000;

/// The maximum number of guards that one request may load in a steady state, however many guards
/// the ring has.
const MOST: usize = 40;

/// Returns a ring and its long-lived buffers. The buffers occupy all regions except the regions in
/// `window`, a range of region numbers.
fn clogged(window: Range<usize>) -> (RingAl, Vec<FixedBufMut>) {
    let mut ring = RingAl::new(REGIONS * UNIT);
    let mut held: Vec<_> = (0..REGIONS).map(|_| ring.fixed(SMALL).unwrap()).collect();
    assert!(ring.fixed(0).is_none());
    drop(held.drain(window));
    (ring, held)
}

/// Returns the number of guard words that this thread loads while `during` runs.
fn looks(during: impl FnOnce()) -> usize {
    let before = LOOKS.get();
    during();
    LOOKS.get() - before
}

/// Runs [`CALLS`] requests in a steady state, after other requests that do not count. Returns the
/// maximum number of guards that one counted request loads, and the total.
fn steady(mut request: impl FnMut() -> usize) -> (usize, usize) {
    for _ in 0..CALLS / 4 {
        request();
    }
    (0..CALLS).fold((0, 0), |(most, all), _| {
        let looks = request();
        (most.max(looks), all + looks)
    })
}

/// Returns a function that allocates a buffer of `size()` bytes and frees the oldest buffer if more
/// than `kept` buffers are live. That function returns how many guards the allocation loads.
fn first_in_first_out(
    ring: &mut RingAl,
    kept: usize,
    mut size: impl FnMut() -> usize,
) -> impl FnMut() -> usize {
    let mut live = VecDeque::new();
    move || {
        let (size, mut buffer) = (size(), None);
        let looks = looks(|| buffer = ring.fixed(size));
        live.push_back(buffer.unwrap_or_else(|| panic!("{size} bytes: {:?}", ring.stats())));
        if live.len() > kept {
            live.pop_front();
        }
        looks
    }
}

/// A request loads at most [`MOST`] guards, at every tested position and size of the window.
/// Between requests, `kept` buffers are live, at most one less than the window can hold.
#[test]
fn small_window_is_found_again_without_a_full_round() {
    for start in [0, 1, 7, 50, 100, REGIONS / 2, REGIONS - 30, REGIONS - 20] {
        for (len, kept) in [(1, 0), (2, 0), (2, 1), (7, 3), (20, 0), (20, 1), (20, 10), (20, 19)] {
            let (mut ring, _long_lived) = clogged(start..start + len);
            let (most, all) = steady(first_in_first_out(&mut ring, kept, || SMALL));
            assert!(
                most <= MOST,
                "{most} guards for a request, with {kept} kept buffers in a window of {len} at {start}"
            );
            assert!(
                all <= 6 * CALLS,
                "{all} guards for {CALLS} requests, with {kept} kept buffers in a window of {len} at {start}"
            );
        }
    }
}

#[test]
fn buffers_of_mixed_sizes_reuse_a_small_window() {
    for start in [3, 50, REGIONS - 40] {
        for kept in [0, 1, 4] {
            let (mut ring, _long_lived) = clogged(start..start + 40);
            let mut rng = SplitMix::new(1);
            let (most, all) = steady(first_in_first_out(&mut ring, kept, || rng.below(4 * UNIT)));
            assert!(most <= MOST && all <= 6 * CALLS, "at most {most} guards, {all} for {CALLS} buffers");
        }
    }
}

/// The free memory at the end of a ring of long-lived buffers serves bursts. A window that rests
/// there must not cost a full round for each pass.
#[test]
fn bursts_at_the_end_of_the_store_amortize_the_cost_of_full_rounds() {
    const BYTES: usize = 1_000;
    const BATCH: usize = 512;
    let room = 3 * BATCH * region_of(BYTES);
    let mut ring = RingAl::new(REGIONS * UNIT + room);
    let _long_lived: Vec<_> = (0..REGIONS).map(|_| ring.fixed(SMALL).unwrap()).collect();
    let all = looks(|| {
        for _ in 0..50 {
            drop((0..BATCH).map(|_| ring.fixed(BYTES).unwrap()).collect::<Vec<_>>());
        }
    });
    assert!(all <= 50 * BATCH * 3 / 2 + 3 * REGIONS, "{all} guards for {} buffers", 50 * BATCH);
}

/// If almost no region is free, a request sometimes needs a full round. The average cost of a
/// request stays low.
#[test]
fn frees_in_random_order_amortize_the_cost_of_full_rounds() {
    for start in [3, 50, REGIONS - 40] {
        for kept in [1, 20, 36] {
            let (mut ring, _long_lived) = clogged(start..start + 40);
            let mut rng = SplitMix::new(1);
            let mut live: Vec<_> = (0..kept).map(|_| ring.fixed(SMALL).unwrap()).collect();
            let (_, all) = steady(|| {
                drop(live.swap_remove(rng.below(kept)));
                looks(|| live.extend(ring.fixed(SMALL)))
            });
            assert_eq!(live.len(), kept);
            assert!(all <= REGIONS / 100 * CALLS, "{all} guards for {CALLS} buffers");
        }
    }
}

/// A refused request loads all guards, but the next request does not.
#[test]
fn refusal_does_not_slow_down_the_next_request() {
    for start in [3, 50, REGIONS / 2] {
        let (mut ring, _long_lived) = clogged(start..start + 5);
        let (most, _) = steady(|| {
            assert!(ring.fixed(6 * UNIT).is_none());
            looks(|| assert!(ring.fixed(SMALL).is_some()))
        });
        assert!(most <= MOST, "{most} guards");
    }
}

#[test]
fn growing_buffer_moves_within_a_small_window() {
    for start in [3, 50, REGIONS / 2, REGIONS - 20] {
        let (mut ring, _long_lived) = clogged(start..start + 20);
        let (most, _) = steady(|| {
            looks(|| {
                let mut growing = ring.extendable(0).unwrap();
                growing.extend([1; 3 * UNIT]);
                drop(growing.finalize());
            })
        });
        assert!(most <= MOST, "{most} guards");
    }
}

/// The ring remembers the refusal of an extendable buffer that cannot grow, like the refusals of
/// other requests.
#[test]
fn growth_refused_again_loads_a_few_guards() {
    const WINDOW: usize = REGIONS / 12;
    for start in [3, REGIONS / 2, REGIONS - WINDOW] {
        let (mut ring, mut held) = clogged(start..start + WINDOW);
        let mut growing = ring.extendable(0).unwrap();
        growing.try_extend_from_slice(&[1; WINDOW * UNIT - OVERHEAD]).unwrap();
        assert!(looks(|| assert!(growing.try_reserve(1).is_err())) >= REGIONS - WINDOW);
        for more in [1, 2, UNIT, REGIONS * UNIT, usize::MAX] {
            let looks = looks(|| assert!(growing.try_reserve(more).is_err()));
            assert!(looks <= MOST, "{looks} guards for {more} bytes more");
        }
        // After a neighbour of the window is released, the ring searches again.
        drop(held.remove(start - 1));
        growing.try_reserve(1).unwrap();
        let len = WINDOW * UNIT - OVERHEAD;
        assert!(growing.len() == len && growing.iter().all(|&byte| byte == 1));
    }
}
