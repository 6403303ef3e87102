//! Pools that recycle objects. A returned object stays initialised, and the next user gets it with
//! its old contents. Here these pools hold boxes, so objects do not move, and a workload overwrites
//! the old object with its own. If a pool is empty, a new box comes from the heap, because these
//! pools do not allocate objects themselves.

use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use object_pool::Pool as Stack;
use opool::{LocalPool, Pool as Queue, PoolAllocator, RefGuard, RefLocalGuard};

use super::pools::objects;
use crate::card::{Caps, Info};
use crate::objects::{Maker, Object};
use crate::pools::{RawPool, look_through};

objects! {
    /// `object-pool` with boxes: a vector with a lock.
    ObjectPool = Stack<Box<T>>, |_| Stack::from_vec(Vec::new()),
    Info::new(
        "object-pool",
        env!("EPHEMERA_VERSION_OBJECT_POOL"),
        Caps::GENERAL,
        "recycles initialised boxes; a lock; returns no memory",
    )
}

// SAFETY: from `detach` to `attach`, a box is outside the pool and is its own handle. The pool's
// lock lets all threads use the pool.
unsafe impl<T: Object> RawPool<T> for Stack<Box<T>> {
    type Handle = Box<T>;

    #[inline(always)]
    unsafe fn raw_put(&self, value: T) -> Option<Box<T>> {
        let Some(found) = self.try_pull() else { return Some(Box::new(value)) };
        let (_, mut object) = found.detach();
        *object = value;
        Some(object)
    }

    look_through! { T, Box<T> }

    #[inline(always)]
    unsafe fn raw_take(&self, handle: Box<T>) {
        self.attach(handle);
    }
}

/// The factory that `opool` calls when a pool is empty.
pub(crate) struct Fresh;

impl<T: Object> PoolAllocator<Box<T>> for Fresh {
    fn allocate(&self) -> Box<T> {
        Box::new(T::new(0))
    }
}

/// A boxed pool of `opool`. It must not move, because guards point to it.
pub(crate) struct Kept<P>(NonNull<P>);

impl<P> Drop for Kept<P> {
    fn drop(&mut self) {
        // SAFETY: the constructor took the pointer from a box. A guard that still exists is in a
        // `ManuallyDrop`, so its drop does not access the pool.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// Defines a contender for one of `opool`'s two pools, whose interfaces differ only in their names.
/// A guard is dropped only by the pool that made it, and only while that pool exists.
macro_rules! contender {
    ($(#[$doc:meta])* $name:ident, $pool:ident, $guard:ident, $info:expr) => {
        objects! {
            $(#[$doc])*
            $name = Kept<$pool<Fresh, Box<T>>>,
            |most| Kept(NonNull::from(Box::leak(Box::new($pool::new(most, Fresh))))),
            $info
        }

        // SAFETY: a box is outside the pool while its guard exists. The card states which threads
        // may allocate and free, according to the pool's documentation.
        unsafe impl<T: Object> RawPool<T> for Kept<$pool<Fresh, Box<T>>> {
            type Handle = ManuallyDrop<$guard<'static, Fresh, Box<T>>>;

            #[inline(always)]
            unsafe fn raw_put(&self, value: T) -> Option<Self::Handle> {
                // SAFETY: the pool exists until `drop`. Only `look` and `raw_take` use a guard, and
                // both borrow the pool.
                let pool: &'static $pool<Fresh, Box<T>> = unsafe { self.0.as_ref() };
                let mut guard = pool.get();
                **guard = value;
                Some(ManuallyDrop::new(guard))
            }

            look_through! { T, Self::Handle }

            #[inline(always)]
            unsafe fn raw_take(&self, handle: Self::Handle) {
                drop(ManuallyDrop::into_inner(handle));
            }
        }
    };
}

contender! {
    OPool, Queue, RefGuard,
    Info::new(
        "opool Pool",
        env!("EPHEMERA_VERSION_OPOOL"),
        Caps::GENERAL,
        "recycles initialised boxes; has room for the largest number of live ones",
    )
}
contender! {
    OPoolLocal, LocalPool, RefLocalGuard,
    Info::new(
        "opool LocalPool",
        env!("EPHEMERA_VERSION_OPOOL"),
        Caps::LOCAL,
        "recycles initialised boxes; has room for the largest number of live ones; one thread",
    )
}
