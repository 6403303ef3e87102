//! Tests of the end of a ring that use internals. They cover the number of loaded guards, and the
//! stores that early releases leave parked.

use alloc::vec::Vec;
use core::mem::ManuallyDrop;

use crate::geometry::region_of;
use crate::guard::{GuardPtr, LOOKS};
use crate::parked::ParkedStores;
use crate::{FixedBufMut, RingAl};

fn ring_in(parked: &'static ParkedStores) -> RingAl {
    // SAFETY: the lists are static, so they outlive the ring.
    unsafe { RingAl::builder(256).try_build_in(parked) }.unwrap()
}

/// Returns `count` buffers. Each is the only buffer of a ring that was dropped.
fn parked_buffers(parked: &'static ParkedStores, count: usize) -> Vec<FixedBufMut> {
    (0..count).map(|_| ring_in(parked).fixed(1).unwrap()).collect()
}

/// An early release in progress. It read `closed` before its ring was dropped, and has not stored
/// its word yet.
struct UnderWay {
    guard: GuardPtr,
    bytes: usize,
}

impl UnderWay {
    /// Creates a ring and a buffer whose release has read `closed`, then drops the ring.
    fn new(parked: &'static ParkedStores) -> Self {
        let mut ring = ring_in(parked);
        let guard = ring.chain.guard(0);
        let buffer = ManuallyDrop::new(ring.fixed(100).unwrap());
        Self { guard, bytes: buffer.capacity() }
    }

    fn end(self) {
        let region = region_of(self.bytes);
        // SAFETY: the ring handed out the buffer with this size and region. Only this thread
        // accesses the region.
        unsafe { self.guard.end_use(self.bytes, region) };
        self.guard.release(region);
    }
}

/// Returns the number of guard words that this thread loads while `during` runs.
fn looks(during: impl FnOnce()) -> usize {
    let before = LOOKS.get();
    during();
    LOOKS.get() - before
}

#[test]
fn store_left_by_an_early_release_is_freed_when_a_ring_is_created() {
    static PARKED: ParkedStores = ParkedStores::new();
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
fn store_left_by_an_early_release_is_freed_when_a_ring_is_dropped() {
    static PARKED: ParkedStores = ParkedStores::new();
    let parked = &PARKED;
    let _others = parked_buffers(parked, 1_000);
    let next = ring_in(parked);
    UnderWay::new(parked).end();
    drop(next);
    assert_eq!(parked.count(), 1_000);
}

#[test]
fn store_left_by_an_early_release_is_freed_when_another_store_is_freed() {
    static PARKED: ParkedStores = ParkedStores::new();
    let parked = &PARKED;
    let mut others = parked_buffers(parked, 1_000);
    UnderWay::new(parked).end();
    drop(others.pop());
    assert_eq!(parked.count(), 999);
}

/// The stores that wait for a sweep are a bounded part of the parked stores, however slow the early
/// releases are.
#[test]
fn stores_that_wait_for_a_sweep_are_a_bounded_part_of_the_parked_ones() {
    const HELD: usize = 400;
    static PARKED: ParkedStores = ParkedStores::new();
    let parked = &PARKED;
    let _held = parked_buffers(parked, HELD);
    for round in 0..4 * HELD {
        let slow = UnderWay::new(parked);
        // The sweeps that these two rings cause run before the release ends.
        drop((ring_in(parked), ring_in(parked)));
        slow.end();
        let waiting = parked.count() - HELD;
        assert!(
            waiting <= HELD / 7 + 1,
            "{waiting} of {} stores wait for a sweep in round {round}",
            parked.count()
        );
    }
    // A full round of sweeps frees the stores that still wait, regardless of the order of the
    // lists.
    for _ in 0..HELD.div_ceil(8) + 1 {
        drop(ring_in(parked));
    }
    assert_eq!(parked.count(), HELD);
}

/// The last late release does not free the store while an early release is in progress.
#[test]
fn unfinished_early_release_keeps_its_store() {
    static PARKED: ParkedStores = ParkedStores::new();
    let parked = &PARKED;
    let mut ring = ring_in(parked);
    let guard = ring.chain.guard(0);
    let early = ManuallyDrop::new(ring.fixed(20).unwrap());
    let late = ring.fixed(20).unwrap();
    drop(ring);
    drop(late);
    drop(ring_in(parked));
    assert_eq!(parked.count(), 1);
    UnderWay { guard, bytes: early.capacity() }.end();
    drop(ring_in(parked));
    assert_eq!(parked.count(), 0);
}

/// On average, the drop of a ring and a last release load only a few guards, however many stores
/// are parked.
#[test]
fn dropping_rings_with_live_buffers_takes_linear_work() {
    for count in [100, 4_000] {
        static PARKED: ParkedStores = ParkedStores::new();
        let parked = &PARKED;
        let mut buffers = Vec::new();
        let dropped = looks(|| buffers = parked_buffers(parked, count));
        assert!(dropped <= 24 * count, "{dropped} guards for {count} rings");
        let released = looks(|| buffers.clear());
        assert!(released <= 12 * count, "{released} guards for {count} buffers");
        assert_eq!(parked.count(), 0);
        assert!(parked.queued() <= 64, "{} headers of {count} freed stores", parked.queued());
    }
}

/// The last buffer frees its store even during a sweep by another thread. That thread makes up for
/// the sweeps that this thread skips, without a later call.
#[test]
fn last_buffers_free_their_stores_during_a_sweep() {
    static PARKED: ParkedStores = ParkedStores::new();
    let parked = &PARKED;
    let mut held = parked.shut(|| {
        let held = parked_buffers(parked, 20);
        UnderWay::new(parked).end();
        drop(parked_buffers(parked, 20));
        assert_eq!(parked.count(), 21);
        held
    });
    assert_eq!(parked.count(), 20, "the thread that opens the gate makes up for the skipped sweeps");
    drop(held.pop());
    assert_eq!(parked.count(), 19);
    drop(held);
    assert_eq!(parked.count(), 0);
}

/// A store of many regions is swept in parts. Each sweep continues where the previous one stopped.
#[test]
fn large_store_is_swept_in_parts() {
    const REGIONS: usize = 5_000;
    static PARKED: ParkedStores = ParkedStores::new();
    let parked = &PARKED;
    // SAFETY: the lists are static, so they outlive the ring.
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
    UnderWay { guard: last, bytes: early.capacity() }.end();
    let mut calls = 0;
    while parked.count() != 0 {
        calls += 1;
        let looks = looks(|| drop(ring_in(parked)));
        assert!(looks <= 3_000, "{looks} guards in a call");
        assert!(calls <= REGIONS / 1_024 + 1, "{calls} calls");
    }
}
