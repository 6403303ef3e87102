//! The heap refuses: requests for rings fail with what was asked for, and parked stores are given back before that.
#![cfg(feature = "std")]

use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::alloc::System;

use ringal::{CreateError, RingAl};

/// Nothing but stores is aligned to so much.
const STORE: usize = 1 << 13;

/// The system's heap, with room for a number of stores.
struct Scarce {
    room: AtomicUsize,
}

#[global_allocator]
static GLOBAL: Scarce = Scarce { room: AtomicUsize::new(0) };

// SAFETY: every request goes to `System`, or is refused with nothing changed.
unsafe impl GlobalAlloc for Scarce {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() >= STORE {
            // One thread makes stores here.
            let room = self.room.load(Ordering::Relaxed);
            if room == 0 {
                return core::ptr::null_mut();
            }
            self.room.store(room - 1, Ordering::Relaxed);
        }
        // SAFETY: the caller's duties are passed on as they are.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if layout.align() >= STORE {
            self.room.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller's duties are passed on as they are.
        unsafe { System.dealloc(block, layout) };
    }
}

fn ring() -> Result<RingAl, CreateError> {
    RingAl::builder(1000).align(STORE).try_build()
}

/// One test only, since the room is that of the whole program.
#[test]
fn a_heap_without_room_is_an_error() {
    let refused = ring().expect_err("there is no room");
    assert!(matches!(refused, CreateError::NoMemory { bytes, align: STORE } if bytes > 1000), "{refused}");
    assert!(refused.to_string().contains("no memory for a store of"), "{refused}");

    // Stores that are parked, with nothing held any more, make room.
    GLOBAL.room.store(12, Ordering::Relaxed);
    let late: Vec<_> = (0..12).map(|_| ring().unwrap().fixed(10).unwrap()).collect();
    assert_eq!((RingAl::parked(), ring().is_err()), (12, true));
    drop(late);
    let rings: Vec<_> = (0..12).map(|number| ring().unwrap_or_else(|_| panic!("ring {number}"))).collect();
    assert!(ring().is_err() && RingAl::parked() == 0);
    drop(rings);
    assert_eq!(GLOBAL.room.load(Ordering::Relaxed), 12);

    let huge = RingAl::try_new(usize::MAX).expect_err("no address space has that much");
    assert!(matches!(huge, CreateError::TooLarge { bytes: usize::MAX, .. }), "{huge}");
    assert!(huge.to_string().contains("cannot be addressed"));
}
