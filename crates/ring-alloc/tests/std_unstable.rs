//! Tests that the rings serve the standard library's containers whose `_in` constructors need a
//! feature gate.
//!
//! These tests require a nightly compiler: `RUSTFLAGS="--cfg ephemera_std_unstable_tests"`.
//! Containers that are cloned with their allocator require the unstable trait `AllocatorClone`. A
//! stable crate cannot implement this trait for its allocators, but every reference to an allocator
//! implements it.
#![cfg(ephemera_std_unstable_tests)]
#![feature(allocator_ext, btreemap_alloc)]

extern crate alloc;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::rc::Rc;
use alloc::sync::{Arc, Weak};
use std::thread;

use ephemera_testkit::suite::take_turn;
use ring_alloc::{OneRingAlloc, RingAlloc};

#[test]
fn conc_arc_is_shared_between_threads() {
    take_turn();
    let shared = Arc::new_in([1_u64, 2, 3], &OneRingAlloc);
    let neighbour = Arc::new_in(4_u64, &OneRingAlloc);
    let weak: Weak<_, _> = Arc::downgrade(&shared);
    let threads: [_; 2] = core::array::from_fn(|_| {
        let (shared, weak) = (shared.clone(), weak.clone());
        thread::spawn(move || shared[0] + weak.upgrade().map_or(0, |shared| shared[2]))
    });
    drop(shared);
    for thread in threads {
        assert_eq!(thread.join().expect("the thread does not panic"), 4);
    }
    assert!(weak.upgrade().is_none());
    assert_eq!(*neighbour, 4);
    drop((weak, neighbour));
    OneRingAlloc.clean_local();
    OneRingAlloc.clean_global();
    assert_eq!(OneRingAlloc.stats().blocks_live(), 0);
}

#[test]
fn reference_counted_values_in_a_ring_free_all_their_blocks() {
    let ring = RingAlloc::new();
    let first = Rc::new_in(1_u8, &ring);
    let second = first.clone();
    let third = Rc::new_in(3_u8, &ring);
    drop(first);
    assert_eq!((*second, *third), (1, 3));
    drop((second, third));
    assert_eq!(ring.stats().blocks_live(), 0);
}

#[test]
fn queue_in_a_ring_frees_all_its_blocks() {
    let ring = RingAlloc::new();
    let mut queue = VecDeque::new_in(ring.clone());
    for number in 0..200_usize {
        queue.push_back(number);
        if number % 3 == 0 {
            queue.pop_front();
        }
    }
    assert_eq!(queue.iter().sum::<usize>(), (67..200).sum());
    drop(queue);
    assert_eq!(ring.stats().blocks_live(), 0);
}

#[test]
fn tree_of_one_ring_alloc_frees_all_its_blocks() {
    take_turn();
    let mut tree = BTreeMap::new_in(&OneRingAlloc);
    for key in 0..300_u32 {
        tree.insert(key * 7 % 300, key);
    }
    assert!(tree.keys().copied().eq(0..300));
    tree.retain(|key, _| key % 2 == 0);
    assert_eq!(tree.len(), 150);
    drop(tree);
    OneRingAlloc.clean_local();
    assert_eq!(OneRingAlloc.stats().blocks_live(), 0);
}
