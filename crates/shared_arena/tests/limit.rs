//! Tests limits: a refusal returns the value, and empty pages are used before a refusal.
//!
//! The tests take turns. Otherwise a thread of another test might take over the record of an exited
//! thread, and no other thread could then free that record's pages.
#![cfg(feature = "std")]

extern crate alloc;

#[path = "support/tally.rs"]
mod tally;

use ephemera_testkit::suite::take_turn;
use shared_arena::{Arena, Pool, SharedArena, Trim};
use tally::Tally;

const LIMIT: usize = if cfg!(miri) { 32 << 10 } else { 64 << 10 };

#[test]
fn a_refusal_returns_the_value() {
    take_turn();
    let tally = Tally::default();
    let arena = SharedArena::builder().limit(LIMIT).build();
    let mut values = Vec::new();
    let error = loop {
        match arena.try_alloc(tally.value(values.len())) {
            Ok(value) => values.push(value),
            Err(error) => break error,
        }
    };
    let refused = error.refused();
    assert!(refused.by_limit() && refused.limit == LIMIT && refused.held <= LIMIT);
    assert_eq!(refused.held, arena.statistics().bytes_held);
    assert_eq!(error.into_value().number(), values.len());
    assert!(values.len() * size_of::<tally::Counted>() > LIMIT / 2, "{} values", values.len());
    assert!(arena.try_alloc_arc(tally.value(0)).is_err() && arena.try_alloc_rc(tally.value(0)).is_err());
    assert!(arena.try_alloc_with(|_| unreachable!("there is no slot")).is_err());
    assert_eq!(tally.alive(), values.len());
    // A free slot is claimed again.
    values.pop();
    values.push(arena.try_alloc(tally.value(values.len())).expect("a slot is free"));
    assert!(values.iter().enumerate().all(|(number, value)| value.number() == number));
}

#[test]
fn counted_handles_need_room_for_their_counts() {
    take_turn();
    // The limit has room for a page, but not for its counts.
    let probe = Pool::<u64>::new();
    drop(probe.alloc(1));
    let held = probe.statistics().bytes_held;
    let pool = Pool::<u64>::builder().limit(held + 100).build();
    let error = pool.try_alloc_rc(5).unwrap_err();
    assert_eq!((error.into_value(), pool.stats()), (5, (0, 63)), "the slot is free again");
    assert_eq!(*pool.try_alloc(6).unwrap(), 6);
}

#[test]
fn every_arena_keeps_its_limit() {
    take_turn();
    let arena = Arena::<[u8; 100]>::builder().limit(LIMIT).trim(Trim::Manual).build();
    let pool = Pool::<[u8; 100]>::builder().limit(LIMIT).build();
    let boxes: Vec<_> = (0..).map_while(|number: u32| arena.try_alloc([number as u8; 100]).ok()).collect();
    let pooled: Vec<_> = (0..).map_while(|number: u32| pool.try_alloc([number as u8; 100]).ok()).collect();
    for (count, statistics) in [(boxes.len(), arena.statistics()), (pooled.len(), pool.statistics())] {
        assert_eq!((statistics.slots_live, statistics.limit), (count, LIMIT));
        assert!(statistics.bytes_held <= LIMIT && statistics.bytes_live > LIMIT / 2, "{statistics:?}");
        assert_eq!(statistics.overhead(), statistics.bytes_held - count * 100);
    }
}

#[test]
fn conc_pages_of_an_exited_thread_are_used_before_a_refusal() {
    take_turn();
    let arena = SharedArena::<[u64; 8]>::builder().limit(LIMIT).build();
    let fill = || {
        let values: Vec<_> = (0..).map_while(|number| arena.try_alloc([number; 8]).ok()).collect();
        values.len()
    };
    let there = std::thread::scope(|scope| scope.spawn(fill).join().unwrap());
    let here = fill();
    assert!(here + 63 >= there && there > 4 * 63, "{here} here, {there} there");
}

