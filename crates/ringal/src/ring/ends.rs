//! What the end of a ring costs and leaves, from inside: stores that a release just missed, and
//! guards that are looked at.

use alloc::vec::Vec;
use core::mem::ManuallyDrop;

use super::RingAl;
use crate::FixedBufMut;
use crate::geometry::region_of;
use crate::guard::{GuardPtr, LOOKS};
use crate::parked::Parked;

fn ring_in(parked: &'static Parked) -> RingAl {
    // SAFETY: the lists are static.
    unsafe { RingAl::builder(256).try_build_in(parked) }.unwrap()
}

/// Rings that are dropped with one buffer in use.
fn parked_buffers(parked: &'static Parked, count: usize) -> Vec<FixedBufMut> {
    (0..count).map(|_| ring_in(parked).fixed(1).unwrap()).collect()
}

/// A release that read `closed` before the drop of its ring, and has not stored its word yet.
struct UnderWay {
    guard: GuardPtr,
    region: usize,
}

impl UnderWay {
    /// The ring is dropped beside it.
    fn new(parked: &'static Parked) -> Self {
        let mut ring = ring_in(parked);
        let guard = ring.chain.guard(0);
        let buffer = ManuallyDrop::new(ring.fixed(100).unwrap());
        Self { guard, region: region_of(buffer.capacity()) }
    }

    fn end(self) {
        self.guard.end_use();
        self.guard.release(self.region);
    }
}

/// Guards that this thread looks at.
fn looks(during: impl FnOnce()) -> usize {
    let before = LOOKS.get();
    during();
    LOOKS.get() - before
}

#[test]
fn a_store_that_its_last_release_missed_goes_when_the_next_ring_is_made() {
    static PARKED: Parked = Parked::new();
    let parked = &PARKED;
    let _others = parked_buffers(parked, 1_000);
    let release = UnderWay::new(parked);
    release.end();
    assert_eq!(parked.count(), 1_001);
    let next = ring_in(parked);
    assert_eq!(parked.count(), 1_000);
    drop(next);
}

#[test]
fn a_store_that_its_last_release_missed_goes_when_the_next_ring_is_dropped() {
    static PARKED: Parked = Parked::new();
    let parked = &PARKED;
    let _others = parked_buffers(parked, 1_000);
    let next = ring_in(parked);
    UnderWay::new(parked).end();
    drop(next);
    assert_eq!(parked.count(), 1_000);
}

#[test]
fn a_store_that_its_last_release_missed_goes_when_another_store_is_freed() {
    static PARKED: Parked = Parked::new();
    let parked = &PARKED;
    let mut others = parked_buffers(parked, 1_000);
    UnderWay::new(parked).end();
    drop(others.pop());
    assert_eq!(parked.count(), 999);
}

/// However slow the releases are that miss: what waits is a bounded part of what is held.
#[test]
fn stores_that_wait_are_a_bounded_part_of_those_that_are_held() {
    const HELD: usize = 400;
    static PARKED: Parked = Parked::new();
    let parked = &PARKED;
    let _held = parked_buffers(parked, HELD);
    for round in 0..4 * HELD {
        let slow = UnderWay::new(parked);
        // All looks of these come too early.
        drop((ring_in(parked), ring_in(parked)));
        slow.end();
        let waiting = parked.count() - HELD;
        assert!(waiting <= HELD / 7 + 1, "{waiting} of {} stores wait in round {round}", parked.count());
    }
    // Whatever order they are in, a turn over all of them finds the rest.
    for _ in 0..HELD.div_ceil(8) + 1 {
        drop(ring_in(parked));
    }
    assert_eq!(parked.count(), HELD);
}

/// The last late release of a store does not free it while an early one has not ended.
#[test]
fn a_release_under_way_keeps_its_store() {
    static PARKED: Parked = Parked::new();
    let parked = &PARKED;
    let mut ring = ring_in(parked);
    let guard = ring.chain.guard(0);
    let early = ManuallyDrop::new(ring.fixed(20).unwrap());
    let late = ring.fixed(20).unwrap();
    drop(ring);
    drop(late);
    drop(ring_in(parked));
    assert_eq!(parked.count(), 1);
    UnderWay { guard, region: region_of(early.capacity()) }.end();
    drop(ring_in(parked));
    assert_eq!(parked.count(), 0);
}

/// Each drop of a ring, and each last release, looks at a few guards, however many stores are
/// parked.
#[test]
fn the_work_of_dropping_rings_with_buffers_in_use_is_linear() {
    for count in [100, 4_000] {
        static PARKED: Parked = Parked::new();
        let parked = &PARKED;
        let mut buffers = Vec::new();
        let dropped = looks(|| buffers = parked_buffers(parked, count));
        assert!(dropped <= 24 * count, "{dropped} guards for {count} rings");
        let released = looks(|| buffers.clear());
        assert!(released <= 12 * count, "{released} guards for {count} buffers");
        assert_eq!(parked.count(), 0);
        assert!(parked.queued() <= 64, "{} headers of {count} stores that are gone", parked.queued());
    }
}

/// The last buffer frees its store though another thread is looking at parked stores. The looks
/// that this thread leaves out are made up for.
#[test]
fn last_buffers_free_their_stores_beside_a_look() {
    static PARKED: Parked = Parked::new();
    let parked = &PARKED;
    let mut held = parked.shut(|| {
        let held = parked_buffers(parked, 20);
        UnderWay::new(parked).end();
        drop(parked_buffers(parked, 20));
        assert_eq!(parked.count(), 21);
        held
    });
    drop(held.pop());
    assert_eq!(parked.count(), 19, "this look is worth sixteen");
    drop(held);
    assert_eq!(parked.count(), 0);
}

/// A store of many regions is looked at in parts, and the next call goes on where the last one
/// stopped.
#[test]
fn a_large_store_is_looked_at_in_parts() {
    const REGIONS: usize = 5_000;
    static PARKED: Parked = Parked::new();
    let parked = &PARKED;
    // SAFETY: the lists are static.
    let mut ring = unsafe { RingAl::builder(REGIONS * region_of(1)).try_build_in(parked) }.unwrap();
    let guard = ring.chain.guard(0);
    let first = ring.fixed(1).unwrap();
    let others: Vec<_> = (1..REGIONS - 1).map(|_| ring.fixed(1).unwrap()).collect();
    let last = ring.chain.guard(ring.chain.head);
    let early = ManuallyDrop::new(ring.fixed(1).unwrap());
    assert!(ring.fixed(0).is_none());
    drop(ring);
    drop(others);
    let most = looks(|| drop(first));
    assert!(most <= 10 && guard != last, "{most} guards");
    UnderWay { guard: last, region: region_of(early.capacity()) }.end();
    let mut calls = 0;
    while parked.count() != 0 {
        calls += 1;
        let looks = looks(|| drop(ring_in(parked)));
        assert!(looks <= 3_000, "{looks} guards in a call");
        assert!(calls <= REGIONS / 1_024 + 1, "{calls} calls");
    }
}
