//! Tests the memory that arenas hold, and the bytes that a value costs. Each test also checks that
//! all groups are freed.
#![cfg(feature = "std")]

extern crate alloc;

use alloc::sync::Arc;
use std::sync::Barrier;

use ephemera_testkit::SplitMix;
use ephemera_testkit::backing::CountingGlobal;
use ephemera_testkit::suite::take_turn;
use shared_arena::{Arena, ArenaArc, ArenaBox, Pool, SharedArena, Trim, reclaim, trim_all};

#[global_allocator]
static GLOBAL: CountingGlobal = CountingGlobal::new(16 << 10);

/// Returns the number of bytes in all groups that the process holds.
fn groups() -> usize {
    GLOBAL.aligned().bytes
}

/// Runs a test while no other test runs. Asserts that the process holds the same number of bytes in
/// groups before and after the test.
fn balanced(test: impl FnOnce()) {
    take_turn();
    let before = groups();
    test();
    assert_eq!(groups(), before, "groups were not freed");
}

const MANY: usize = if cfg!(miri) { 1_000 } else { 126_000 };

#[test]
fn a_live_word_costs_less_than_ten_bytes() {
    balanced(|| {
        let arena = SharedArena::new();
        let values: Vec<ArenaBox<u64>> = (0..MANY as u64).map(|value| arena.alloc(value)).collect();
        let statistics = arena.statistics();
        assert_eq!(statistics.slots_live, MANY);
        // With few values, partly filled groups make each value cost more.
        let most = if cfg!(miri) { 24 } else { 10 };
        assert!(statistics.bytes_held <= most * MANY, "{statistics:?}");
        assert!(groups() <= statistics.bytes_held);
        drop(values);
        assert!(arena.shrink_to_fit());
        let statistics = arena.statistics();
        assert_eq!((statistics.pages, groups()), (0, 0));
        assert!(statistics.bytes_held < 1_024, "{statistics:?}");
    });
}

#[test]
fn small_arenas_stay_small() {
    balanced(|| {
        let (shared, pool) = (SharedArena::new(), Pool::new());
        let empty = [shared.statistics().bytes_held, pool.statistics().bytes_held];
        assert!(empty.iter().all(|&bytes| bytes < 1_024), "{empty:?}");
        let values = (shared.alloc(1_u64), pool.alloc(2_u64));
        let one = [shared.statistics().bytes_held, pool.statistics().bytes_held];
        assert!(one.iter().all(|&bytes| bytes < 4_096), "{one:?}");
        drop(values);
    });
}

/// The crate's documentation and the README state these figures.
#[test]
#[cfg(target_pointer_width = "64")]
fn a_first_small_value_takes_the_documented_bytes() {
    macro_rules! check {
        ($($size:literal: $least:literal to $most:literal,)*) => {$(
            let arena = SharedArena::<[u8; $size]>::new();
            let value = arena.alloc([0; $size]);
            let held = arena.statistics().bytes_held;
            assert!((1_024 * $least / 10..=1_024 * $most / 10).contains(&held), "{held} bytes for {}", $size);
            drop(value);
        )*};
    }
    balanced(|| {
        check! {
            0: 75 to 77, 1: 75 to 77, 2: 50 to 53, 3: 40 to 43, 8: 25 to 27, 12: 24 to 25, 15: 24 to 25,
            40: 37 to 39, 64: 53 to 56, 100: 73 to 76, 128: 93 to 94,
        }
    });
}

#[test]
fn an_arena_holds_no_page_before_its_first_value() {
    balanced(|| {
        let before = groups();
        let (shared, arena, pool) = (SharedArena::<u64>::new(), Arena::with_capacity(0), Pool::<u64>::new());
        assert_eq!([shared.stats(), arena.stats(), pool.stats()], [(0, 0); 3]);
        assert_eq!(groups(), before);
        assert!(!shared.shrink_to_fit() && !arena.shrink_to_fit(), "nothing is empty");
        let value = arena.alloc(1_u64);
        assert_eq!(format!("{arena:?}"), "Arena { used: 1, free: 62 }");
        drop(value);
    });
}

#[test]
fn shrink_keeps_pages_in_use() {
    balanced(|| {
        let arena = Arena::<[u64; 8]>::new();
        let mut values: Vec<_> = (0..MANY / 4).map(|value| arena.alloc([value as u64; 8])).collect();
        let full = arena.statistics();
        let kept = values.split_off(values.len() - 10);
        drop(values);
        assert_eq!(arena.statistics().pages, full.pages, "a free does not free pages");
        assert!(arena.shrink_to_fit());
        let few = arena.statistics();
        assert!(few.groups <= 2 && few.slots_live == 10, "{few:?}");
        assert!(!arena.shrink_to_fit());
        // The remaining free slots are claimed again.
        let more: Vec<_> = (0..few.free()).map(|value| arena.alloc([value as u64; 8])).collect();
        assert_eq!(arena.statistics().pages, few.pages);
        drop((kept, more));
    });
}