#[test]
fn capacity_counts_toward_the_limit() {
    take_turn();
    let refused = Pool::<u64>::builder().capacity(100_000).limit(LIMIT).try_build().unwrap_err();
    assert!(refused.by_limit() && refused.limit == LIMIT && refused.held + refused.asked > LIMIT);
    assert!((800_000..1_000_000).contains(&refused.asked), "{refused}");
    let pool = Pool::<u64>::builder().capacity(2_000).limit(LIMIT).build();
    assert_eq!(pool.stats(), (0, 32 * 63));
    // The limit is exact to the byte.
    let held = pool.statistics().bytes_held;
    let refused = Pool::<u64>::builder().capacity(2_000).limit(held - 1).try_build().unwrap_err();
    assert_eq!(refused.held + refused.asked, held);
}

/// The limit has room for the arena's state and its capacity, and for nothing else.
#[test]
fn reserved_capacity_can_be_allocated_under_its_own_limit() {
    take_turn();
    macro_rules! check {
        ($arena:ident, $capacity:expr) => {
            let capacity: usize = $capacity;
            let held = $arena::<u64>::with_capacity(capacity).statistics().bytes_held;
            let arena = $arena::<u64>::builder().capacity(capacity).limit(held).build();
            let slots = capacity.div_ceil(63) * 63;
            assert_eq!(arena.stats(), (0, slots));
            let values: Vec<_> = (0..).map_while(|number| arena.try_alloc(number).ok()).collect();
            assert_eq!((values.len(), arena.statistics().bytes_held), (slots, held));
            let refused = $arena::<u64>::builder().capacity(capacity).limit(held - 1).try_build();
            assert!(refused.unwrap_err().by_limit(), "{} bytes of {held}", held - 1);
        };
    }
    for capacity in if cfg!(miri) { vec![63, 100] } else { vec![1, 63, 64, 1_000, 5_000] } {
        check!(Pool, capacity);
        check!(Arena, capacity);
        check!(SharedArena, capacity);
    }
}

/// The limit does not allow the shard of a second thread.
#[test]
fn the_shard_of_another_thread_takes_one_group_of_the_reserved_capacity() {
    take_turn();
    let capacity = 5_000;
    let held = SharedArena::<u64>::with_capacity(capacity).statistics().bytes_held;
    let arena = SharedArena::<u64>::builder().capacity(capacity).limit(held).build();
    let before = arena.statistics();
    assert_eq!((before.pages, before.groups), (80, 3));
    std::thread::scope(|scope| scope.spawn(|| assert!(arena.try_alloc(1).is_ok())).join().unwrap());
    assert_eq!(arena.statistics().groups, 2);
}

/// The limit does not allow counts, but freeing one group makes enough room.
#[test]
fn counts_take_one_group_of_the_reserved_capacity() {
    take_turn();
    macro_rules! check {
        ($arena:ident) => {
            let held = $arena::<u64>::with_capacity(5_000).statistics().bytes_held;
            let arena = $arena::<u64>::builder().capacity(5_000).limit(held).build();
            assert!(arena.try_alloc_rc(1).is_ok());
            assert_eq!(arena.statistics().groups, 2);
        };
    }
    check!(Pool);
    check!(Arena);
    check!(SharedArena);
}

/// The empty pages belong to this thread's shard or to the shard of an exited thread. None of these
/// pages has counts.
#[test]
fn empty_pages_are_freed_for_counts() {
    take_turn();
    // Some of the limits leave fewer bytes than the counts of a page need.
    let (least, step) = if cfg!(miri) { (8 << 10, 1_024) } else { (32 << 10, 8) };
    for limit in (least..least + (2 << 10)).step_by(step) {
        let pool = Pool::<u64>::builder().limit(limit).trim(Trim::Manual).build();
        let mut values: Vec<_> = (0..).map_while(|number| pool.try_alloc(number).ok()).collect();
        values.truncate(1);
        assert!(pool.try_alloc_rc(1).is_ok(), "a pool under a limit of {limit}");

        for elsewhere in [false, true] {
            let arena = SharedArena::<u64>::builder().limit(limit).trim(Trim::Manual).build();
            let own = arena.alloc(0);
            let fill = || drop((0..).map_while(|number| arena.try_alloc(number).ok()).collect::<Vec<_>>());
            if elsewhere {
                std::thread::scope(|scope| scope.spawn(fill).join().unwrap());
            } else {
                fill();
            }
            assert!(
                arena.try_alloc_arc(1).is_ok(),
                "an arena under a limit of {limit}, filled elsewhere: {elsewhere}"
            );
            assert!(arena.try_alloc_rc_with(|slot| slot.write(2)).is_ok());
            drop(own);
        }
    }
}

