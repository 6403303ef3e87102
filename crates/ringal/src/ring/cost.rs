//! What an allocation costs, counted in guards that it looks at, where long-lived buffers leave
//! little room.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;

use ephemera_testkit::SplitMix;

use super::RingAl;
use crate::FixedBufMut;
use crate::geometry::{GRANULE, OVERHEAD, region_of};
use crate::guard::LOOKS;

/// Bytes such that a region has a round number of granules.
const SMALL: usize = 2 * GRANULE;
const UNIT: usize = region_of(SMALL);

/// Regions of a ring that is many times as long as the ring goes between two looks back.
const REGIONS: usize = 3_000;

const CALLS: usize = 1_000;

/// The most guards that one request may look at in a steady state, however many there are.
const MOST: usize = 40;

/// A ring full of buffers that stay but for a window, which is free.
fn clogged(window: Range<usize>) -> (RingAl, Vec<FixedBufMut>) {
    let mut ring = RingAl::new(REGIONS * UNIT);
    let mut held: Vec<_> = (0..REGIONS).map(|_| ring.fixed(SMALL).unwrap()).collect();
    assert!(ring.fixed(0).is_none());
    drop(held.drain(window));
    (ring, held)
}

/// Guards that are looked at.
fn looks(during: impl FnOnce()) -> usize {
    let before = LOOKS.get();
    during();
    LOOKS.get() - before
}

/// Guards that each of [`CALLS`] requests looks at: the most of one, and of all. The ring may go
/// through its window a few times before they count.
fn steady(mut request: impl FnMut() -> usize) -> (usize, usize) {
    for _ in 0..CALLS / 4 {
        request();
    }
    (0..CALLS).fold((0, 0), |(most, all), _| {
        let looks = request();
        (most.max(looks), all + looks)
    })
}

/// Requests of `size()` bytes, of which the last `alive` and the one just made are held.
fn first_in_first_out(
    ring: &mut RingAl,
    alive: usize,
    mut size: impl FnMut() -> usize,
) -> impl FnMut() -> usize {
    let mut live = VecDeque::new();
    move || {
        let (size, mut buffer) = (size(), None);
        let looks = looks(|| buffer = ring.fixed(size));
        live.push_back(buffer.unwrap_or_else(|| panic!("{size} bytes: {:?}", ring.stats())));
        if live.len() > alive {
            live.pop_front();
        }
        looks
    }
}

/// Wherever the window lies and however small it is, with as many buffers alive in it as it has
/// room for but one.
#[test]
fn a_small_window_is_found_again_without_a_lap() {
    for start in [0, 1, 7, 50, 100, REGIONS / 2, REGIONS - 30, REGIONS - 20] {
        for (len, alive) in [(1, 0), (2, 0), (2, 1), (7, 3), (20, 0), (20, 1), (20, 10), (20, 19)] {
            let (mut ring, _kept) = clogged(start..start + len);
            let (most, all) = steady(first_in_first_out(&mut ring, alive, || SMALL));
            assert!(most <= MOST, "{most} guards for one of {alive} + 1 in a window of {len} at {start}");
            assert!(
                all <= 6 * CALLS,
                "{all} guards for {CALLS} of {alive} + 1 in a window of {len} at {start}"
            );
        }
    }
}

#[test]
fn buffers_of_all_sizes_share_a_small_window() {
    for start in [3, 50, REGIONS - 40] {
        for alive in [0, 1, 4] {
            let (mut ring, _kept) = clogged(start..start + 40);
            let mut rng = SplitMix::new(1);
            let (most, all) = steady(first_in_first_out(&mut ring, alive, || rng.below(4 * UNIT)));
            assert!(most <= MOST && all <= 6 * CALLS, "at most {most} guards, {all} for {CALLS} buffers");
        }
    }
}

/// Where next to nothing is free a lap may have to be made now and then: of each buffer it costs
/// little.
#[test]
fn buffers_that_come_home_in_any_order_share_the_cost_of_a_lap() {
    for start in [3, 50, REGIONS - 40] {
        for alive in [1, 20, 36] {
            let (mut ring, _kept) = clogged(start..start + 40);
            let mut rng = SplitMix::new(1);
            let mut live: Vec<_> = (0..alive).map(|_| ring.fixed(SMALL).unwrap()).collect();
            let (_, all) = steady(|| {
                drop(live.swap_remove(rng.below(alive)));
                looks(|| live.extend(ring.fixed(SMALL)))
            });
            assert_eq!(live.len(), alive);
            assert!(all <= REGIONS / 100 * CALLS, "{all} guards for {CALLS} buffers");
        }
    }
}

/// A refusal looks at all; what is served behind it does not.
#[test]
fn a_refusal_loses_no_place() {
    for start in [3, 50, REGIONS / 2] {
        let (mut ring, _kept) = clogged(start..start + 5);
        let (most, _) = steady(|| {
            assert!(ring.fixed(6 * UNIT).is_none());
            looks(|| assert!(ring.fixed(SMALL).is_some()))
        });
        assert!(most <= MOST, "{most} guards");
    }
}

#[test]
fn a_buffer_that_grows_moves_within_a_small_window() {
    for start in [3, 50, REGIONS / 2, REGIONS - 20] {
        let (mut ring, _kept) = clogged(start..start + 20);
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

/// A buffer that fills the longest free run and is refused more: the ring remembers that, as it
/// does for other requests.
#[test]
fn growth_that_is_refused_again_looks_at_a_few_guards() {
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
        // Until a neighbour of the window is released.
        drop(held.remove(start - 1));
        growing.try_reserve(1).unwrap();
        let len = WINDOW * UNIT - OVERHEAD;
        assert!(growing.len() == len && growing.iter().all(|&byte| byte == 1));
    }
}
