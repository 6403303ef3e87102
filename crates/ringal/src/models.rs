//! Loom models over the real rings and buffers, with lists of parked stores of their own.
//!
//! Loom does not see the payload. Each guard has a witness that stands for it (see `guard`); each
//! store has one for its header, one for its regions, and one for what the drop of the ring leaves
//! for looks. Holders write a guard's witness before they release, the ring when it takes or
//! merges, and loom reports two accesses that no edge separates. The crate's table of controls
//! names the ordering or step without which each model fails.

use alloc::sync::Arc;

use loom::thread;

use crate::geometry::{GRANULE, OVERHEAD, stride};
use crate::parked::Parked;
use crate::{FixedBuf, FixedBufMut, RingAl};

/// Where a model's stores are parked: an `Arc` of the standard library, since loom's would order
/// the threads.
#[derive(Clone)]
struct Place(Arc<Parked>);

// SAFETY: loom runs all threads of a model on one thread of the system.
unsafe impl Send for Place {}

/// Bytes of a region with a buffer of one granule or less.
const UNIT: usize = GRANULE + OVERHEAD;

impl Place {
    fn new() -> Self {
        Self(Arc::new(Parked::new()))
    }

    /// A ring with room for so many units.
    fn ring(&self, units: usize) -> RingAl {
        let builder = RingAl::builder(units * UNIT);
        // SAFETY: every thread of a model has the place for longer than its buffers.
        unsafe { builder.try_build_in(&self.0) }.unwrap()
    }

    /// Another thread, which has these buffers and gives them back.
    fn release<T: Send + 'static>(&self, buffers: T) -> thread::JoinHandle<()> {
        let place = self.clone();
        thread::spawn(move || {
            drop(buffers);
            drop(place);
        })
    }

    /// Nothing is parked, though nobody has looked.
    fn all_is_free(&self) {
        assert_eq!(self.0.count(), 0, "a store was lost");
    }

    /// A ring was dropped beside a release, which no count may have: the next ring that is made
    /// finds it.
    fn next_ring_finds_the_rest(&self) {
        let next = self.ring(1);
        assert_eq!(self.0.count(), 0, "a store was lost");
        drop(next);
    }
}

fn unit(ring: &mut RingAl) -> FixedBufMut {
    ring.fixed(1).expect("there is room")
}

/// The whole ring is free.
fn whole(ring: &mut RingAl) {
    assert_eq!(ring.stats().held, 0);
    assert!(ring.fixed(ring.capacity()).is_some(), "an empty ring serves its capacity");
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    builder.check(model);
}

/// Merges the two regions as they come home, or refuses.
#[test]
fn loom_split_and_merge_beside_two_releases() {
    check(|| {
        let place = Place::new();
        let mut ring = place.ring(3);
        let (one, two) = (unit(&mut ring), unit(&mut ring));
        let releases = [place.release(one), place.release(two)];
        // The third unit is free, so the one before it is enough.
        let large = ring.fixed(UNIT + 1);
        let small = ring.fixed(1);
        assert!(large.is_some() || small.is_some());
        for release in releases {
            release.join().unwrap();
        }
        drop((large, small));
        whole(&mut ring);
        drop(ring);
        place.all_is_free();
    });
}

/// Skips what is taken, wraps, and takes what came home meanwhile.
#[test]
fn loom_skip_and_wrap_beside_two_releases() {
    check(|| {
        let place = Place::new();
        let mut ring = place.ring(4);
        let (one, kept, two) = (unit(&mut ring), unit(&mut ring), unit(&mut ring));
        let releases = [place.release(one), place.release(two)];
        let fourth = unit(&mut ring);
        let again = [ring.fixed(1), ring.fixed(1)];
        for release in releases {
            release.join().unwrap();
        }
        assert_eq!(ring.stats().held, 2 + again.iter().flatten().count());
        drop((kept, fourth, again));
        whole(&mut ring);
    });
}

