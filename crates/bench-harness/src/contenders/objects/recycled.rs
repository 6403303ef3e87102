//! Pools that recycle objects. A returned object stays initialised, and the next user gets it with
//! its old contents. Here these pools hold boxes, so that objects do not move; a workload writes
//! its object over the old one. Neither pool allocates: missing boxes come from the heap.

use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use object_pool::Pool as Stack;
use opool::{LocalPool, Pool as Queue, PoolAllocator, RefGuard, RefLocalGuard};

use crate::card::{Caps, Info, MemoryBy};
use crate::objects::{Maker, Object, RawPool};

/// Returns the card of such a pool.
const fn card(name: &'static str, version: &'static str, caps: Caps, notes: &'static str) -> Info {
    Info { name, version, caps, memory: MemoryBy::HighWater, notes }
}

/// `object-pool`.
#[derive(Clone, Copy, Debug)]
pub struct ObjectPool;

/// The pool of boxes of `object-pool`: a vector behind a lock.
pub struct RecycledBoxes<T>(Stack<Box<T>>);

impl<T> fmt::Debug for RecycledBoxes<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Boxes").finish_non_exhaustive()
    }
}

impl Maker for ObjectPool {
    const INFO: Info = card(
        "object-pool",
        env!("EPHEMERA_VERSION_OBJECT_POOL"),
        Caps::GENERAL,
        "recycles initialised boxes; a lock; returns no memory",
    );
    type Pool<T: Object> = RecycledBoxes<T>;

    fn make<T: Object>() -> RecycledBoxes<T> {
        RecycledBoxes(Stack::from_vec(Vec::new()))
    }
}

// SAFETY: from `detach` to `attach` a box is outside of the pool, and its handle owns it. The lock
// makes the pool usable by all threads.
unsafe impl<T: Object> RawPool<T> for RecycledBoxes<T> {
    type Handle = Box<T>;

    #[inline(always)]
    fn raw_put(&self, value: T) -> Option<Box<T>> {
        let Some(found) = self.0.try_pull() else { return Some(Box::new(value)) };
        let (_, mut object) = found.detach();
        *object = value;
        Some(object)
    }

    #[inline(always)]
    unsafe fn look<R>(&self, handle: &Box<T>, look: impl FnOnce(&T) -> R) -> R {
        look(handle)
    }

    #[inline(always)]
    unsafe fn raw_take(&self, handle: Box<T>) {
        self.0.attach(handle);
    }
}

/// The factory with which `opool` makes missing objects.
#[derive(Clone, Copy, Debug)]
pub struct Fresh;

impl<T: Object> PoolAllocator<Box<T>> for Fresh {
    fn allocate(&self) -> Box<T> {
        Box::new(T::new(0))
    }
}

/// The capacity of a pool whose user announced none.
const DEFAULT: usize = 1024;

/// Defines a contender for one of `opool`'s two pools, which differ only in their names.
macro_rules! contender {
    ($(#[$doc:meta])* $name:ident, $kept:ident, $guarded:ident, $pool:ident, $guard:ident, $info:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        /// The pool, in its own box, because guards point to it.
        pub struct $kept<T: Object>(NonNull<$pool<Fresh, Box<T>>>);

        /// The guard. Only the pool that made it drops it, while the pool still exists.
        pub struct $guarded<T: Object>(ManuallyDrop<$guard<'static, Fresh, Box<T>>>);

        impl<T: Object> fmt::Debug for $kept<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($kept)).finish_non_exhaustive()
            }
        }

        impl<T: Object> fmt::Debug for $guarded<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($guarded)).finish_non_exhaustive()
            }
        }

        impl<T: Object> Drop for $kept<T> {
            fn drop(&mut self) {
                // SAFETY: the pointer is from a box in `make_for`. The drop of a remaining guard
                // does nothing.
                drop(unsafe { Box::from_raw(self.0.as_ptr()) });
            }
        }

        impl Maker for $name {
            const INFO: Info = $info;
            type Pool<T: Object> = $kept<T>;

            fn make<T: Object>() -> $kept<T> {
                Self::make_for(DEFAULT)
            }

            fn make_for<T: Object>(objects: usize) -> $kept<T> {
                $kept(NonNull::from(Box::leak(Box::new($pool::new(objects, Fresh)))))
            }
        }

        // SAFETY: a box is outside of the pool while its guard exists. The card says what each
        // thread may do, according to the pool's documentation.
        unsafe impl<T: Object> RawPool<T> for $kept<T> {
            type Handle = $guarded<T>;

            #[inline(always)]
            fn raw_put(&self, value: T) -> Option<$guarded<T>> {
                // SAFETY: the pool exists until `drop`. Only `look` and `raw_take` use a guard, and
                // their callers have the pool.
                let pool: &'static $pool<Fresh, Box<T>> = unsafe { self.0.as_ref() };
                let mut guard = pool.get();
                **guard = value;
                Some($guarded(ManuallyDrop::new(guard)))
            }

            #[inline(always)]
            unsafe fn look<R>(&self, handle: &$guarded<T>, look: impl FnOnce(&T) -> R) -> R {
                look(&handle.0)
            }

            #[inline(always)]
            unsafe fn raw_take(&self, handle: $guarded<T>) {
                drop(ManuallyDrop::into_inner(handle.0));
            }
        }
    };
}

contender! {
    /// `opool`'s `Pool`.
    OPool, Kept, Guarded, Queue, RefGuard,
    card(
        "opool Pool",
        env!("EPHEMERA_VERSION_OPOOL"),
        Caps::GENERAL,
        "recycles initialised boxes; keeps as many as are alive at most",
    )
}

contender! {
    /// `opool`'s `LocalPool`.
    OPoolLocal, LocalKept, LocalGuarded, LocalPool, RefLocalGuard,
    card(
        "opool LocalPool",
        env!("EPHEMERA_VERSION_OPOOL"),
        Caps::LOCAL,
        "recycles initialised boxes; keeps as many as are alive at most; one thread",
    )
}
