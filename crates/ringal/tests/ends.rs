//! Tests of the end of rings and buffers: no call blocks, every buffer stays valid, and all memory
//! is freed.
#![cfg(feature = "std")]

extern crate alloc;

use alloc::sync::Arc;
use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::io::Write;
use std::panic::catch_unwind;
use std::thread;

use ephemera_testkit::backing::CountingGlobal;
use ephemera_testkit::suite::take_turn;
use ringal::{FixedBuf, GenericBufMut, RingAl, ringal};

/// The alignment of the stores that `ring` creates, in bytes. No other block has this alignment, so
/// the alignment identifies these stores.
const STORE: usize = 1 << 13;

/// The size of a store's header in bytes. The header is a separate block.
const HEADER: usize = 64;

#[global_allocator]
static GLOBAL: CountingGlobal = CountingGlobal::new(STORE);

fn ring(bytes: usize) -> RingAl {
    RingAl::builder(bytes).align(STORE).build()
}

/// Returns the number of allocated stores that `ring` created. Does not sweep first.
fn stores() -> usize {
    GLOBAL.aligned().blocks
}

#[test]
fn ring_without_live_buffers_is_freed_at_once() {
    take_turn();
    let mut ring = ring(1 << 10);
    drop(ring.fixed(100));
    drop(ring.extendable(100));
    assert_eq!(GLOBAL.aligned().blocks, 1);
    assert_eq!(ring.stats().bytes_held, GLOBAL.aligned().bytes + HEADER);
    drop(ring);
    assert_eq!((stores(), RingAl::parked()), (0, 0));
}

#[test]
fn buffers_outlive_their_ring_and_free_it() {
    take_turn();
    let mut ring = ring(1 << 10);
    let mut written = ring.fixed(100).unwrap();
    let frozen = ring.fixed(10).unwrap().freeze();
    let mut names = ring.generic::<String>(2).unwrap();
    drop(ring);
    assert_eq!((stores(), RingAl::parked()), (1, 1));
    written.write_all(b"after the ring").unwrap();
    assert_eq!(names.push("name".to_owned()), None);
    let copy = frozen.clone();
    drop(frozen);
    drop(names);
    assert_eq!(&written[..], b"after the ring");
    drop(written);
    assert_eq!(stores(), 1);
    // The last release frees the store, without any further call.
    drop(copy);
    assert_eq!((stores(), RingAl::parked()), (0, 0));
}

#[test]
fn buffer_can_be_frozen_and_made_writable_after_the_ring_is_dropped() {
    take_turn();
    let mut ring = ring(1 << 10);
    let mut buffer = ring.fixed(100).unwrap();
    buffer.extend(*b"0123456789");
    let other = ring.fixed(1).unwrap();
    drop(ring);
    let part = buffer.freeze().slice(5..);
    let mut again = part.try_mut().unwrap();
    assert_eq!((&again[..], again.capacity() >= 100), (&b"56789"[..], true));
    again.extend(*b"abc");
    assert_eq!(again, *b"56789abc");
    drop((again, other));
    assert_eq!(stores(), 0);
}

#[test]
fn dropped_rings_free_all_stores() {
    take_turn();
    let rounds = if cfg!(miri) { 20 } else { 5_000 };
    let mut late = alloc::collections::VecDeque::new();
    for number in 0..rounds {
        let mut ring = ring(1 << 10);
        late.push_back(ring.fixed(number % 500).unwrap());
        late.push_back(ring.fixed(1).unwrap());
        while late.len() > 7 {
            late.pop_front();
        }
    }
    assert!(GLOBAL.aligned().blocks <= 20, "{} stores for 7 buffers", GLOBAL.aligned().blocks);
    late.clear();
    assert_eq!((stores(), RingAl::parked()), (0, 0));
}

/// Rings are dropped first, then their buffers, in the same or the reverse order. While the buffers
/// are dropped, no ring is created or dropped, and no sweep is requested.
#[test]
fn last_buffer_frees_its_store_however_many_are_parked() {
    take_turn();
    let count = if cfg!(miri) { 20 } else { 100 };
    for first_in in [true, false] {
        let mut late: alloc::collections::VecDeque<_> =
            (0..count).map(|_| ring(256).fixed(1).unwrap()).collect();
        assert_eq!((stores(), RingAl::parked()), (count, count));
        for left in (0..count).rev() {
            drop(if first_in { late.pop_front() } else { late.pop_back() });
            assert_eq!((stores(), RingAl::parked()), (left, left));
        }
    }
}

