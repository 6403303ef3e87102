//! Slabs: a numeric key names an object, and each access looks the key up in the slab.

use core::cell::RefCell;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sharded_slab::Slab as Sharded;
use slab::Slab;

use super::pools::objects;
use crate::card::{Caps, Info};
use crate::objects::{Maker, Object};
use crate::pools::RawPool;

objects! {
    /// `slab` in a `RefCell`, so it works through a shared reference like the other pools.
    PlainSlab = RefCell<Slab<T>>, |_| RefCell::new(Slab::new()),
    Info::new("slab", env!("EPHEMERA_VERSION_SLAB"), Caps::LOCAL, "keys; objects move when it grows")
}
objects! {
    LockedSlab = Mutex<Slab<T>>, |_| Mutex::new(Slab::new()),
    Info::new("slab and a mutex", env!("EPHEMERA_VERSION_SLAB"), Caps::GENERAL, "keys; a lock")
}
objects! {
    ShardedSlab = Sharded<T>, |_| Sharded::new(),
    Info::new("sharded-slab", env!("EPHEMERA_VERSION_SHARDED_SLAB"), Caps::GENERAL, "keys")
}

/// Implements `RawPool` for a slab. `$read` and `$write` borrow or lock it.
macro_rules! slab {
    ($slab:ty, $this:ident => $read:expr, $write:expr) => {
        // SAFETY: a key names one object until the object is removed. Only one thread uses the
        // slab, or each thread that uses it holds the lock. Objects move when the slab grows. That
        // is sound here, because workloads of this class access objects only through their keys.
        unsafe impl<T: Object> RawPool<T> for $slab {
            type Handle = usize;

            #[inline(always)]
            unsafe fn raw_put(&self, value: T) -> Option<usize> {
                let $this = self;
                Some($write.insert(value))
            }

            #[inline(always)]
            unsafe fn look<R>(&self, handle: &usize, look: impl FnOnce(&T) -> R) -> R {
                let $this = self;
                look(&$read[*handle])
            }

            #[inline(always)]
            unsafe fn raw_take(&self, handle: usize) {
                let $this = self;
                drop($write.remove(handle));
            }
        }
    };
}

slab! { RefCell<Slab<T>>, this => this.borrow(), this.borrow_mut() }
slab! { Mutex<Slab<T>>, this => locked(this), locked(this) }

fn locked<T>(slab: &Mutex<Slab<T>>) -> MutexGuard<'_, Slab<T>> {
    slab.lock().unwrap_or_else(PoisonError::into_inner)
}

// SAFETY: a key names one object until the object is removed, on all threads.
unsafe impl<T: Object> RawPool<T> for Sharded<T> {
    type Handle = usize;

    #[inline(always)]
    unsafe fn raw_put(&self, value: T) -> Option<usize> {
        self.insert(value)
    }

    #[inline(always)]
    unsafe fn look<R>(&self, handle: &usize, look: impl FnOnce(&T) -> R) -> R {
        let entry = self.get(*handle);
        look(&entry.expect("the object is live"))
    }

    #[inline(always)]
    unsafe fn raw_take(&self, handle: usize) {
        // `remove` marks the object as removed, and the slab drops it in place. A program that does
        // not need the value would call `remove` too.
        self.remove(handle);
    }
}
