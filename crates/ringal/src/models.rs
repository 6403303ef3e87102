//! Loom models of the real rings and buffers. Each model has its own lists of parked stores.
//!
//! Loom does not see accesses to the payload, so a witness in each guard represents the payload
//! (see `guard`). The release of a buffer writes this witness. The ring writes the witness when it
//! takes the region, and ends the witness when it merges the region. Each store has three more
//! witnesses: for its header, for its regions, and for the fields that a sweep needs from the drop
//! of the ring.
//!
//! Loom reports two accesses to a witness that no edge orders. `xtask/controls.toml` lists
//! weakenings of orderings and steps, each with a test or model that must fail with it.

use alloc::sync::Arc;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use loom::thread;

use crate::geometry::{GRANULE, OVERHEAD, interval, region_of};
use crate::guard::GuardPtr;
use crate::parked::ParkedStores;
use crate::{FixedBuf, FixedBufMut, RequestError, RingAl};

/// The lists that a model's stores are parked in. The threads share them through an `Arc` of the
/// standard library, because loom's `Arc` would add edges between the threads.
#[derive(Clone)]
struct ModelStores(Arc<ParkedStores>);

// SAFETY: loom runs all threads of a model on one thread of the operating system, so these threads
// never use the lists at the same time.
unsafe impl Send for ModelStores {}

/// The length of a region for a buffer of one byte to one granule.
const UNIT: usize = GRANULE + OVERHEAD;

impl ModelStores {
    fn new() -> Self {
        Self(Arc::new(ParkedStores::new()))
    }

    /// Returns a ring with room for `units` buffers of at most one granule.
    fn ring(&self, units: usize) -> RingAl {
        let builder = RingAl::builder(units * UNIT);
        // SAFETY: every thread of a model drops its `ModelStores` after its ring and buffers.
        unsafe { builder.try_build_in(&self.0) }.unwrap()
    }

    /// Starts a thread that drops `buffers`.
    fn release<T: Send + 'static>(&self, buffers: T) -> thread::JoinHandle<()> {
        let stores = self.clone();
        thread::spawn(move || {
            drop(buffers);
            drop(stores);
        })
    }

    /// Asserts that no store is parked. Does not sweep first, so the stores must already be freed.
    fn all_is_free(&self) {
        assert_eq!(self.0.count(), 0, "a store leaked");
    }

    /// Creates another ring, and asserts that this frees any store that an early release left
    /// parked.
    fn next_ring_finds_the_rest(&self) {
        let next = self.ring(1);
        assert_eq!(self.0.count(), 0, "a store leaked");
        drop(next);
    }
}

fn unit(ring: &mut RingAl) -> FixedBufMut {
    ring.fixed(1).expect("there is room")
}

/// Asserts that all regions of the ring are free.
fn whole(ring: &mut RingAl) {
    assert_eq!(ring.stats().buffers_live, 0);
    assert!(ring.fixed(ring.capacity()).is_some(), "an empty ring serves its capacity");
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    builder.check(model);
}

/// While other threads release two regions, the ring merges regions for a large request or refuses
/// the request.
#[test]
fn loom_split_and_merge_beside_two_releases() {
    check(|| {
        let stores = ModelStores::new();
        let mut ring = stores.ring(3);
        let (one, two) = (unit(&mut ring), unit(&mut ring));
        let releases = [stores.release(one), stores.release(two)];
        // The third unit is free, so this request needs only the second unit in addition.
        let large = ring.fixed(UNIT + 1);
        let small = ring.fixed(1);
        assert!(large.is_some() || small.is_some());
        for release in releases {
            release.join().unwrap();
        }
        drop((large, small));
        whole(&mut ring);
        drop(ring);
        stores.all_is_free();
    });
}

/// The ring skips taken regions, wraps, and takes regions that other threads free during the
/// search.
#[test]
fn loom_skip_and_wrap_beside_two_releases() {
    check(|| {
        let stores = ModelStores::new();
        let mut ring = stores.ring(4);
        let (one, kept, two) = (unit(&mut ring), unit(&mut ring), unit(&mut ring));
        let releases = [stores.release(one), stores.release(two)];
        let fourth = unit(&mut ring);
        let again = [ring.fixed(1), ring.fixed(1)];
        for release in releases {
            release.join().unwrap();
        }
        assert_eq!(ring.stats().buffers_live, 2 + again.iter().flatten().count());
        drop((kept, fourth, again));
        whole(&mut ring);
    });
}

/// The ring restarts at the first region if that region is free when the ring checks `low`.
#[test]
fn loom_restart_beside_two_releases() {
    const UNITS: usize = 6;
    assert_eq!(interval(UNITS * UNIT), 2 * UNIT, "the check of `low` is due after two units");
    check(|| {
        let stores = ModelStores::new();
        let mut ring = stores.ring(UNITS);
        let (one, two) = (unit(&mut ring), unit(&mut ring));
        let first = one.as_ptr();
        let releases = [stores.release(one), stores.release(two)];
        let third = unit(&mut ring);
        let restarted = third.as_ptr() == first;
        // After a restart, the ring skips the second region while that region is taken.
        let fourth = unit(&mut ring);
        assert!(restarted || fourth.as_ptr() != first);
        for release in releases {
            release.join().unwrap();
        }
        drop((third, fourth));
        whole(&mut ring);
    });
}

/// An extendable buffer needs a region that another thread frees. The buffer grows or moves, or its
/// growth is refused.
#[test]
fn loom_growth_beside_a_release() {
    check(|| {
        let stores = ModelStores::new();
        let mut ring = stores.ring(4);
        let (one, two, kept) = (unit(&mut ring), unit(&mut ring), unit(&mut ring));
        drop((one, unit(&mut ring)));
        let release = stores.release(two);
        let mut growing = ring.extendable(1).unwrap();
        // Without the second unit, no free run is long enough.
        let grown = growing.try_reserve(GRANULE + 1).is_ok();
        let spare = growing.spare();
        assert_eq!(grown, spare > GRANULE, "grown: {grown}, to {spare} bytes");
        let buffer = growing.finalize();
        release.join().unwrap();
        drop((kept, buffer));
        whole(&mut ring);
    });
}