/// Two threads drop the last two buffers of each of many stores at the same time.
#[test]
fn conc_two_last_buffers_free_their_store() {
    take_turn();
    let rounds = if cfg!(miri) { 2 } else { 300 };
    for _ in 0..rounds {
        let mut halves = (Vec::new(), Vec::new());
        for _ in 0..if cfg!(miri) { 2 } else { 20 } {
            let mut ring = ring(256);
            halves.0.push(ring.fixed(1).unwrap());
            halves.1.push(ring.fixed(1).unwrap().freeze());
        }
        let other = thread::spawn(move || drop(halves.1));
        drop(halves.0);
        other.join().unwrap();
        assert_eq!((stores(), RingAl::parked()), (0, 0));
    }
}

#[test]
fn leaked_fixed_buffer_keeps_only_its_region() {
    take_turn();
    let mut ring = ring(1 << 10);
    core::mem::forget(ring.extendable(300).unwrap());
    assert_eq!(ring.stats().buffers_live, 0);
    let leaked = core::mem::ManuallyDrop::new(ring.fixed(300).unwrap());
    assert_eq!(ring.stats().buffers_live, 1);
    assert!(ring.fixed(500).is_some());
    drop(ring);
    assert_eq!(stores(), 1);
    drop(core::mem::ManuallyDrop::into_inner(leaked));
    assert_eq!(stores(), 0);
}

#[test]
fn conc_ring_is_dropped_during_releases() {
    const THREADS: usize = 3;
    take_turn();
    for round in 0..if cfg!(miri) { 1 } else { 200 } {
        let mut ring = ring(4 << 10);
        let threads: [_; THREADS] = core::array::from_fn(|thread| {
            let mut mine: Vec<_> = (0..4).map(|_| ring.fixed(16 + round % 64).unwrap()).collect();
            let shared = ring.fixed(8).unwrap().freeze();
            let other = shared.clone();
            mine[0].extend([thread as u8; 4]);
            (thread::spawn(move || drop((mine, shared))), other)
        });
        drop(ring);
        for (thread, shared) in threads {
            drop(shared);
            thread.join().unwrap();
        }
        // The creation of another ring finds a release that the drop of the first ring missed.
        drop(self::ring(16));
        assert_eq!((stores(), RingAl::parked()), (0, 0), "round {round}");
    }
}

#[test]
fn conc_buffers_outlive_their_thread() {
    ringal!(@init, 1 << 12);
    take_turn();
    let buffers = thread::spawn(|| {
        let mut written = ringal!(@fixed, 100).unwrap();
        written.write_all(b"from a thread that is gone").unwrap();
        let line = ringal!(@ext, 8, |mut line| {
            write!(line, "{:030}", 7).unwrap();
            line.finalize().freeze()
        });
        (written, line.unwrap())
    });
    let (written, line) = buffers.join().unwrap();
    assert_eq!(&written[..], b"from a thread that is gone");
    assert!(line.ends_with(b"07"));
    assert_eq!(RingAl::parked(), 1, "the exit of the thread dropped its ring");
    drop((written, line));
    assert_eq!(RingAl::parked(), 0, "the last release freed the store");
    assert_eq!((RingAl::trim_all(), RingAl::reclaim()), (0, 0));
}

#[test]
fn macro_does_not_panic_during_thread_exit() {
    ringal!(@init, 1 << 12);
    take_turn();

    /// Uses the thread's ring when the thread destroys its thread-locals.
    struct AtExit(Arc<AtomicUsize>);
    impl Drop for AtExit {
        fn drop(&mut self) {
            // The ring may be destroyed before or after this value. Neither order panics.
            let served = ringal!(@fixed, 10).is_some();
            self.0.fetch_add(if served { 2 } else { 1 }, Ordering::Relaxed);
        }
    }
    thread_local!(static EXIT: core::cell::RefCell<Option<AtExit>> = const { core::cell::RefCell::new(None) });

    let seen = Arc::new(AtomicUsize::new(0));
    let theirs = Arc::clone(&seen);
    thread::spawn(move || {
        EXIT.set(Some(AtExit(theirs)));
        assert!(ringal!(@fixed, 10).is_some());
    })
    .join()
    .unwrap();
    assert_ne!(seen.load(Ordering::Relaxed), 0);
}

/// An element that counts its drops in the first field. Its drop panics if the second field is
/// `true`.
struct Counted(Arc<AtomicUsize>, bool);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        assert!(!self.1, "told to panic");
    }
}

