//! Contenders over the system's allocator that find out what is wrong instead of breaking with it.

use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::alloc::System as Malloc;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bench_harness::blocks::Contender;
use bench_harness::card::Info;
use bench_harness::contenders::blocks::{Global, System};

/// Layouts of the blocks that [`Strict`] handed out, by address.
static ALIVE: Mutex<Option<HashMap<usize, Layout>>> = Mutex::new(None);

/// Panics where a block comes back that is not alive, or with another layout, before any memory is touched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strict;

impl Strict {
    fn alive() -> MutexGuard<'static, Option<HashMap<usize, Layout>>> {
        // A panic while it is held is what this is for; the map is whole then.
        ALIVE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn comes(block: *mut u8, layout: Layout) -> *mut u8 {
        Self::alive().get_or_insert_default().insert(block.addr(), layout);
        block
    }

    fn goes(block: *mut u8, layout: Layout) {
        let known = Self::alive().get_or_insert_default().remove(&block.addr());
        assert_eq!(known, Some(layout), "the block at {block:?} is freed and was not alive like that");
    }
}

// SAFETY: blocks are the system's; what its contract forbids does not reach it.
unsafe impl GlobalAlloc for Strict {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's duty is the callee's.
        Self::comes(unsafe { Malloc.alloc(layout) }, layout)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        Self::goes(block, layout);
        // SAFETY: it was alive with this layout, and is not known any more.
        unsafe { Malloc.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, old: Layout, size: usize) -> *mut u8 {
        let new = Layout::from_size_align(size, old.align()).expect("the caller's duty");
        Self::goes(block, old);
        // SAFETY: it was alive with this layout, and is not known any more; the rest is the caller's duty.
        Self::comes(unsafe { Malloc.realloc(block, old, size) }, new)
    }
}

/// How often [`Refusing`] still allocates.
static LEFT: AtomicU64 = AtomicU64::new(0);

/// Refuses after a number of allocations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusing;

impl Refusing {
    /// Sets how many allocations are served.
    pub(crate) fn after(allocations: u64) {
        LEFT.store(allocations, Relaxed);
    }
}

// SAFETY: blocks are the system's, or null.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if LEFT.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_err() {
            return core::ptr::null_mut();
        }
        // SAFETY: the caller's duty is the callee's.
        unsafe { Malloc.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's duty is the callee's.
        unsafe { Malloc.dealloc(block, layout) }
    }
}

macro_rules! contender {
    ($($ty:ident),*) => {$(
        impl Contender for $ty {
            const INFO: Info = System::INFO;
            type Metered = Self;
            type Backing = System;
            type Ref<'a> = Global<Self>;

            fn create() -> Self {
                Self
            }

            fn by_ref(&self) -> Global<Self> {
                Global(Self)
            }
        }
    )*};
}

contender!(Strict, Refusing);
