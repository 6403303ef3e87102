//! Refusals at a limit that threads share, counted in looks beyond the thread's own table.
#![expect(unreachable_pub, reason = "the methods of an allocator that the macro declares are public")]

use core::alloc::Layout;
use core::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::thread;
use std_alloc::vec::Vec;

use allocator_api2::boxed::Box;

use super::Family;
use crate::pooled_allocator;

const SMALL: Layout = Layout::new::<[u8; 32]>();
const LARGE: Layout = Layout::new::<[u8; 60_000]>();
/// 63 to a unit of 64 KiB.
type Medium = [u8; 1_024];

fn looks(family: &Family) -> usize {
    family.looks.load(Ordering::Relaxed)
}

#[test]
fn a_refusal_is_not_followed_by_a_second_look_while_nothing_changes() {
    pooled_allocator! {
        struct Limited;
    }
    let family = Limited::__family();
    Limited.set_limit(1_000);
    for _ in 0..50 {
        assert!(Limited.allocate(LARGE).is_err());
        assert!(Limited.allocate(Layout::new::<Medium>()).is_err());
    }
    assert_eq!(looks(family), 1);
    let block = Limited.allocate(SMALL).expect("16 slots of 32 bytes fit").cast();
    Limited.set_limit(Limited.stats().bytes_held);
    let refused = Limited.allocate(Layout::new::<[u8; 64]>());
    assert!(refused.is_err());
    // SAFETY: just allocated, with this layout.
    unsafe { Limited.deallocate(block, SMALL) };
    let served = Limited.allocate(Layout::new::<[u8; 64]>());
    assert!(served.is_ok(), "the unit of the other class is empty");
    assert_eq!(looks(family), 3, "one look for the new limit, one for the unit that was kept");
    // SAFETY: as above.
    unsafe { Limited.deallocate(served.expect("looked at above").cast(), Layout::new::<[u8; 64]>()) };
    Limited.trim();
    assert_eq!(Limited.stats().bytes_held, 0);
}

#[test]
fn another_thread_that_keeps_an_empty_unit_is_worth_another_look() {
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
        // Two units that are not the front run empty, and are kept.
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
    assert_eq!(looks(family), 2, "one look for the units that were kept since");
    go.send(()).expect("the other thread waits");
    other.join().expect("no panic");
    // The other thread's end gave all back.
    let block = Limited.allocate(LARGE).expect("room").cast();
    // SAFETY: just allocated, with this layout.
    unsafe { Limited.deallocate(block, LARGE) };
    assert_eq!(Limited.stats().bytes_held, 0);
}

#[test]
fn a_refusal_without_a_limit_is_not_remembered() {
    pooled_allocator! {
        struct Unlimited;
    }
    let family = Unlimited::__family();
    // More than any address space.
    let impossible = Layout::from_size_align(isize::MAX as usize - 4_095, 1).expect("a layout");
    for _ in 0..3 {
        assert!(Unlimited.allocate(impossible).is_err());
    }
    assert_eq!(looks(family), 3);
}
