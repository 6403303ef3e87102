//! Tests of pages that rest: an arena whose values another thread drops grows to 2 MiB, and shrinks
//! again when the thread that makes the values also drops them.
#![cfg(all(feature = "std", target_has_atomic = "64", not(miri)))]

extern crate alloc;

use alloc::collections::BTreeMap;

use ephemera_testkit::handover::hand_over;
use ephemera_testkit::suite::take_turn;
use shared_arena::{ArenaBox, SharedArena, Trim};

type Value = [u64; 8];

/// The number of bytes to which an arena grows so that its pages rest.
const RESTING: usize = 2 << 20;
/// The maximum number of bytes that an arena holds for `BATCH` live values if it does not grow.
const FEW: usize = 320 << 10;
/// The number of values in one hand-over.
const BATCH: usize = 1_000;

fn make(arena: &SharedArena<Value>) -> ArenaBox<Value> {
    arena.alloc([7; 8])
}

/// Hands over more values than the arena needs to grow to its final size.
fn grow(arena: &SharedArena<Value>) {
    hand_over(400, BATCH, || make(arena));
}

fn held(arena: &SharedArena<Value>) -> usize {
    arena.statistics().bytes_held
}

#[test]
fn arena_whose_values_another_thread_drops_grows_to_two_mebibytes() {
    take_turn();
    let arena = SharedArena::new();
    grow(&arena);
    let held = held(&arena);
    assert!((RESTING - FEW..RESTING + FEW).contains(&held), "{held} bytes");
}

#[test]
fn page_that_another_thread_freed_rests_until_many_others_were_used() {
    take_turn();
    let arena = SharedArena::new();
    grow(&arena);
    let (mut used, mut made) = (BTreeMap::new(), 0_usize);
    let (mut early, mut all) = (0, 0);
    hand_over(400, BATCH, || {
        let value = make(&arena);
        made += 1;
        if let Some(before) = used.insert(core::ptr::from_ref(&*value).addr(), made) {
            all += 1;
            early += usize::from((made - before) * size_of::<Value>() < RESTING / 2);
        }
        value
    });
    assert!(early * 8 < all, "{early} of {all} slots were reused early");
}

#[test]
fn pages_that_rested_are_freed_once_only_their_owner_drops_values() {
    take_turn();
    let arena = SharedArena::new();
    grow(&arena);
    assert!(held(&arena) > RESTING / 2);
    // Within 1,024 slow paths, the owner decides that its pages rest no longer. It then needs two
    // looks for idle groups.
    for _ in 0..300 {
        drop((0..BATCH).map(|_| make(&arena)).collect::<Vec<_>>());
    }
    let held = held(&arena);
    assert!(held <= FEW, "{held} bytes");
}

#[test]
fn arena_of_which_another_thread_drops_few_values_does_not_grow() {
    take_turn();
    let arena = SharedArena::new();
    let mut most = 0;
    for _ in 0..20 {
        hand_over(1, BATCH, || make(&arena));
        // Each batch takes about 16 slow paths, one for each page.
        for _ in 0..20 {
            drop((0..BATCH).map(|_| make(&arena)).collect::<Vec<_>>());
            most = most.max(held(&arena));
        }
    }
    assert!(most <= FEW, "{most} bytes");
}

#[test]
fn arena_with_a_limit_does_not_grow_so_that_pages_rest() {
    take_turn();
    let arena = SharedArena::builder().limit(1 << 30).build();
    grow(&arena);
    let held = held(&arena);
    assert!(held <= FEW, "{held} bytes");
}

#[test]
fn arena_with_manual_trims_does_not_grow_so_that_pages_rest() {
    take_turn();
    let arena = SharedArena::builder().trim(Trim::Manual).build();
    grow(&arena);
    let held = held(&arena);
    assert!(held <= FEW, "{held} bytes");
}

#[test]
fn arena_of_large_values_does_not_grow_so_that_pages_rest() {
    take_turn();
    let arena = SharedArena::<[u8; 5_000]>::new();
    hand_over(2_000, 4, || arena.alloc([7; 5_000]));
    let held = arena.statistics().bytes_held;
    assert!(held <= 1 << 20, "{held} bytes");
}

/// These values need less than 32 KiB of pages, so the owner reuses the pages at once.
#[test]
fn arena_of_few_values_does_not_grow_so_that_pages_rest() {
    take_turn();
    let arena = SharedArena::new();
    hand_over(4_000, 100, || make(&arena));
    let held = held(&arena);
    assert!(held <= 64 << 10, "{held} bytes");
}

#[test]
fn at_most_four_arenas_rest_at_the_same_time() {
    take_turn();
    let arenas: Vec<_> = (0..8).map(|_| SharedArena::new()).collect();
    arenas.iter().for_each(grow);
    let most = 4 * (RESTING + FEW) + 4 * FEW;
    let all: usize = arenas.iter().map(held).sum();
    assert!(all <= most, "{all} bytes");
    // After the drop of these arenas, the pages of others can rest.
    drop(arenas);
    let arena = SharedArena::new();
    grow(&arena);
    assert!(held(&arena) > RESTING / 2);
}

/// Lets the pages of four arenas rest, calls `end` with each of these arenas, and asserts that the
/// pages of a fifth arena then rest.
fn another_arena_rests_after(end: impl Fn(&SharedArena<Value>)) {
    take_turn();
    let arenas = [(); 4].map(|()| SharedArena::new());
    arenas.iter().for_each(grow);
    arenas.iter().for_each(end);
    let arena = SharedArena::new();
    grow(&arena);
    assert!(held(&arena) > RESTING / 2, "{} bytes", held(&arena));
}

#[test]
fn pages_of_another_arena_rest_after_trims() {
    another_arena_rests_after(|arena| {
        arena.trim();
    });
}

#[test]
fn pages_of_another_arena_rest_after_the_end_of_hand_overs() {
    another_arena_rests_after(|arena| {
        for _ in 0..300 {
            drop((0..BATCH).map(|_| make(arena)).collect::<Vec<_>>());
        }
    });
}

/// Small values would need thousands of pages to fill 2 MiB.
#[test]
fn arena_of_small_values_grows_to_512_pages() {
    take_turn();
    let arena = SharedArena::<u64>::new();
    hand_over(400, 8_000, || arena.alloc(7));
    let pages = arena.statistics().pages;
    assert!((400..600).contains(&pages), "{pages} pages");
}