/// Restarts at the first region if it came home before the look back.
#[test]
fn loom_restart_beside_two_releases() {
    const UNITS: usize = 6;
    const _: () = assert!(stride(UNITS * UNIT) == 2 * UNIT, "a look back after two units");
    check(|| {
        let place = Place::new();
        let mut ring = place.ring(UNITS);
        let (one, two) = (unit(&mut ring), unit(&mut ring));
        let first = one.as_ptr();
        let releases = [place.release(one), place.release(two)];
        let third = unit(&mut ring);
        let restarted = third.as_ptr() == first;
        // After a restart, the region behind the first is skipped as long as it is taken.
        let fourth = unit(&mut ring);
        assert!(restarted || fourth.as_ptr() != first);
        for release in releases {
            release.join().unwrap();
        }
        drop((third, fourth));
        whole(&mut ring);
    });
}

/// An extendable buffer grows over what came home behind it, or moves.
#[test]
fn loom_growth_beside_a_release() {
    check(|| {
        let place = Place::new();
        let mut ring = place.ring(4);
        let (one, two, kept) = (unit(&mut ring), unit(&mut ring), unit(&mut ring));
        drop((one, unit(&mut ring)));
        let release = place.release(two);
        let mut growing = ring.extendable(1).unwrap();
        // The fourth unit is free in any case, but does not suffice.
        let grown = growing.try_reserve(GRANULE + 1).is_ok();
        let spare = growing.spare();
        assert_eq!(grown, spare > GRANULE, "grown: {grown}, to {spare} bytes");
        let buffer = growing.finalize();
        release.join().unwrap();
        drop((kept, buffer));
        whole(&mut ring);
    });
}

/// A refusal that is remembered does not outlive what it remembers.
#[test]
fn loom_refusal_beside_two_releases() {
    check(|| {
        let place = Place::new();
        let mut ring = place.ring(2);
        let all = ring.capacity();
        let (one, two) = (unit(&mut ring), unit(&mut ring));
        assert!(ring.fixed(all).is_none());
        let releases = [place.release(one), place.release(two)];
        drop(ring.fixed(all));
        for release in releases {
            release.join().unwrap();
        }
        assert!(ring.fixed(all).is_some(), "refused for what is not so any more");
    });
}

/// Handles are cloned and dropped on three threads, and the ring takes the buffer when the last is
/// gone.
#[test]
fn loom_frozen_handles_are_dropped_by_three() {
    check(|| {
        let place = Place::new();
        let mut ring = place.ring(1);
        let buffer = unit(&mut ring).freeze();
        let use_it = |buffer: FixedBuf| {
            let place = place.clone();
            thread::spawn(move || {
                drop(buffer.clone());
                drop(buffer);
                drop(place);
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

/// The handle that finds itself the only one writes; the others are done with the buffer.
#[test]
fn loom_frozen_buffers_are_thawed_by_the_last() {
    check(|| {
        let place = Place::new();
        let mut ring = place.ring(1);
        let buffer = unit(&mut ring).freeze();
        let release = place.release(buffer.clone());
        match buffer.try_mut() {
            Ok(buffer) => drop(buffer),
            Err(buffer) => drop(buffer),
        }
        release.join().unwrap();
        whole(&mut ring);
    });
}

/// The ring is dropped while two threads release: the store is freed once, and not touched after
/// that.
#[test]
fn loom_ring_is_dropped_beside_two_releases() {
    check(|| {
        let place = Place::new();
        let mut ring = place.ring(2);
        let (one, two) = (unit(&mut ring), unit(&mut ring).freeze());
        let releases = [place.release(one), place.release(two)];
        drop(ring);
        for release in releases {
            release.join().unwrap();
        }
        place.next_ring_finds_the_rest();
    });
}

/// Two rings are dropped at once, each with a buffer that the other thread has.
#[test]
fn loom_two_rings_are_dropped_at_once() {
    check(|| {
        let place = Place::new();
        let (mut mine, mut yours) = (place.ring(1), place.ring(1));
        let (here, there) = (unit(&mut yours), unit(&mut mine));
        let other = place.release((yours, there));
        drop(mine);
        drop(here);
        other.join().unwrap();
        place.next_ring_finds_the_rest();
    });
}

/// The two last buffers of a store are given back at once, while a third thread looks: one of the
/// three frees the store. Nobody looks after that.
#[test]
fn loom_two_last_buffers_free_their_store_beside_a_look() {
    check(|| {
        let place = Place::new();
        let mut ring = place.ring(2);
        let (one, two) = (unit(&mut ring), unit(&mut ring));
        drop(ring);
        let releases = [place.release(one), place.release(two)];
        place.0.look();
        for release in releases {
            release.join().unwrap();
        }
        place.all_is_free();
    });
}
