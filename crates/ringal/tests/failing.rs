//! Tests the creation of a ring when the heap refuses the memory for a store. The error contains
//! the size of the store, and freed stores make room again.
#![cfg(feature = "std")]

use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::alloc::System;

use ringal::{CreateError, RingAl};

/// The alignment of every store in this program, in bytes. No other block has this alignment, so
/// the alignment identifies the stores.
const STORE: usize = 1 << 13;

/// The system's heap, with a limit on the number of stores.
struct Scarce {
    room: AtomicUsize,
}

#[global_allocator]
static GLOBAL: Scarce = Scarce { room: AtomicUsize::new(0) };

// SAFETY: every request is passed on to `System`, or returns null without an effect on any block.
unsafe impl GlobalAlloc for Scarce {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() >= STORE {
            // Only one thread creates rings, so the load and the store of `room` need not be one
            // atomic operation.
            let room = self.room.load(Ordering::Relaxed);
            if room == 0 {
                return core::ptr::null_mut();
            }
            self.room.store(room - 1, Ordering::Relaxed);
        }
        // SAFETY: the caller meets the contract of `GlobalAlloc`, which is also that of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if layout.align() >= STORE {
            self.room.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller meets the contract of `GlobalAlloc`, which is also that of `System`.
        unsafe { System.dealloc(block, layout) };
    }
}

fn ring() -> Result<RingAl, CreateError> {
    RingAl::builder(1000).align(STORE).try_build()
}

/// This is the only test of this program, because the limit on stores applies to the whole program.
#[test]
fn heap_without_memory_returns_an_error() {
    let refused = ring().expect_err("there is no room");
    assert!(matches!(refused, CreateError::NoMemory { bytes, align: STORE } if bytes > 1000), "{refused}");
    assert!(refused.to_string().contains("no memory for a store of"), "{refused}");

    // Parked stores make room after their last buffers are dropped.
    GLOBAL.room.store(12, Ordering::Relaxed);
    let late: Vec<_> = (0..12).map(|_| ring().unwrap().fixed(10).unwrap()).collect();
    assert_eq!((RingAl::parked(), ring().is_err()), (12, true));
    drop(late);
    let rings: Vec<_> = (0..12).map(|number| ring().unwrap_or_else(|_| panic!("ring {number}"))).collect();
    assert!(ring().is_err() && RingAl::parked() == 0);
    drop(rings);
    assert_eq!(GLOBAL.room.load(Ordering::Relaxed), 12);

    let huge = RingAl::try_new(usize::MAX).expect_err("the size exceeds the address space");
    assert!(matches!(huge, CreateError::TooLarge { bytes: usize::MAX, .. }), "{huge}");
    assert!(huge.to_string().contains("is too large"));
}
