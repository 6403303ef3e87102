//! Tests of remote frees of units, on one thread and on several.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem::offset_of;
use core::ptr::NonNull;

use ephemera_testkit::child;

use super::{Foreign, ForeignHeader, Inbox};

/// A unit without blocks.
pub(crate) struct Chunk {
    foreign: Foreign<Chunk>,
}

// SAFETY: `FOREIGN` is the offset of the field `foreign`.
unsafe impl ForeignHeader for Chunk {
    const FOREIGN: usize = offset_of!(Chunk, foreign);
}

pub(crate) fn chunk() -> NonNull<Chunk> {
    NonNull::from(Box::leak(Box::new(Chunk { foreign: Foreign::new() })))
}

/// # Safety
/// `chunk` comes from [`chunk`] and is in no inbox.
pub(crate) unsafe fn free(chunk: NonNull<Chunk>) {
    // SAFETY: the caller's chunk is a leaked box.
    let chunk = unsafe { Box::from_raw(chunk.as_ptr()) };
    chunk.foreign.end();
}

#[test]
fn first_remote_free_pushes_and_the_holder_takes_the_sum() {
    let inbox = Inbox::new();
    let unit = chunk();
    for round in 1..3 {
        assert!(inbox.is_empty());
        // SAFETY: the unit is live, belongs to this inbox and has no blocks.
        assert!(unsafe { inbox.give_back_add(unit, round) });
        // SAFETY: as above.
        assert!(!unsafe { inbox.give_back_add(unit, 1 << 40) });
        assert!(!inbox.is_empty());
        // SAFETY: no other thread takes from this inbox.
        let taken: Vec<_> = unsafe { inbox.take() }.collect();
        assert_eq!(taken, [(unit, (1 << 40) + round)]);
    }
    // SAFETY: no other thread takes from this inbox.
    assert_eq!(unsafe { inbox.take() }.count(), 0);
    // SAFETY: the unit was dequeued, so it is in no inbox.
    unsafe { free(unit) };
}

#[test]
fn take_yields_all_units_and_each_may_be_freed_at_once() {
    let inbox = Inbox::new();
    let units: Vec<_> = (0..5).map(|_| chunk()).collect();
    for (bit, unit) in units.iter().enumerate() {
        // SAFETY: the unit is live, belongs to this inbox and has no slots.
        assert!(unsafe { inbox.give_back_bits(*unit, 1 << bit) });
    }
    // SAFETY: the unit is live, belongs to this inbox and has no slots.
    assert!(!unsafe { inbox.give_back_bits(units[2], 1 << 62) });
    let mut sum = 0;
    // SAFETY: no other thread takes from this inbox.
    for (unit, bits) in unsafe { inbox.take() } {
        sum |= bits;
        // SAFETY: the unit was yielded, so it is in no inbox.
        unsafe { free(unit) };
    }
    assert_eq!(sum, 0b11111 | 1 << 62);
}

#[test]
fn newest_unit_stays_lent_once_a_unit_was_looked_at() {
    let (inbox, seen) = (Inbox::new(), Inbox::new());
    let units: Vec<_> = (0..3).map(|_| chunk()).collect();
    for unit in &units {
        // SAFETY: the unit is live, belongs to this inbox and has no blocks.
        assert!(unsafe { inbox.give_back_add(*unit, 1) });
    }
    // SAFETY: both inboxes stand for the inboxes of one record, and are never closed.
    let mut lent = unsafe { inbox.lend(&seen, &inbox) };
    assert_eq!(lent.look(), Some(units[2]));
    lent.put_newest_back();
    assert_eq!(lent.look(), Some(units[1]));
    lent.put_back();
    let taken = |of: &Inbox<Chunk>| {
        // SAFETY: no other thread takes from these inboxes.
        unsafe { of.take() }.map(|(unit, _)| unit).collect::<Vec<_>>()
    };
    assert_eq!(taken(&seen), [units[2], units[1]]);
    assert_eq!(taken(&inbox), [units[0]]);
    for unit in units {
        // SAFETY: the unit was yielded, so it is in no inbox.
        unsafe { free(unit) };
    }
}