/// Calls `check` with the limits of the tests below. Some of these limits leave fewer bytes than
/// the counts of a page need.
fn limits_for_counts(check: impl Fn(usize)) {
    (6_000..14_000).step_by(if cfg!(miri) { 4_000 } else { 24 }).for_each(check);
}

/// Some of the limits refuse the last counted handle. For some of these limits, the slot claimed
/// for the handle is the only live slot of its group, and a page with counts has free slots.
#[test]
fn counts_are_not_refused_while_a_trim_would_make_room() {
    take_turn();
    macro_rules! check {
        ($arena:ident, $try_counted:ident, $limit:expr) => {
            let limit = $limit;
            let arena = $arena::<u64>::builder().limit(limit).trim(Trim::Manual).build();
            let mut values: Vec<_> = (0..).map_while(|number| arena.try_alloc(number).ok()).collect();
            values.truncate(63);
            let counted: Vec<_> = (0..).map_while(|number| arena.$try_counted(number).ok()).collect();
            assert!(arena.$try_counted(0).is_err());
            arena.shrink_to_fit();
            assert!(
                arena.$try_counted(0).is_err(),
                "a limit of {limit} has room for more than {} counted handles",
                counted.len()
            );
        };
    }
    limits_for_counts(|limit| {
        check!(Pool, try_alloc_rc, limit);
        check!(Arena, try_alloc_arc, limit);
        check!(SharedArena, try_alloc_arc, limit);
    });
}

/// To make room for a page and its counts, an arena frees a large empty group. The group that it
/// allocates next must leave room for the counts.
#[test]
fn an_empty_group_is_exchanged_for_a_page_and_its_counts() {
    take_turn();
    /// The bytes of a group of one page, plus the bytes of the page's counts.
    const PAGE: usize = 1_912 + 63 * 8;
    macro_rules! check {
        ($arena:ident, $try_counted:ident, $limit:expr, $live:expr) => {
            let (limit, live) = ($limit, $live);
            let filled = || {
                let arena = $arena::<u64>::builder().limit(limit).trim(Trim::Manual).build();
                let mut values: Vec<_> = (0..).map_while(|number| arena.try_alloc(number).ok()).collect();
                values.truncate(live);
                (arena, values)
            };
            let (trimmed, _values) = filled();
            trimmed.shrink_to_fit();
            let has_room = trimmed.statistics().bytes_held + PAGE <= limit;
            let (arena, _values) = filled();
            let counted = arena.$try_counted(1);
            assert!(counted.is_ok() || !has_room, "{live} values under a limit of {limit}");
        };
    }
    for live in if cfg!(miri) { vec![252] } else { vec![0, 1, 63, 126, 252, 315] } {
        limits_for_counts(|limit| {
            check!(Pool, try_alloc_rc, limit, live);
            check!(Arena, try_alloc_arc, limit, live);
            check!(SharedArena, try_alloc_arc, limit, live);
        });
    }
}

#[test]
fn conc_memory_of_an_exited_thread_is_freed_for_a_new_shard() {
    take_turn();
    // At least one of the limits leaves fewer bytes than a shard needs.
    let limits = (13_472..24_000).step_by(if cfg!(miri) { 4_000 } else { 8 });
    limits.for_each(fill_one_after_the_other);
}

fn fill_one_after_the_other(limit: usize) {
    let arena = SharedArena::<[u8; 100]>::builder().limit(limit).build();
    let fill = || (0..).map_while(|_: u32| arena.try_alloc([1; 100]).ok()).collect::<Vec<_>>().len();
    let other = SharedArena::new();
    std::thread::scope(|scope| {
        // The first thread holds a record before the second thread gets one, so their records
        // differ.
        let (bound, is_bound) = std::sync::mpsc::channel();
        let (go, may_go) = std::sync::mpsc::channel();
        let (fill, other) = (&fill, &other);
        let waits = scope.spawn(move || {
            let _own = other.alloc(1_u8);
            bound.send(()).unwrap();
            may_go.recv().unwrap();
            fill()
        });
        is_bound.recv().unwrap();
        let there = scope.spawn(fill).join().unwrap();
        go.send(()).unwrap();
        let here = waits.join().unwrap();
        assert!(here > 0 && here + 63 >= there, "{here} here, {there} there, of {limit} bytes");
    });
}