#[test]
#[cfg_attr(miri, ignore = "too slow: it fills many pages")]
fn idle_pages_are_freed_without_a_request() {
    balanced(|| {
        let kept_after = |trim| {
            let pool = Pool::<[u64; 8]>::builder().trim(trim).build();
            drop((0..20_000).map(|value| pool.alloc([value; 8])).collect::<Vec<_>>());
            let most = pool.statistics().pages;
            for _ in 0..40 {
                drop((0..2_000).map(|value| pool.alloc([value; 8])).collect::<Vec<_>>());
            }
            (most, pool.statistics().pages)
        };
        let (most, kept) = kept_after(Trim::Idle);
        assert!(kept < most / 2, "{kept} of {most} pages kept");
        let (most, kept) = kept_after(Trim::Manual);
        assert_eq!(kept, most);
    });
}

/// After a spike, the pool frees empty groups although every allocation finds a free slot, also if
/// only a few values are live.
#[test]
#[cfg_attr(miri, ignore = "too slow: it fills many pages")]
fn idle_pages_are_freed_in_a_steady_state() {
    const SPIKE: usize = 20_000;
    balanced(|| {
        for most in [2_usize, 100, 1_000] {
            let pool = Pool::<[u64; 4]>::new();
            drop((0..SPIKE as u64).map(|value| pool.alloc([value; 4])).collect::<Vec<_>>());
            let spike = pool.statistics().bytes_held;
            let (mut values, mut order) = (Vec::new(), SplitMix::new(1));
            for _ in 0..30 * SPIKE {
                if values.is_empty() || values.len() < most && order.below(2) == 0 {
                    values.push(pool.alloc([order.draw(); 4]));
                } else {
                    drop(values.swap_remove(order.below(values.len())));
                }
            }
            let held = pool.statistics().bytes_held;
            let needed = 64 * (most + 4_096);
            assert!(held <= needed, "{held} of {spike} bytes kept for at most {most} values");
        }
    });
}

#[test]
fn pages_in_steady_use_are_not_freed() {
    balanced(|| {
        let pool = Pool::<[u64; 8]>::new();
        let count = if cfg!(miri) { 500 } else { 20_000 };
        let round = || {
            let values: Vec<_> = (0..count).map(|value| pool.alloc([value; 8])).collect();
            assert!(values.iter().zip(0..).all(|(value, expected)| value[7] == expected));
        };
        round();
        let held = pool.statistics().bytes_held;
        for _ in 0..if cfg!(miri) { 2 } else { 20 } {
            round();
        }
        assert_eq!(pool.statistics().bytes_held, held);
    });
}

#[test]
fn trim_frees_empty_groups_and_trim_all_frees_no_live_arena() {
    balanced(|| {
        let before = groups();
        let (shared, arena) = (SharedArena::with_capacity(500), Arena::with_capacity(500));
        let kept = (shared.alloc(1), arena.alloc(2));
        assert_eq!(trim_all(), 0, "no arena was dropped");
        assert_eq!((shared.statistics().slots_live, arena.statistics().slots_live), (1, 1));
        drop(kept);
        assert!(shared.trim() && arena.trim(), "all groups are empty");
        assert_eq!((shared.stats(), arena.stats(), groups()), ((0, 0), (0, 0), before));
        assert!(!shared.trim() && !arena.trim(), "nothing is left to free");
    });
}

#[test]
fn an_arena_without_values_is_freed_at_its_drop() {
    balanced(|| {
        let before = groups();
        let (shared, arena, pool) = (SharedArena::new(), Arena::with_capacity(500), Pool::new());
        drop((shared.alloc(1), arena.alloc_arc(2), pool.alloc_rc(3)));
        assert!(groups() > before);
        drop((shared, arena, pool));
        assert_eq!(groups(), before);
    });
}

