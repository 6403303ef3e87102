//! Tests that count the work that threads do for each other: searches before a refusal, and drains
//! of records without a holder.
#![expect(unreachable_pub, reason = "the methods of an allocator that the macro declares are public")]

use core::alloc::Layout;
use core::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::thread;
use std_alloc::collections::BTreeSet;
use std_alloc::vec::Vec;

use allocator_api2::boxed::Box;
use ephemera_testkit::SplitMix;
// The tests run one at a time, because a thread of one test may hold the record that has the heaps
// of another test.
use ephemera_testkit::suite::take_turn;

use super::Family;
use super::table::Heaps;
use crate::geometry::GROUP;
use crate::pooled_allocator;

const SMALL: Layout = Layout::new::<[u8; 32]>();
const LARGE: Layout = Layout::new::<[u8; 60_000]>();
/// A block of 1 KiB. A unit of its class has 64 KiB and room for 63 such blocks.
type Medium = [u8; 1_024];

fn looks(family: &Family) -> usize {
    family.looks.load(Ordering::Relaxed)
}

#[test]
fn a_refusal_is_not_followed_by_a_second_search_while_nothing_changes() {
    take_turn();
    pooled_allocator! {
        struct Limited;
    }
    let family = Limited::__family();
    Limited.set_limit(1_000);
    for _ in 0..if cfg!(miri) { 5 } else { 50 } {
        assert!(Limited.allocate(LARGE).is_err());
        assert!(Limited.allocate(Layout::new::<Medium>()).is_err());
    }
    assert_eq!(looks(family), 1);
    let block = Limited.allocate(SMALL).expect("16 slots of 32 bytes fit").cast();
    Limited.set_limit(Limited.stats().bytes_held);
    let refused = Limited.allocate(Layout::new::<[u8; 64]>());
    assert!(refused.is_err());
    // SAFETY: the block was just allocated with this layout.
    unsafe { Limited.deallocate(block, SMALL) };
    let served = Limited.allocate(Layout::new::<[u8; 64]>());
    assert!(served.is_ok(), "the unit of the other class is empty");
    assert_eq!(looks(family), 3, "one search for the new limit, one for the unit that was kept");
    // SAFETY: the block was just allocated with this layout.
    unsafe { Limited.deallocate(served.expect("checked above").cast(), Layout::new::<[u8; 64]>()) };
    Limited.trim();
    assert_eq!(Limited.stats().bytes_held, 0);
}

#[test]
fn an_empty_unit_kept_by_another_thread_allows_another_search() {
    take_turn();
    pooled_allocator! {
        struct Limited;
    }
    let family = Limited::__family();
    let (go, turns) = channel::<()>();
    let (done, ready) = channel::<()>();
    let other = thread::spawn(move || {
        let mut held: Vec<_> = (0..200).map(|_| Box::new_in([1_u8; 1_024], Limited)).collect();
        done.send(()).expect("the test waits");
        turns.recv().expect("the test asks");
        // Two units other than the front become empty, and the heap keeps them.
        held.drain(..140);
        done.send(()).expect("the test waits");
        turns.recv().expect("the test asks");
        drop(held);
    });
    ready.recv().expect("the other thread");
    Limited.set_limit(Limited.stats().bytes_held);
    let refused = |times| (0..times).for_each(|_| assert!(Limited.allocate(LARGE).is_err()));
    refused(10);
    assert_eq!(looks(family), 1);
    go.send(()).expect("the other thread waits");
    ready.recv().expect("the other thread");
    refused(10);
    assert_eq!(looks(family), 2, "one search for the units that were kept since");
    go.send(()).expect("the other thread waits");
    other.join().expect("no panic");
    // The other thread freed all its units when it ended.
    let block = Limited.allocate(LARGE).expect("room").cast();
    // SAFETY: the block was just allocated with this layout.
    unsafe { Limited.deallocate(block, LARGE) };
    assert_eq!(Limited.stats().bytes_held, 0);
}

// A 32-bit target may have memory for the largest layout, and Miri serves even that layout.
#[cfg(all(target_pointer_width = "64", not(miri)))]
#[test]
fn a_refusal_without_a_limit_is_not_remembered() {
    take_turn();
    pooled_allocator! {
        struct Unlimited;
    }
    let family = Unlimited::__family();
    // The layout is larger than any address space.
    let impossible = Layout::from_size_align(isize::MAX as usize - 4_095, 1).expect("a layout");
    for _ in 0..3 {
        assert!(Unlimited.allocate(impossible).is_err());
    }
    assert_eq!(looks(family), 3);
}

/// Returns the number of times that a remote free to a record without a holder drained one of the
/// family's heaps.
fn drains(family: &'static Family) -> usize {
    let tables = family.registry().records().filter_map(|record| Heaps::find(record, family));
    tables.flat_map(Heaps::used).map(|heap| heap.drains.get()).sum()
}

/// The number of words in a block. Under Miri, a unit has 63 slots for such blocks, because the
/// tests make few blocks.
const WORDS: usize = if cfg!(miri) { 64 } else { 4 };

#[test]
fn frees_after_thread_exit_lease_the_record_twice_for_each_group() {
    take_turn();
    pooled_allocator! {
        struct Blocks;
    }
    let count = if cfg!(miri) { 200 } else { 10_000 };
    let left = thread::spawn(move || -> Vec<_> {
        (0..count).map(|number| Box::new_in([number; WORDS], Blocks)).collect()
    });
    let mut left = left.join().expect("no panic");
    let groups = Blocks.stats().slots.div_ceil(GROUP) + Blocks.stats().units;
    let mut random = SplitMix::new(1);
    while !left.is_empty() {
        drop(left.swap_remove(random.below(left.len())));
        if left.len() % 97 == 0 {
            assert_eq!(Blocks.stats().slots_live, left.len());
        }
    }
    assert!(drains(Blocks::__family()) <= 2 * groups, "{} for {groups} groups", drains(Blocks::__family()));
    assert_eq!(Blocks.stats().bytes_held, 0, "the last free freed the last unit");
}

/// A thread that takes over an ended thread's record reuses freed slots while other groups count
/// down.
#[test]
fn slots_of_ended_threads_are_reused_while_others_are_freed() {
    take_turn();
    pooled_allocator! {
        struct Blocks;
    }
    let count = if cfg!(miri) { 100 } else { 3_000 };
    let mut held: Vec<Box<[usize; WORDS], Blocks>> = Vec::new();
    for round in 0..if cfg!(miri) { 2 } else { 20 } {
        // The threads that allocated these blocks have ended. This thread frees half of the blocks.
        let mut keep = false;
        held.retain(|_| {
            keep = !keep;
            keep
        });
        let missing = count - held.len();
        let more = thread::spawn(move || -> Vec<_> {
            (0..missing).map(|number| Box::new_in([round * count + number; WORDS], Blocks)).collect()
        });
        held.extend(more.join().expect("no panic"));
        let stats = Blocks.stats();
        assert_eq!(stats.slots_live, held.len(), "{stats:?}");
        assert!(stats.slots <= 3 * count, "freed slots are not reused: {stats:?}");
        let all: BTreeSet<_> = held.iter().map(|block| (&raw const **block).addr()).collect();
        assert_eq!(all.len(), held.len(), "a live slot was handed out");
        assert!(held.iter().all(|block| block.iter().all(|word| *word == block[0])));
    }
    drop(held);
    assert_eq!(Blocks.stats().bytes_held, 0);
}
