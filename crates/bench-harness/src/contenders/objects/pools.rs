//! Pools for values of any type, whose handles dereference to the values. A handle is a smart
//! pointer that drops its value, or a raw slot. The pools hold objects and the nodes of data
//! structures.

use core::alloc::Layout;
use core::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use infinity_pool as infinity;
use shared_arena as ours;
use typed_arena::Arena as Bump;
use typed_pool::{PooledBox, TypedPool, pooled};
use upstream_shared_arena as upstream;

use super::free_list::FreeList;
use crate::blocks::{Contender, RawAlloc};
use crate::card::{Caps, Info};
use crate::contenders::blocks::System;
use crate::nodes::{Node, NodeFamily, Owned};
use crate::objects::{Counter, Maker, Object, WordObject};
use crate::pools::{RawPool, look_through};

/// Defines a contender that makes pools of objects, from the type of its pool and the constructor.
/// The argument of the constructor is the largest number of live objects.
macro_rules! objects {
    ($(#[$doc:meta])* $name:ident = $pool:ty, |$most:pat_param| $make:expr, $info:expr) => {
        $(#[$doc])*
        pub(crate) struct $name;

        impl Maker for $name {
            const INFO: Info = $info;
            type Pool<T: Object> = $pool;

            fn make<T: Object>($most: usize) -> $pool {
                $make
            }
        }
    };
}
pub(super) use objects;

/// Defines a contender that makes pools of objects and of nodes, from the type of its pool, the
/// constructor, and the type of its handles.
macro_rules! contender {
    ($(#[$doc:meta])* $name:ident = $pool:ty, $make:expr, $handle:ty, $info:expr) => {
        objects! { $(#[$doc])* $name = $pool, |_| $make, $info }

        impl NodeFamily for $name {
            const INFO: Info = $info;
            type Box<T: Node> = $handle;
            type Pool<T: Node> = $pool;
            type Metered = Self;
            type Backing = System;

            fn create() -> Self {
                Self
            }

            fn pool<T: Node>(&self) -> $pool {
                $make
            }
        }
    };
}

/// Implements `RawPool` for a pool whose handles are smart pointers. `$method` takes a value and
/// returns a handle.
macro_rules! pool {
    ($bound:ident: $pool:ty, $method:ident -> $handle:ty) => {
        // SAFETY: a handle owns its value, which does not move until the handle is dropped. The
        // card states which threads may allocate and free, according to the pool's documentation.
        unsafe impl<T: $bound> RawPool<T> for $pool {
            type Handle = $handle;

            #[inline(always)]
            unsafe fn raw_put(&self, value: T) -> Option<$handle> {
                Some(self.$method(value))
            }

            look_through! { T, $handle }

            #[inline(always)]
            unsafe fn raw_take(&self, handle: $handle) {
                drop(handle);
            }
        }
    };
}

/// Defines a contender from a pool with a method that takes a value and returns a smart pointer.
macro_rules! handles {
    ($(#[$doc:meta])* $name:ident = $pool:ty, $make:expr, $method:ident -> $handle:ty, $info:expr) => {
        contender! { $(#[$doc])* $name = $pool, $make, $handle, $info }
        pool! { Node: $pool, $method -> $handle }
    };
}

handles! {
    UpstreamPool = upstream::Pool<T>, upstream::Pool::new(), alloc -> upstream::PoolBox<T>,
    Info::new("upstream Pool", env!("EPHEMERA_VERSION_UPSTREAM_SHARED_ARENA"), Caps::LOCAL, "one thread")
}
handles! {
    UpstreamArena = upstream::Arena<T>, upstream::Arena::new(), alloc -> upstream::ArenaBox<T>,
    Info::new("upstream Arena", env!("EPHEMERA_VERSION_UPSTREAM_SHARED_ARENA"), Caps::MAKES_HERE, "one thread makes")
}
handles! {
    UpstreamShared = upstream::SharedArena<T>, upstream::SharedArena::new(), alloc -> upstream::ArenaBox<T>,
    Info::new("upstream SharedArena", env!("EPHEMERA_VERSION_UPSTREAM_SHARED_ARENA"), Caps::GENERAL, "")
}
handles! {
    /// plurality's `Pool` with its boxes. Any thread may drop a box, and boxes may outlive the
    /// pool.
    Plurality = plurality::Pool<T>, plurality::Pool::new(), alloc_box -> plurality::Box<T>,
    Info::new("plurality alloc_box", env!("EPHEMERA_VERSION_PLURALITY"), Caps::MAKES_HERE, "one thread makes")
}
handles! {
    /// multitude's arena with its boxes. Any thread may drop a box, and boxes may outlive the
    /// arena. A chunk is reused once its last box is dropped.
    Multitude = multitude::Arena, multitude::Arena::new(), alloc_box -> multitude::Box<T>,
    Info::new(
        "multitude alloc_box",
        env!("EPHEMERA_VERSION_MULTITUDE"),
        Caps::MAKES_HERE,
        "one thread makes; frees by the chunk",
    )
}
handles! {
    OurPool = ours::Pool<T>, ours::Pool::new(), alloc -> ours::PoolBox<T>,
    Info::new("Pool", env!("EPHEMERA_VERSION_SHARED_ARENA"), Caps::LOCAL, "one thread")
}
handles! {
    OurArena = ours::Arena<T>, ours::Arena::new(), alloc -> ours::ArenaBox<T>,
    Info::new("Arena", env!("EPHEMERA_VERSION_SHARED_ARENA"), Caps::MAKES_HERE, "one thread makes")
}
handles! {
    OurShared = ours::SharedArena<T>, ours::SharedArena::new(), alloc -> ours::ArenaBox<T>,
    Info::new("SharedArena", env!("EPHEMERA_VERSION_SHARED_ARENA"), Caps::GENERAL, "")
}
contender! {
    /// The textbook free list for one thread.
    Textbook = FreeList<T>, FreeList::new(), Owned<T>,
    Info::new("textbook free list", "none", Caps::LOCAL, "one thread; returns no memory")
}
contender! {
    /// `typed-arena`: a bump arena for objects of one type, which drops all objects at once.
    TypedArena = Bump<T>, Bump::new(), Owned<T>,
    Info::new(
        "typed-arena",
        env!("EPHEMERA_VERSION_TYPED_ARENA"),
        Caps::ARENA,
        "cannot free single objects; a new arena for each batch",
    )
}
contender! {
    /// Our `TypedPool` with raw slots. `PooledBox` needs a pool that is declared for a concrete
    /// type, so in generic structures `PooledAllocator` takes part instead.
    Typed = TypedPool<T>, TypedPool::new(), Owned<T>,
    Info::new("TypedPool", env!("EPHEMERA_VERSION_TYPED_POOL"), Caps::LOCAL, "one thread")
}

// SAFETY: the arena hands out each slot once, and a value does not move until the arena is dropped
// or reset.
unsafe impl<T: 'static> RawPool<T> for Bump<T> {
    type Handle = Owned<T>;

    #[inline(always)]
    unsafe fn raw_put(&self, value: T) -> Option<Owned<T>> {
        // SAFETY: the arena hands out each slot once, and keeps it until the arena is dropped.
        Some(unsafe { Owned::new(NonNull::from(self.alloc(value))) })
    }

    look_through! { T, Owned<T> }

    #[inline(always)]
    unsafe fn raw_take(&self, _handle: Owned<T>) {}

    fn reset(&mut self) {
        *self = Self::new();
    }
}

// SAFETY: a slot is exclusive to its value until it is freed, and units do not move.
unsafe impl<T: 'static> RawPool<T> for TypedPool<T> {
    type Handle = Owned<T>;

    #[inline(always)]
    unsafe fn raw_put(&self, value: T) -> Option<Owned<T>> {
        let slot = self.allocate().ok()?;
        // SAFETY: the pool's slots fit `T`, and the slot is exclusive to this value until it is
        // freed.
        Some(unsafe { Owned::put(slot, value) })
    }

    look_through! { T, Owned<T> }

    #[inline(always)]
    unsafe fn raw_take(&self, handle: Owned<T>) {
        // SAFETY: the caller passes the handle of a live value.
        let slot = unsafe { handle.take() };
        // SAFETY: the slot came from this pool, and its value is dropped.
        unsafe { self.deallocate(slot) };
    }
}

objects! {
    Infinity = infinity::PinnedPool<T>, |_| infinity::PinnedPool::new(),
    Info::new("infinity_pool PinnedPool", env!("EPHEMERA_VERSION_INFINITY_POOL"), Caps::GENERAL, "a lock")
}
pool! { Object: infinity::PinnedPool<T>, insert -> infinity::PooledMut<T> }
objects! {
    InfinityLocal = infinity::LocalPinnedPool<T>, |_| infinity::LocalPinnedPool::new(),
    Info::new("infinity_pool LocalPinnedPool", env!("EPHEMERA_VERSION_INFINITY_POOL"), Caps::LOCAL, "one thread")
}
pool! { Object: infinity::LocalPinnedPool<T>, insert -> infinity::LocalPooledMut<T> }
objects! {
    /// The textbook free list behind a mutex.
    LockedTextbook = Mutex<FreeList<T>>, |_| Mutex::new(FreeList::new()),
    Info::new("textbook and a mutex", "none", Caps::GENERAL, "a lock; returns no memory")
}
objects! {
    Boxed = EveryPool, |_| EveryPool,
    Info::new("PooledBox", env!("EPHEMERA_VERSION_TYPED_POOL"), Caps::GENERAL, "")
}

/// The pools that `PooledBox` uses, one for each type. Each thread has its own pools.
pub(crate) struct EveryPool;

pooled!(WordObject<1>);
pooled!(WordObject<4>);
pooled!(WordObject<5>);
pooled!(WordObject<8>);
pooled!(WordObject<32>);
pooled!(Counter);

impl EveryPool {
    #[inline(always)]
    fn put<T: Object>(&self, value: T) -> PooledBox<T> {
        PooledBox::new(value)
    }
}
pool! { Object: EveryPool, put -> PooledBox<T> }

// SAFETY: the free list upholds the contract on one thread, and the mutex extends it to all
// threads.
unsafe impl<T: Object> RawPool<T> for Mutex<FreeList<T>> {
    type Handle = Owned<T>;

    #[inline(always)]
    unsafe fn raw_put(&self, value: T) -> Option<Owned<T>> {
        // SAFETY: the caller upholds the callee's contract.
        unsafe { self.lock().unwrap_or_else(PoisonError::into_inner).raw_put(value) }
    }

    look_through! { T, Owned<T> }

    #[inline(always)]
    unsafe fn raw_take(&self, handle: Owned<T>) {
        // SAFETY: the caller upholds the callee's contract.
        unsafe { self.lock().unwrap_or_else(PoisonError::into_inner).raw_take(handle) }
    }
}

/// A pool that makes one allocation from the contender `C` for each value.
pub(crate) struct Boxes<C>(pub(crate) C);

impl<C: Contender> Maker for Boxes<C> {
    const INFO: Info = C::INFO;
    type Pool<T: Object> = Self;

    fn make<T: Object>(_objects: usize) -> Self {
        Self(C::create())
    }
}

// SAFETY: by the contract of `RawAlloc`, each block is exclusive to one value until the block is
// freed or the allocator is reset. The card says which threads may allocate and free.
unsafe impl<C: Contender, T: 'static> RawPool<T> for Boxes<C> {
    type Handle = Owned<T>;

    #[inline(always)]
    unsafe fn raw_put(&self, value: T) -> Option<Owned<T>> {
        const { assert!(size_of::<T>() > 0, "a pool over an allocator holds no values of size zero") };
        // SAFETY: the size is above zero.
        let block = unsafe { self.0.by_ref().raw_alloc(Layout::new::<T>()) };
        let slot = NonNull::new(block)?.cast::<T>();
        // SAFETY: the block fits the layout and is exclusive to this value until it is freed.
        Some(unsafe { Owned::put(slot, value) })
    }

    look_through! { T, Owned<T> }

    #[inline(always)]
    unsafe fn raw_take(&self, handle: Owned<T>) {
        // SAFETY: the caller passes the handle of a live value.
        let slot = unsafe { handle.take() };
        // SAFETY: `raw_put` took the block from this allocator, with this layout.
        unsafe { self.0.by_ref().raw_dealloc(slot.as_ptr().cast(), Layout::new::<T>()) };
    }

    fn reset(&mut self) {
        self.0.reset();
    }

    fn expect_live(&mut self, objects: usize) {
        self.0.expect_live(objects * size_of::<T>().next_multiple_of(16));
    }
}