/// After a release changes one of the guards of a remembered refusal, the ring searches again.
#[test]
fn loom_refusal_beside_two_releases() {
    check(|| {
        let stores = ModelStores::new();
        let mut ring = stores.ring(2);
        let all = ring.capacity();
        let (one, two) = (unit(&mut ring), unit(&mut ring));
        assert!(ring.fixed(all).is_none());
        let releases = [stores.release(one), stores.release(two)];
        drop(ring.fixed(all));
        for release in releases {
            release.join().unwrap();
        }
        assert!(ring.fixed(all).is_some(), "a stale refusal was used");
    });
}

/// A refusal always reports less room than requested. If a release after the search makes room, the
/// ring serves the request instead.
#[test]
fn loom_refused_request_reports_less_room_than_requested() {
    check(|| {
        let stores = ModelStores::new();
        let mut ring = stores.ring(2);
        let all = ring.capacity();
        let (one, two) = (unit(&mut ring), unit(&mut ring));
        let releases = [stores.release(one), stores.release(two)];
        for asked in [all, 1] {
            match ring.try_fixed(asked) {
                Ok(buffer) => drop(buffer),
                Err(RequestError::Exhausted { largest_free, .. }) => assert!(largest_free < asked),
                Err(refused) => panic!("{refused}"),
            }
        }
        for release in releases {
            release.join().unwrap();
        }
        whole(&mut ring);
    });
}

/// Three threads clone and drop handles. The ring takes the region again after the last handle is
/// dropped.
#[test]
fn loom_frozen_handles_are_dropped_by_three_threads() {
    check(|| {
        let stores = ModelStores::new();
        let mut ring = stores.ring(1);
        let buffer = unit(&mut ring).freeze();
        let use_it = |buffer: FixedBuf| {
            let stores = stores.clone();
            thread::spawn(move || {
                drop(buffer.clone());
                drop(buffer);
                drop(stores);
            })
        };
        let users = [use_it(buffer.clone()), use_it(buffer.clone())];
        drop(buffer);
        drop(ring.fixed(1));
        for user in users {
            user.join().unwrap();
        }
        whole(&mut ring);
    });
}

/// Only the last handle makes the buffer writable. No other handle uses the buffer after that.
#[test]
fn loom_frozen_buffer_becomes_writable_for_its_last_handle() {
    check(|| {
        let stores = ModelStores::new();
        let mut ring = stores.ring(1);
        let buffer = unit(&mut ring).freeze();
        let release = stores.release(buffer.clone());
        match buffer.try_mut() {
            Ok(buffer) => drop(buffer),
            Err(buffer) => drop(buffer),
        }
        release.join().unwrap();
        whole(&mut ring);
    });
}

/// The ring is dropped while two threads release buffers. The store is freed once, and no thread
/// accesses the store after that.
#[test]
fn loom_ring_is_dropped_beside_two_releases() {
    check(|| {
        let stores = ModelStores::new();
        let mut ring = stores.ring(2);
        let (one, two) = (unit(&mut ring), unit(&mut ring).freeze());
        let releases = [stores.release(one), stores.release(two)];
        drop(ring);
        for release in releases {
            release.join().unwrap();
        }
        stores.next_ring_finds_the_rest();
    });
}

/// Each of two threads drops a ring, and then a buffer of the other thread's ring.
#[test]
fn loom_two_rings_are_dropped_at_once() {
    check(|| {
        let stores = ModelStores::new();
        let (mut mine, mut yours) = (stores.ring(1), stores.ring(1));
        let (here, there) = (unit(&mut yours), unit(&mut mine));
        let other = stores.release((yours, there));
        drop(mine);
        drop(here);
        other.join().unwrap();
        stores.next_ring_finds_the_rest();
    });
}

/// Two threads drop the last two buffers of a store while a third thread sweeps. One of the three
/// threads frees the store, without another sweep.
#[test]
fn loom_two_last_buffers_free_their_store_beside_a_sweep() {
    check(|| {
        let stores = ModelStores::new();
        let mut ring = stores.ring(2);
        let (one, two) = (unit(&mut ring), unit(&mut ring));
        drop(ring);
        let releases = [stores.release(one), stores.release(two)];
        stores.0.sweep();
        for release in releases {
            release.join().unwrap();
        }
        stores.all_is_free();
    });
}

/// An early release ends, and its thread then sweeps, but may find that another thread has shut the
/// gate. One of the two threads frees the store, without a later call.
#[test]
fn loom_skipped_sweep_is_made_up_for() {
    check(|| {
        let stores = ModelStores::new();
        let mut ring = stores.ring(1);
        let buffer = ManuallyDrop::new(unit(&mut ring));
        drop(ring);
        let first = stores.clone();
        let first = thread::spawn(move || first.0.sweep());
        let data = NonNull::new(buffer.as_ptr().cast_mut()).expect("a buffer has an address");
        // SAFETY: the buffer starts right after the guard of its region, which is not released yet.
        let guard = unsafe { GuardPtr::of(data) };
        let (bytes, region) = (buffer.capacity(), region_of(buffer.capacity()));
        // SAFETY: the ring handed out the buffer with this size and region. Only this thread
        // accesses the region.
        unsafe { guard.end_use(bytes, region) };
        guard.release(region);
        stores.0.sweep();
        first.join().unwrap();
        stores.all_is_free();
    });
}
