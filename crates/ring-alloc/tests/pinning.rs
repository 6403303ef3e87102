//! Tests that a long-lived block costs its own chunk and nothing more.
#![cfg(all(feature = "std", target_has_atomic = "64"))]

extern crate alloc;

use alloc::collections::VecDeque;

use allocator_api2::alloc::Allocator;
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use ephemera_testkit::SplitMix;
use ephemera_testkit::backing::Counting;
use ephemera_testkit::suite::take_turn;
use ring_alloc::{OneRingAlloc, RingAlloc};

/// The number of allocations while one long-lived block is live.
const TRAFFIC: usize = if cfg!(miri) {
    300
} else if cfg!(ephemera_poison = "asan") {
    200_000
} else {
    2_000_000
};
/// The numbers of long-lived blocks to try.
const STUCK: &[usize] = if cfg!(miri) { &[2] } else { &[10, 100, 1_000] };
/// The distance between two long-lived blocks, in allocations. A chunk of 32 KiB holds fewer
/// blocks, so two long-lived blocks never share a chunk. (Under Miri, two blocks of `spike` can.)
const APART: usize = if cfg!(miri) { 270 } else { 800 };

/// The size of a small chunk in bytes, rounded up.
const CHUNK: usize = 32 << 10;

/// Returns the number of bytes that `k` long-lived blocks may keep.
const fn price(k: usize) -> usize {
    (k + 8) * CHUNK
}

/// The order in which a window of blocks is freed.
#[derive(Debug, Clone, Copy)]
enum Order {
    Oldest,
    Youngest,
    Any,
}

const ORDERS: &[Order] =
    if cfg!(miri) { &[Order::Any] } else { &[Order::Oldest, Order::Youngest, Order::Any] };

/// Allocates blocks of 64 bytes, of which 100 are live at a time, besides one long-lived block.
fn traffic_beside_one<A: Allocator + Copy>(alloc: A, order: Order) {
    let mut rng = SplitMix::new(3);
    let mut window = VecDeque::new();
    let mut stuck = None;
    for turn in 0..TRAFFIC {
        let block = Box::new_in([turn as u64; 8], alloc);
        if turn == 150 {
            stuck = Some(block);
            continue;
        }
        window.push_back(block);
        if window.len() > 100 {
            let gone = match order {
                Order::Oldest => window.pop_front(),
                Order::Youngest => window.pop_back(),
                Order::Any => window.swap_remove_back(rng.below(window.len())),
            };
            assert!(gone.is_some_and(|gone| gone[0] == gone[7]));
        }
    }
    assert_eq!(stuck.as_deref(), Some(&[150; 8]));
}

/// Allocates small blocks. Every `APART`-th block is long-lived. Calls `look` after each long-lived
/// block and at the end.
fn spread<A: Allocator + Copy>(alloc: A, k: usize, mut look: impl FnMut()) {
    let mut rng = SplitMix::new(5);
    let mut window = VecDeque::new();
    let mut stuck: alloc::vec::Vec<Vec<u8, A>> = alloc::vec::Vec::new();
    for turn in 0..k * APART {
        let mut block = Vec::with_capacity_in(1 + rng.below(256), alloc);
        block.push(turn as u8);
        if turn % APART == 0 {
            stuck.push(block);
            look();
        } else {
            window.push_back(block);
        }
        if window.len() > 100 {
            window.pop_front();
        }
    }
    drop(window);
    look();
    assert_eq!(stuck.len(), k);
    assert!(stuck.iter().enumerate().all(|(at, block)| block[0] == (at * APART) as u8));
}

/// Allocates many blocks before the first free, then frees all but `k` of them in a random order.
fn spike<A: Allocator + Copy>(alloc: A, k: usize, look: impl FnOnce()) {
    let mut rng = SplitMix::new(7);
    let mut all: alloc::vec::Vec<_> = (0..k * APART).map(|turn| Box::new_in([turn; 8], alloc)).collect();
    let mut stuck = alloc::vec::Vec::new();
    for at in (0..k).rev() {
        stuck.push(all.swap_remove(at * APART));
    }
    while !all.is_empty() {
        let gone = all.swap_remove(rng.below(all.len()));
        assert_eq!(gone[0], gone[7]);
    }
    look();
    assert!(stuck.iter().all(|block| block[3] % APART == 0));
}

#[test]
fn one_long_lived_block_costs_one_chunk() {
    for &order in ORDERS {
        let backing = Counting::new();
        let ring = RingAlloc::new_in(&backing);
        traffic_beside_one(&ring, order);
        // `taken` also counts chunks that were freed again, so this check is stricter than a check
        // of the peak.
        assert!(backing.held().taken < 10 * CHUNK as u64, "{order:?}: {:?}", backing.held());
        drop(ring);
        assert_eq!(backing.held().bytes, 0);
    }
}

#[test]
fn long_lived_blocks_among_others_cost_a_chunk_each() {
    for &k in STUCK {
        let backing = Counting::new();
        let ring = RingAlloc::new_in(&backing);
        spread(&ring, k, || {});
        assert!(backing.held().peak <= price(k), "{k} stuck: {:?}", backing.held());
        drop(ring);
        assert_eq!(backing.held().bytes, 0);
    }
}

#[test]
fn long_lived_blocks_of_a_spike_cost_a_chunk_each() {
    for &k in STUCK {
        let backing = Counting::new();
        let ring = RingAlloc::new_in(&backing);
        spike(&ring, k, || {
            assert!(backing.held().bytes <= price(k), "{k} stuck: {:?}", backing.held());
            assert!(ring.stats().pinned_chunks() <= k);
        });
        drop(ring);
        assert_eq!(backing.held().bytes, 0);
    }
}

#[test]
fn long_lived_blocks_cost_a_chunk_each_in_one_ring_alloc() {
    take_turn();
    let clean = || {
        OneRingAlloc.clean_local();
        OneRingAlloc.clean_global();
        OneRingAlloc.stats().bytes_held
    };
    let before = clean();
    let held = || OneRingAlloc.stats().bytes_held - before;
    for &order in ORDERS {
        traffic_beside_one(OneRingAlloc, order);
        assert!(held() < 10 * CHUNK, "{order:?}: {} bytes", held());
    }
    for &k in STUCK {
        assert_eq!(clean(), before);
        spread(OneRingAlloc, k, || assert!(held() <= price(k), "{k} stuck: {} bytes", held()));
        spike(OneRingAlloc, k, || assert!(held() <= price(k), "{k} stuck: {} bytes", held()));
    }
    assert_eq!(clean(), before);
}
