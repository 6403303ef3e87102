//! Tests of standard containers over pooled allocators, through the standard `Allocator` trait and
//! without a feature gate.
//!
//! The tests need a compiler with a stable `Allocator` trait (1.100 or later) and `RUSTFLAGS="--cfg
//! ephemera_std_tests"`.
#![cfg(ephemera_std_tests)]
#![expect(clippy::incompatible_msrv, reason = "the cfg is set for compilers that have the trait")]

use core::marker::PhantomData;
use core::ptr;
use std::alloc::Allocator;

use typed_pool::{PooledAllocator, pooled_allocator};

/// Stands for a container of another crate that knows only the standard trait.
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
fn conc_a_vector_grows_on_another_thread() {
    pooled_allocator! {
        struct Own;
    }
    let mut numbers = Vec::new_in(Own);
    numbers.extend(0..1_000_u64);
    numbers.retain(|number| number % 2 == 0);
    numbers.shrink_to_fit();
    assert_eq!(numbers.iter().sum::<u64>(), 249_500);
    let numbers = std::thread::spawn(move || {
        let mut numbers = numbers;
        numbers.reserve_exact(2_000);
        numbers.push(1);
        numbers
    });
    assert_eq!(numbers.join().expect("the thread does not panic").len(), 501);
    Own.trim_all();
    assert_eq!(Own.stats().live(), 0);
}

#[test]
fn types_generic_over_the_standard_trait_accept_the_pools() {
    pooled_allocator! {
        struct Own;
    }
    grow_a_tree(PooledAllocator);
    grow_a_tree(&PooledAllocator);
    grow_a_tree(Own);
    grow_a_tree(std::alloc::Global);
    assert_eq!(Own.stats().live(), 0);
}

#[test]
fn conc_a_box_is_freed_while_another_box_in_its_unit_is_borrowed() {
    pooled_allocator! {
        struct Own;
    }
    let mut first = Box::new_in(1_u64, Own);
    let mut second = Box::new_in(2_u64, Own);
    let (one, two) = (&mut *first, &mut *second);
    core::mem::swap(one, two);
    *one += 10;
    *two += 20;
    // One box is freed while the other one is borrowed mutably.
    let borrowed = &mut *first;
    drop(second);
    *borrowed += 100;
    let third = Box::new_in(3_u64, Own);
    assert_eq!((*first, *third, Own.stats().units), (112, 3, 1));
    let borrowed = &mut *first;
    std::thread::spawn(move || drop(third)).join().expect("the thread does not panic");
    *borrowed += 1;
    Own.trim();
    assert_eq!(*first, 113);
}

/// A callee that frees a box passed by value writes a link into the box's slot. The aliasing rules
/// must allow this write.
#[test]
fn boxes_passed_by_value_are_freed_in_the_callee() {
    fn freed<T: Copy + Into<u64>, A: Allocator>(mut boxed: Box<[T; 3], A>) -> u64 {
        boxed[0] = boxed[2];
        let sum = boxed.iter().map(|&number| number.into()).sum();
        drop(boxed);
        sum
    }

    fn kept<T, A: Allocator>(boxed: Box<[T; 3], A>) -> Box<[T; 3], A> {
        boxed
    }

    let stays = Box::new_in([1_u32, 2, 3], PooledAllocator);
    assert_eq!(freed(kept(Box::new_in([1_u32, 1, 1], PooledAllocator))), 3);
    assert_eq!(freed(kept(Box::new_in([1_u64, 1, 1], PooledAllocator))), 3);
    assert_eq!(freed(kept(stays)), 8);
    // Three bytes are less than a link.
    let neighbour = Box::new_in([9_u8; 3], PooledAllocator);
    assert_eq!(freed(kept(Box::new_in([1_u8, 1, 1], PooledAllocator))), 3);
    // A larger value of the same class takes the same slot.
    let larger = Box::new_in([7_u8; 8], PooledAllocator);
    assert_eq!((larger[7], neighbour[2]), (7, 9));
}

#[test]
fn leaked_boxes_can_be_reclaimed() {
    pooled_allocator! {
        struct Own;
    }
    let leaked: &mut [u8; 3] = Box::leak(Box::new_in([1, 2, 3], Own));
    let neighbour = Box::new_in(9_u8, Own);
    leaked[1] = 7;
    // SAFETY: the value is leaked from a box of this allocator and not used otherwise.
    let mut back = unsafe { Box::from_raw_in(ptr::from_mut(leaked), Own) };
    back[2] += *neighbour;
    assert_eq!(*back, [1, 7, 12]);
    let (raw, alloc) = Box::into_raw_with_allocator(back);
    // SAFETY: the pointer came from a box whose value is live, and nothing else uses the value.
    unsafe { (*raw)[0] = 4 };
    drop(neighbour);
    // SAFETY: the value was just taken out of a box of this allocator.
    drop(unsafe { Box::from_raw_in(raw, alloc) });
    assert_eq!(Own.stats().live(), 0);
}

/// A type whose parameter has the standard trait as its bound.
struct Phantom<A: Allocator>(PhantomData<A>);

#[test]
fn both_traits_are_implemented_side_by_side() {
    fn standard<A: Allocator>(_: &Phantom<A>) {}
    fn older<A: allocator_api2::alloc::Allocator + Allocator>(_: &Phantom<A>) {}
    standard(&Phantom::<PooledAllocator>(PhantomData));
    older(&Phantom::<PooledAllocator>(PhantomData));
}