#[test]
fn the_last_handle_frees_the_memory_of_its_dropped_arena() {
    balanced(|| {
        let before = groups();
        let count: u64 = if cfg!(miri) { 70 } else { 200 };
        for order in 0..if cfg!(miri) { 2 } else { 6 } {
            let (shared, pool) = (SharedArena::new(), Pool::new());
            let mut boxes: Vec<_> = (0..count).map(|value| shared.alloc(value)).collect();
            let mut pooled: Vec<_> = (0..count).map(|value| pool.alloc(value)).collect();
            let arcs: Vec<_> = (0..70_u64).map(|value| shared.alloc_arc(value)).collect();
            let rcs: Vec<_> = (0..70_u64).map(|value| pool.alloc_rc(value)).collect();
            let weak = ArenaArc::downgrade(&arcs[order]);
            drop((shared, pool));
            assert!(boxes.iter().zip(0..).all(|(value, expected)| **value == expected));
            while !boxes.is_empty() {
                drop(boxes.swap_remove((boxes.len() * order) / 7));
                drop(pooled.swap_remove((pooled.len() * order) / 7));
            }
            drop((arcs, rcs));
            assert!(groups() > before && weak.upgrade().is_none(), "a weak handle keeps its slot");
            drop(weak);
            assert_eq!(groups(), before, "in order {order}");
        }
        assert_eq!(reclaim(), 0, "no arena is left to reclaim");
    });
}

#[test]
fn conc_the_last_value_frees_a_parked_arena() {
    balanced(|| {
        let before = groups();
        let arena = SharedArena::new();
        let values: Vec<_> = (0..200_u64).map(|value| arena.alloc(value)).collect();
        std::thread::spawn(move || drop(arena)).join().unwrap();
        let threads = values.into_iter().enumerate().map(|(number, value)| (number % 3, value));
        let mut shares = [Vec::new(), Vec::new(), Vec::new()];
        threads.for_each(|(thread, value)| shares[thread].push(value));
        shares
            .map(|share| std::thread::spawn(move || drop(share)))
            .into_iter()
            .for_each(|it| it.join().unwrap());
        assert_eq!(groups(), before, "the last value frees the memory of its arena");
    });
}

#[test]
fn conc_drop_beside_the_last_values_frees_everything() {
    balanced(|| {
        let before = groups();
        for round in 0..if cfg!(miri) { 3 } else { 2_000 } {
            let arena = Arc::new(SharedArena::new());
            let barrier = Arc::new(Barrier::new(3));
            let (here, there) = std::sync::mpsc::channel();
            let owner = std::thread::spawn({
                let (arena, barrier) = (Arc::clone(&arena), Arc::clone(&barrier));
                move || {
                    let mut own: Vec<_> = (0..66_u64).map(|value| arena.alloc(value)).collect();
                    here.send(own.split_off(own.len() / 2 + round % 3)).unwrap();
                    drop(arena);
                    barrier.wait();
                    drop(own);
                }
            });
            let values = there.recv().unwrap();
            let elsewhere = std::thread::spawn({
                let barrier = Arc::clone(&barrier);
                move || {
                    barrier.wait();
                    drop(values);
                }
            });
            barrier.wait();
            drop(arena);
            owner.join().unwrap();
            elsewhere.join().unwrap();
            // The owner looks at its parked shard when it exits, and counts every free that did not
            // see the drop of the arena. No later look is needed.
            assert_eq!(groups(), before, "in round {round}");
        }
    });
}

#[test]
fn one_value_pins_only_its_group() {
    balanced(|| {
        let pool = Pool::<u64>::new();
        let mut values: Vec<_> = (0..MANY as u64).map(|value| Some(pool.alloc(value))).collect();
        let groups_then = pool.statistics().groups;
        let keep = values.len() / 2;
        values
            .iter_mut()
            .enumerate()
            .filter(|(number, _)| *number != keep)
            .for_each(|(_, value)| *value = None);
        pool.shrink_to_fit();
        let statistics = pool.statistics();
        assert_eq!((statistics.groups, statistics.slots_live), (1, 1));
        assert!(groups_then > 1 && statistics.bytes_held < 20 << 10, "{statistics:?}");
    });
}

#[test]
#[cfg_attr(miri, ignore = "too slow: it fills many pages")]
fn one_shrink_frees_all_empty_groups() {
    // The slots are freed in a pseudo-random order, and one trim must then free all groups. The
    // test checks the number of pages, not the time.
    balanced(|| {
        let arena = SharedArena::<[u64; 4]>::new();
        let mut values: Vec<_> = (0..1_000_000_u64).map(|value| arena.alloc([value; 4])).collect();
        let mut order = SplitMix::new(1);
        while !values.is_empty() {
            drop(values.swap_remove(order.below(values.len())));
        }
        assert!(arena.shrink_to_fit());
        assert_eq!((arena.statistics().pages, arena.shrink_to_fit()), (0, false));
    });
}
