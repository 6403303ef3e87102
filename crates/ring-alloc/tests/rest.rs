//! Tests of chunks that rest: a heap whose chunks another thread empties grows to 2 MiB, and
//! shrinks again when no other thread frees its blocks any more.
#![cfg(all(feature = "std", target_has_atomic = "64", not(miri)))]

extern crate alloc;

use alloc::collections::BTreeMap;
use std::thread;

use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use ephemera_testkit::handover::hand_over;
use ephemera_testkit::suite::take_turn;
use ring_alloc::OneRingAlloc;

type Value = Box<[u64; 8], OneRingAlloc>;

/// The size of a chunk in bytes.
const CHUNK: usize = 32 << 10;
/// The number of chunks to which a heap grows so that chunks can rest.
const RESTING: usize = 64;
/// The maximum number of chunks of a heap that does not grow and has at most `BATCH` live values.
const FEW: usize = 12;
/// The number of values in one batch of a hand-over, about as many as two chunks hold.
const BATCH: usize = 1_000;

fn value() -> Value {
    Box::new_in([7; 8], OneRingAlloc)
}

/// Hands over enough values for the heap to stop growing.
fn grow() {
    hand_over(400, BATCH, value);
}

fn chunks() -> usize {
    OneRingAlloc.stats().bytes_held / CHUNK
}

#[test]
fn a_heap_whose_chunks_another_thread_empties_grows_to_two_mebibytes() {
    take_turn();
    grow();
    let chunks = chunks();
    assert!((RESTING - FEW..RESTING + FEW).contains(&chunks), "{chunks} chunks");
}

#[test]
fn a_chunk_that_another_thread_emptied_rests_until_many_others_were_used() {
    take_turn();
    grow();
    let (mut fronts, mut last, mut used) = (0_usize, 0, BTreeMap::new());
    let (mut early, mut all) = (0, 0);
    hand_over(200, BATCH, || {
        let value = value();
        let chunk = core::ptr::from_ref(&*value).addr() & !(CHUNK - 1);
        if chunk != last {
            last = chunk;
            fronts += 1;
            if let Some(before) = used.insert(chunk, fronts) {
                all += 1;
                early += usize::from(fronts - before < RESTING / 2);
            }
        }
        value
    });
    assert!(early * 8 < all, "{early} of {all} chunks were used again early");
}

#[test]
fn chunks_that_rested_are_freed_once_only_their_owner_frees() {
    take_turn();
    grow();
    assert!(chunks() > RESTING / 2);
    for _ in 0..300 {
        drop((0..BATCH).map(|_| value()).collect::<alloc::vec::Vec<_>>());
    }
    let chunks = chunks();
    assert!(chunks <= FEW, "{chunks} chunks");
}

#[test]
fn a_heap_with_a_limit_does_not_grow_so_that_chunks_rest() {
    take_turn();
    OneRingAlloc.set_limit(1 << 30);
    grow();
    let chunks = chunks();
    OneRingAlloc.set_limit(usize::MAX);
    assert!(chunks <= FEW, "{chunks} chunks");
}

#[test]
fn a_heap_that_grew_shrinks_in_a_hand_over_under_a_limit() {
    take_turn();
    grow();
    assert!(chunks() > RESTING / 2);
    OneRingAlloc.set_limit(1 << 30);
    hand_over(200, BATCH, value);
    let chunks = chunks();
    OneRingAlloc.set_limit(usize::MAX);
    assert!(chunks <= FEW, "{chunks} chunks");
}

/// The values of a batch need fewer than three chunks, so the heap reuses the chunks at once.
#[test]
fn a_hand_over_of_few_values_does_not_make_a_heap_grow() {
    take_turn();
    for len in [100, 300, 504] {
        hand_over(100_000 / len, len, value);
        let chunks = chunks();
        assert!(chunks <= FEW, "{chunks} chunks after batches of {len}");
    }
}

/// Another thread frees one value in 100, so each chunk has remote frees, but few of them.
#[test]
fn a_heap_that_frees_most_of_its_values_itself_does_not_grow() {
    take_turn();
    let mut own = alloc::vec::Vec::new();
    hand_over(400, BATCH / 100, || {
        own.clear();
        own.extend((1..100).map(|_| value()));
        value()
    });
    drop(own);
    let chunks = chunks();
    assert!(chunks <= FEW, "{chunks} chunks");
}

#[test]
fn chunks_that_rested_are_freed_at_the_next_local_free_under_a_limit() {
    take_turn();
    grow();
    OneRingAlloc.set_limit(1 << 30);
    for _ in 0..8 {
        drop((0..BATCH).map(|_| value()).collect::<alloc::vec::Vec<_>>());
    }
    let chunks = chunks();
    OneRingAlloc.set_limit(usize::MAX);
    assert!(chunks <= FEW, "{chunks} chunks");
}

#[test]
fn the_next_thread_of_a_record_does_not_inherit_the_rest_of_chunks() {
    take_turn();
    thread::spawn(grow).join().expect("no panic");
    let next = thread::spawn(|| {
        hand_over(1_000, 100, value);
        chunks()
    });
    let chunks = next.join().expect("no panic");
    assert!(chunks <= FEW, "{chunks} chunks");
}

#[test]
fn chunks_rest_no_longer_after_a_trim() {
    take_turn();
    grow();
    OneRingAlloc.trim();
    // Chunks do not begin to rest for so few values.
    hand_over(1_000, 100, value);
    let chunks = chunks();
    assert!(chunks <= FEW, "{chunks} chunks");
}

/// After the hand-over, the owner allocates only medium blocks. Its slow paths also free the small
/// chunks.
#[test]
fn chunks_that_rested_are_freed_while_their_owner_uses_medium_blocks() {
    take_turn();
    grow();
    for _ in 0..4_000 {
        let blocks = (0..20).map(|_| Vec::<u8, _>::with_capacity_in(20_000, OneRingAlloc));
        drop(blocks.collect::<alloc::vec::Vec<_>>());
    }
    let held = OneRingAlloc.stats().bytes_held;
    assert!(held <= FEW * CHUNK + (2 << 20), "{held} bytes");
}
