//! Units given back to, on one thread and on several.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ptr::NonNull;

use ephemera_testkit::child;

use super::{Foreign, Inbox, Unit};

/// A unit in raw memory.
struct Chunk {
    foreign: Foreign<Chunk>,
}

// SAFETY: the address of one field.
unsafe impl Unit for Chunk {
    unsafe fn foreign(unit: NonNull<Self>) -> NonNull<Foreign<Self>> {
        // SAFETY: the caller's unit is alive; no reference is made.
        let field = unsafe { &raw mut (*unit.as_ptr()).foreign };
        // SAFETY: a field of what a non-null pointer points at.
        unsafe { NonNull::new_unchecked(field) }
    }
}

fn chunk() -> NonNull<Chunk> {
    NonNull::from(Box::leak(Box::new(Chunk { foreign: Foreign::new() })))
}

/// # Safety
/// From [`chunk`], and in no inbox.
unsafe fn free(chunk: NonNull<Chunk>) {
    // SAFETY: alive, by the caller.
    let chunk = unsafe { Box::from_raw(chunk.as_ptr()) };
    chunk.foreign.end();
}

#[test]
fn the_first_who_gives_back_pushes_and_the_holder_takes_the_sum() {
    let inbox = Inbox::new();
    let unit = chunk();
    for round in 1..3 {
        assert!(inbox.is_empty());
        // SAFETY: the unit is alive and of this inbox; what is given back stands for nothing.
        assert!(unsafe { inbox.give_back_add(unit, round) });
        // SAFETY: as above.
        assert!(!unsafe { inbox.give_back_add(unit, 1 << 40) });
        assert!(!inbox.is_empty());
        // SAFETY: this thread alone takes.
        let taken: Vec<_> = unsafe { inbox.take() }.collect();
        assert_eq!(taken, [(unit, (1 << 40) + round)]);
    }
    // SAFETY: this thread alone takes.
    assert_eq!(unsafe { inbox.take() }.count(), 0);
    // SAFETY: in no inbox.
    unsafe { free(unit) };
}

#[test]
fn all_units_come_out_and_may_be_freed_at_once() {
    let inbox = Inbox::new();
    let units: Vec<_> = (0..5).map(|_| chunk()).collect();
    for (bit, unit) in units.iter().enumerate() {
        // SAFETY: the unit is alive and of this inbox; what is given back stands for nothing.
        assert!(unsafe { inbox.give_back_bits(*unit, 1 << bit) });
    }
    // SAFETY: as above.
    assert!(!unsafe { inbox.give_back_bits(units[2], 1 << 63) });
    let mut sum = 0;
    // SAFETY: this thread alone takes.
    for (unit, bits) in unsafe { inbox.take() } {
        sum |= bits;
        // SAFETY: yielded, hence in no inbox any more.
        unsafe { free(unit) };
    }
    assert_eq!(sum, 0b11111 | 1 << 63);
}

/// Debug builds look whether a slot that comes home is home already.
#[test]
#[cfg_attr(
    miri,
    ignore = "must end its process, and Miri starts none to see that: `ephemera_testkit::child`"
)]
fn bits_that_come_twice_are_told() {
    if child::part().is_some() {
        let (inbox, unit) = (Inbox::new(), chunk());
        for _ in 0..2 {
            // SAFETY: the unit is alive and of this inbox. That the bit is set the second time is the mistake to be told.
            unsafe { inbox.give_back_bits(unit, 4) };
        }
        std::process::exit(0);
    }
    let ended = child::run("foreign::tests::bits_that_come_twice_are_told", "twice");
    assert_eq!(ended.well(), !cfg!(debug_assertions), "{ended:?}");
    assert_eq!(ended.said.contains("a slot is freed twice"), cfg!(debug_assertions), "{ended:?}");
}

#[test]
fn conc_what_threads_give_back_is_booked_once() {
    const THREADS: u64 = 3;
    const EACH: u64 = if cfg!(miri) { 20 } else { 5_000 };
    struct Shared(Inbox<Chunk>, [NonNull<Chunk>; 2]);
    // SAFETY: the units are shared by their foreign words alone until all threads are joined.
    unsafe impl Send for Shared {}
    // SAFETY: as above.
    unsafe impl Sync for Shared {}

    let shared = Arc::new(Shared(Inbox::new(), [chunk(), chunk()]));
    let gives = |_| {
        let shared = Arc::clone(&shared);
        std::thread::spawn(move || {
            for turn in 0..EACH {
                let unit = shared.1[usize::from(turn % 2 == 1)];
                // SAFETY: the unit is alive until the joins; what is given back stands for nothing.
                unsafe { shared.0.give_back_add(unit, 1) };
            }
        })
    };
    let threads: Vec<_> = (0..THREADS).map(gives).collect();
    let mut booked = 0;
    // SAFETY: this thread alone takes, here and below.
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
        // SAFETY: all is booked, and all threads are gone.
        unsafe { free(unit) };
    }
}
