//! Tests that the rings serve the standard library's containers through the standard `Allocator`
//! trait, without a feature gate.
//!
//! These tests require a compiler with that trait, 1.100 or later:
//! `RUSTFLAGS="--cfg ephemera_std_tests"`.
#![cfg(ephemera_std_tests)]
#![expect(clippy::incompatible_msrv, reason = "the cfg is set for compilers that have the trait")]

use core::marker::PhantomData;
use core::ptr;
use std::alloc::Allocator;

use ephemera_testkit::backing::Counting;
use ephemera_testkit::suite::take_turn;
use ring_alloc::{OneRingAlloc, RingAlloc};

/// An example of a library type that knows only the standard trait.
struct Tree<A: Allocator + Clone> {
    nodes: Vec<Node<A>, A>,
    alloc: A,
}

struct Node<A: Allocator> {
    key: u32,
    children: Vec<usize, A>,
    text: Box<[u8; 12], A>,
}

impl<A: Allocator + Clone> Tree<A> {
    fn new(alloc: A) -> Self {
        Self { nodes: Vec::new_in(alloc.clone()), alloc }
    }

    fn add(&mut self, parent: Option<usize>, key: u32) -> usize {
        let index = self.nodes.len();
        let text = Box::new_in([key as u8; 12], self.alloc.clone());
        self.nodes.push(Node { key, children: Vec::new_in(self.alloc.clone()), text });
        if let Some(parent) = parent {
            self.nodes[parent].children.push(index);
        }
        index
    }

    fn sum(&self, index: usize) -> u32 {
        let node = &self.nodes[index];
        assert_eq!(*node.text, [node.key as u8; 12]);
        node.key + node.children.iter().map(|&child| self.sum(child)).sum::<u32>()
    }
}

fn grow_a_tree<A: Allocator + Clone>(alloc: A) {
    let mut tree = Tree::new(alloc);
    let root = tree.add(None, 0);
    for key in 1..100 {
        tree.add(Some(if key < 10 { root } else { key as usize / 10 }), key);
    }
    assert_eq!(tree.sum(root), 4950);
}

#[test]
fn vector_of_one_ring_alloc_moves_between_threads() {
    take_turn();
    let mut numbers = Vec::new_in(OneRingAlloc);
    numbers.extend(0..1_000_u64);
    numbers.retain(|number| number % 2 == 0);
    numbers.shrink_to_fit();
    assert_eq!(numbers.iter().sum::<u64>(), 249_500);
    let numbers = std::thread::spawn(move || {
        let mut numbers = numbers;
        numbers.reserve_exact(20_000);
        numbers.push(1);
        numbers
    });
    assert_eq!(numbers.join().expect("the thread does not panic").len(), 501);
    OneRingAlloc.clean_local();
    OneRingAlloc.clean_global();
    assert_eq!(OneRingAlloc.stats().blocks_live(), 0);
}

#[test]
fn vectors_in_a_ring_free_all_their_blocks() {
    let ring = RingAlloc::new();
    let mut words: Vec<Vec<u8, RingAlloc>, RingAlloc> = Vec::new_in(ring.clone());
    for size in [1, 100, 3_000, 100_000] {
        let mut word = Vec::with_capacity_in(size, ring.clone());
        word.extend_from_slice(&vec![size as u8; size]);
        words.push(word);
    }
    assert_eq!(words.iter().map(Vec::len).sum::<usize>(), 103_101);
    drop(words);
    assert_eq!(ring.stats().blocks_live(), 0);
}

#[test]
fn types_generic_over_the_standard_trait_accept_the_rings() {
    take_turn();
    let ring = RingAlloc::new_in(Counting::new());
    grow_a_tree(ring.clone());
    grow_a_tree(&ring);
    grow_a_tree(OneRingAlloc);
    grow_a_tree(std::alloc::Global);
    assert_eq!(ring.stats().blocks_live(), 0);
}

#[test]
fn neighbours_in_one_chunk_are_used_independently() {
    let ring = RingAlloc::new();
    let mut first = Box::new_in(1_u64, ring.clone());
    let mut second = Box::new_in(2_u64, ring.clone());
    let (one, two) = (&mut *first, &mut *second);
    core::mem::swap(one, two);
    *one += 10;
    *two += 20;
    // Free one block while the other is mutably borrowed.
    let borrowed = &mut *first;
    drop(second);
    *borrowed += 100;
    let third = Box::new_in(3_u64, ring.clone());
    assert_eq!((*first, *third, ring.stats().small.chunks), (112, 3, 1));

    take_turn();
    let mut first = Box::new_in(1_u64, OneRingAlloc);
    let second = Box::new_in(2_u64, OneRingAlloc);
    let borrowed = &mut *first;
    std::thread::spawn(move || drop(second)).join().expect("the thread does not panic");
    *borrowed += 1;
    OneRingAlloc.clean_local();
    assert_eq!(*first, 2);
}

/// A function frees a box that it receives by value. If the free created a reference to the whole
/// chunk, it would violate the uniqueness of the box.
#[test]
fn boxes_may_be_passed_by_value() {
    fn freed<A: Allocator>(mut boxed: Box<[u32; 4], A>) -> u32 {
        boxed[0] += 1;
        let sum = boxed.iter().sum();
        drop(boxed);
        sum
    }

    fn kept<A: Allocator>(boxed: Box<[u32; 4], A>) -> Box<[u32; 4], A> {
        boxed
    }

    let ring = RingAlloc::new();
    let stays = Box::new_in([1, 2, 3, 4], &ring);
    assert_eq!(freed(kept(Box::new_in([1, 1, 1, 1], &ring))), 5);
    assert_eq!(freed(kept(stays)), 11);
    take_turn();
    assert_eq!(freed(kept(Box::new_in([1, 1, 1, 1], OneRingAlloc))), 5);
}

#[test]
fn leaked_box_can_be_rebuilt_and_freed() {
    let ring = RingAlloc::new();
    let leaked: &mut [u8; 3] = Box::leak(Box::new_in([1, 2, 3], &ring));
    let neighbour = Box::new_in(9_u8, &ring);
    leaked[1] = 7;
    // SAFETY: the pointer was leaked from a box of this ring, and nothing else uses it.
    let mut back = unsafe { Box::from_raw_in(ptr::from_mut(leaked), &ring) };
    back[2] += *neighbour;
    assert_eq!(*back, [1, 7, 12]);
    let (raw, alloc) = Box::into_raw_with_allocator(back);
    // SAFETY: the pointer comes from the box, and nothing else uses it.
    unsafe { (*raw)[0] = 4 };
    drop(neighbour);
    // SAFETY: the pointer comes from a box of this ring.
    drop(unsafe { Box::from_raw_in(raw, alloc) });
    assert_eq!(ring.stats().blocks_live(), 0);
}

/// An example of a library type whose parameter is bounded by the standard trait.
struct Phantom<A: Allocator>(PhantomData<A>);

#[test]
fn both_traits_are_implemented_side_by_side() {
    fn standard<A: Allocator>(_: &Phantom<A>) {}
    fn older<A: allocator_api2::alloc::Allocator + Allocator>(_: &Phantom<A>) {}
    standard(&Phantom::<OneRingAlloc>(PhantomData));
    older(&Phantom::<OneRingAlloc>(PhantomData));
    standard(&Phantom::<RingAlloc>(PhantomData));
    older(&Phantom::<RingAlloc>(PhantomData));
}
