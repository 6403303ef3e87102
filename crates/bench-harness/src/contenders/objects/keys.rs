//! Slabs: a number names an object, and each access looks it up in the slab.

use core::cell::RefCell;
use std::sync::{Mutex, PoisonError};

use sharded_slab::Slab as Sharded;
use slab::Slab;

use crate::card::{Caps, Info, MemoryBy};
use crate::objects::{Maker, Object, RawPool};

const fn card(name: &'static str, version: &'static str, caps: Caps, notes: &'static str) -> Info {
    Info { name, version, caps, memory: MemoryBy::HighWater, notes }
}

/// `slab` behind a `RefCell`, so that a shared reference suffices, as for the others.
#[derive(Clone, Copy, Debug)]
pub struct PlainSlab;

impl Maker for PlainSlab {
    const INFO: Info =
        card("slab", env!("EPHEMERA_VERSION_SLAB"), Caps::LOCAL, "keys; objects move when it grows");
    type Pool<T: Object> = RefCell<Slab<T>>;

    fn make<T: Object>() -> Self::Pool<T> {
        RefCell::new(Slab::new())
    }
}

// SAFETY: a key names its own object until it is removed. Objects move when the slab grows, which
// is allowed here: workloads of this class look by the key.
unsafe impl<T: Object> RawPool<T> for RefCell<Slab<T>> {
    type Handle = usize;

    #[inline(always)]
    fn raw_put(&self, value: T) -> Option<usize> {
        Some(self.borrow_mut().insert(value))
    }

    #[inline(always)]
    unsafe fn look<R>(&self, handle: &usize, look: impl FnOnce(&T) -> R) -> R {
        look(&self.borrow()[*handle])
    }

    #[inline(always)]
    unsafe fn raw_take(&self, handle: usize) {
        drop(self.borrow_mut().remove(handle));
    }
}

/// `slab` behind a mutex.
#[derive(Clone, Copy, Debug)]
pub struct LockedSlab;

impl Maker for LockedSlab {
    const INFO: Info = card("slab and a mutex", env!("EPHEMERA_VERSION_SLAB"), Caps::GENERAL, "keys; a lock");
    type Pool<T: Object> = Mutex<Slab<T>>;

    fn make<T: Object>() -> Self::Pool<T> {
        Mutex::new(Slab::new())
    }
}

// SAFETY: the slab fulfils the contract on one thread, and the mutex extends it to all threads.
unsafe impl<T: Object> RawPool<T> for Mutex<Slab<T>> {
    type Handle = usize;

    #[inline(always)]
    fn raw_put(&self, value: T) -> Option<usize> {
        Some(self.lock().unwrap_or_else(PoisonError::into_inner).insert(value))
    }

    #[inline(always)]
    unsafe fn look<R>(&self, handle: &usize, look: impl FnOnce(&T) -> R) -> R {
        look(&self.lock().unwrap_or_else(PoisonError::into_inner)[*handle])
    }

    #[inline(always)]
    unsafe fn raw_take(&self, handle: usize) {
        drop(self.lock().unwrap_or_else(PoisonError::into_inner).remove(handle));
    }
}

/// `sharded-slab`.
#[derive(Clone, Copy, Debug)]
pub struct ShardedSlab;

impl Maker for ShardedSlab {
    const INFO: Info = card("sharded-slab", env!("EPHEMERA_VERSION_SHARDED_SLAB"), Caps::GENERAL, "keys");
    type Pool<T: Object> = Sharded<T>;

    fn make<T: Object>() -> Self::Pool<T> {
        Sharded::new()
    }
}

// SAFETY: a key names its own object until it is taken, on all threads.
unsafe impl<T: Object> RawPool<T> for Sharded<T> {
    type Handle = usize;

    #[inline(always)]
    fn raw_put(&self, value: T) -> Option<usize> {
        self.insert(value)
    }

    #[inline(always)]
    unsafe fn look<R>(&self, handle: &usize, look: impl FnOnce(&T) -> R) -> R {
        let entry = self.get(*handle);
        look(&entry.expect("the object is alive"))
    }

    #[inline(always)]
    unsafe fn raw_take(&self, handle: usize) {
        // Marks the object and drops it in place, as in a program that does not need the value.
        self.remove(handle);
    }
}