#[test]
fn unit_that_was_pushed_last_is_put_back_unseen() {
    let (inbox, seen) = (Inbox::new(), Inbox::new());
    let units: Vec<_> = (0..3).map(|_| chunk()).collect();
    for unit in &units {
        // SAFETY: the unit is live, belongs to this inbox and has no blocks.
        assert!(unsafe { inbox.give_back_add(*unit, 1) });
    }
    // SAFETY: both inboxes stand for the inboxes of one record, and are never closed.
    let mut lent = unsafe { inbox.lend(&seen, &inbox) };
    lent.put_newest_back();
    assert_eq!(lent.look(), Some(units[1]));
    lent.put_back();
    let taken = |of: &Inbox<Chunk>| {
        // SAFETY: no other thread takes from these inboxes.
        unsafe { of.take() }.map(|(unit, _)| unit).collect::<Vec<_>>()
    };
    assert_eq!(taken(&seen), [units[1]]);
    let mut rest = taken(&inbox);
    rest.sort();
    let mut others = [units[0], units[2]];
    others.sort();
    assert_eq!(rest, others);
    for unit in units {
        // SAFETY: the unit was dequeued, so it is in no inbox.
        unsafe { free(unit) };
    }
}

#[test]
#[cfg_attr(
    miri,
    ignore = "must end its process, and Miri starts no child process: see `ephemera_testkit::child`"
)]
fn freeing_a_slot_twice_stops_a_debug_build() {
    if child::part().is_some() {
        let (inbox, unit) = (Inbox::new(), chunk());
        for _ in 0..2 {
            // SAFETY: the unit is live and belongs to this inbox. Setting the bit a second time is
            // the error to be reported.
            unsafe { inbox.give_back_bits(unit, 4) };
        }
        std::process::exit(0);
    }
    let ended = child::run("foreign::tests::freeing_a_slot_twice_stops_a_debug_build", "twice");
    assert_eq!(ended.succeeded(), !cfg!(debug_assertions), "{ended:?}");
    assert_eq!(ended.stderr.contains("a slot is freed twice"), cfg!(debug_assertions), "{ended:?}");
}

#[test]
fn conc_remote_frees_of_all_threads_are_booked_once() {
    const THREADS: u64 = 3;
    const EACH: u64 = if cfg!(miri) { 20 } else { 5_000 };
    struct SharedChunk(Inbox<Chunk>, [NonNull<Chunk>; 2]);
    // SAFETY: until all threads are joined, they access only the foreign words of the units.
    unsafe impl Send for SharedChunk {}
    // SAFETY: as above.
    unsafe impl Sync for SharedChunk {}

    let shared = Arc::new(SharedChunk(Inbox::new(), [chunk(), chunk()]));
    let gives = |_| {
        let shared = Arc::clone(&shared);
        std::thread::spawn(move || {
            for turn in 0..EACH {
                let unit = shared.1[usize::from(turn % 2 == 1)];
                // SAFETY: the unit is live until the threads are joined, and has no blocks.
                unsafe { shared.0.give_back_add(unit, 1) };
            }
        })
    };
    let threads: Vec<_> = (0..THREADS).map(gives).collect();
    let mut booked = 0;
    // SAFETY: no other thread takes from this inbox.
    let take = || unsafe { shared.0.take() }.map(|(_, given)| given).sum::<u64>();
    while threads.iter().any(|thread| !thread.is_finished()) {
        booked += take();
        std::thread::yield_now();
    }
    for thread in threads {
        thread.join().unwrap();
    }
    booked += take();
    assert_eq!(booked, THREADS * EACH);
    for unit in shared.1 {
        // SAFETY: the inbox is empty and all threads are joined.
        unsafe { free(unit) };
    }
}
