//! Tests of standard containers over pooled allocators. The `_in` constructors of these containers
//! still need a feature gate.
//!
//! The tests need a nightly compiler and `RUSTFLAGS="--cfg ephemera_std_unstable_tests"`.
//! Containers that clone their allocator need `AllocatorClone`. That trait is unstable, so no
//! allocator of a stable crate can implement it. Every reference implements the trait, so these
//! containers get a reference to their allocator.
//!
//! The tests take turns, because a thread of one test may hold the record that owns another test's
//! memory.
#![cfg(ephemera_std_unstable_tests)]
#![feature(allocator_ext, btreemap_alloc)]

extern crate alloc;

use alloc::collections::{BTreeMap, LinkedList, VecDeque};
use alloc::rc::Rc;
use alloc::sync::{Arc, Weak};
use std::thread;

use ephemera_testkit::suite::take_turn;
use typed_pool::pooled_allocator;

/// The number of nodes in the containers below.
const COUNT: u32 = if cfg!(miri) { 100 } else { 3_000 };

#[test]
fn conc_an_arc_is_shared_between_threads() {
    take_turn();
    pooled_allocator! {
        struct Own;
    }
    let shared = Arc::new_in([1_u64, 2, 3], &Own);
    let neighbour = Arc::new_in(4_u64, &Own);
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
    Own.trim_all();
    assert_eq!(Own.stats().live(), 0);
}

#[test]
fn clones_of_an_rc_share_its_block() {
    take_turn();
    pooled_allocator! {
        struct Own;
    }
    let first = Rc::new_in(1_u8, &Own);
    let second = first.clone();
    let third = Rc::new_in(3_u8, &Own);
    drop(first);
    assert_eq!((*second, *third), (1, 3));
    drop((second, third));
    assert_eq!(Own.stats().live(), 0);
}

#[test]
fn a_queue_and_a_list_free_all_their_blocks() {
    take_turn();
    pooled_allocator! {
        struct Own;
    }
    let mut queue = VecDeque::new_in(Own);
    let mut list = LinkedList::new_in(&Own);
    for number in 0..COUNT {
        queue.push_back(number);
        list.push_front(number);
        if number % 3 == 0 {
            queue.pop_front();
            list.pop_back();
        }
    }
    let gone = COUNT.div_ceil(3);
    assert_eq!(queue.iter().sum::<u32>(), (gone..COUNT).sum());
    assert_eq!(list.iter().sum::<u32>(), (gone..COUNT).sum());
    let mut rest = list.split_off(3);
    while let Some(number) = rest.pop_front() {
        list.push_back(number);
    }
    // The list has a node for each element, and the queue has a slot if its buffer has a class.
    assert_eq!(list.len(), (COUNT - gone) as usize);
    assert!((list.len()..=list.len() + 1).contains(&Own.stats().slots_live));
    drop((queue, list, rest));
    assert_eq!(Own.stats().live(), 0);
}

#[test]
fn conc_a_tree_moves_to_another_thread() {
    take_turn();
    pooled_allocator! {
        struct Own;
    }
    let mut tree = BTreeMap::new_in(&Own);
    for key in 0..COUNT {
        tree.insert(key * 7 % COUNT, key);
    }
    assert!(tree.keys().copied().eq(0..COUNT));
    tree.retain(|key, _| key % 2 == 0);
    let tree = thread::spawn(move || {
        let mut tree = tree;
        let upper = tree.split_off(&(COUNT / 2));
        (tree.len() + upper.len(), upper)
    });
    let (len, upper) = tree.join().expect("the thread does not panic");
    assert_eq!(len, COUNT as usize / 2);
    assert_eq!(upper.keys().next(), Some(&(COUNT / 2)));
    drop(upper);
    Own.trim_all();
    assert_eq!((Own.stats().live(), Own.stats().bytes_held), (0, 0));
}