#[test]
fn elements_are_dropped_once() {
    take_turn();
    let drops = Arc::new(AtomicUsize::new(0));
    let mut ring = ring(4 << 10);
    let mut buffer = ring.generic::<Counted>(10).unwrap();
    for _ in 0..10 {
        assert!(buffer.push(Counted(Arc::clone(&drops), false)).is_none());
    }
    drop(buffer.push(Counted(Arc::clone(&drops), false)));
    drop((buffer.pop(), buffer.remove(0), buffer.swap_remove(3)));
    assert_eq!(drops.load(Ordering::Relaxed), 4);
    buffer.truncate(5);
    assert_eq!(drops.load(Ordering::Relaxed), 6);
    drop(buffer);
    assert_eq!((drops.load(Ordering::Relaxed), ring.stats().buffers_live), (11, 0));
}

#[test]
fn panicking_destructor_leaks_no_region_and_drops_no_element_twice() {
    take_turn();
    let drops = Arc::new(AtomicUsize::new(0));
    let mut ring = ring(4 << 10);
    for panicking in 0..5 {
        drops.store(0, Ordering::Relaxed);
        let mut buffer = ring.generic::<Counted>(5).unwrap();
        for number in 0..5 {
            let _ = buffer.push(Counted(Arc::clone(&drops), number == panicking));
        }
        assert!(catch_unwind(AssertUnwindSafe(|| drop(buffer))).is_err());
        assert_eq!((drops.load(Ordering::Relaxed), ring.stats().buffers_live), (5, 0));
    }
    let mut buffer = ring.generic::<Counted>(5).unwrap();
    for number in 0..5 {
        let _ = buffer.push(Counted(Arc::clone(&drops), number == 3));
    }
    drops.store(0, Ordering::Relaxed);
    assert!(catch_unwind(AssertUnwindSafe(|| buffer.truncate(2))).is_err());
    assert_eq!((drops.load(Ordering::Relaxed), buffer.len()), (3, 2));
}

#[test]
fn elements_before_a_panic_of_the_iterator_are_kept() {
    take_turn();
    let mut ring = ring(4 << 10);
    let faulty = || (0..10_u8).map(|number| if number == 4 { panic!("at four") } else { number });
    let mut fixed = ring.fixed(8).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| fixed.extend(faulty()))).is_err());
    assert_eq!(fixed, [0, 1, 2, 3]);
    let mut growing = ring.extendable(0).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| growing.extend(faulty()))).is_err());
    assert_eq!(growing.finalize(), [0, 1, 2, 3]);
}

#[test]
fn user_code_may_use_the_ring_of_its_thread() {
    ringal!(@init, 1 << 12);
    take_turn();

    /// An element that contains a buffer of the ring. Its drop allocates another buffer.
    struct Again(#[expect(dead_code, reason = "keeps a buffer live, not read")] FixedBuf, Arc<AtomicUsize>);
    impl Drop for Again {
        fn drop(&mut self) {
            self.1.fetch_add(usize::from(ringal!(@fixed, 64).is_some()), Ordering::Relaxed);
        }
    }

    let served = Arc::new(AtomicUsize::new(0));
    let mut buffer = ringal!(@generic::<Again>, 3).unwrap();
    for _ in 0..3 {
        let held = ringal!(@fixed, 16).unwrap().freeze();
        let _ = buffer.push(Again(held, Arc::clone(&served)));
    }
    drop(buffer);
    assert_eq!(served.load(Ordering::Relaxed), 3);

    // `@ext` borrows the ring while its closure runs, so nested calls return `None`. A panic ends
    // the borrow.
    let nested = ringal!(@ext, 16, |buffer| {
        drop(buffer);
        (ringal!(@fixed, 1).is_none(), ringal!(@ext, 1, drop).is_none())
    });
    assert_eq!(nested, Some((true, true)));
    let panicked = catch_unwind(|| ringal!(@ext, 16, |_buffer| panic!("in the closure")));
    assert!(panicked.is_err());
    assert!(ringal!(@fixed, 1).is_some());
}

#[test]
fn macro_arguments_may_use_the_ring() {
    ringal!(@init, 1 << 12);
    let len = || ringal!(@fixed, 8).map_or(0, |buffer| buffer.capacity());
    assert_eq!(ringal!(@fixed, len()).map(|buffer| buffer.capacity()), Some(8));
    assert_eq!(ringal!(@ext, len(), |buffer| buffer.finalize().capacity()), Some(8));
    assert_eq!(ringal!(@generic::<u16>, len()).map(|buffer| buffer.capacity()), Some(8));
    // The type of the elements can be inferred.
    let numbers: Option<GenericBufMut<[u8; 3]>> = ringal!(@generic, len());
    assert_eq!(numbers.map(|numbers| numbers.capacity()), Some(8));
}
