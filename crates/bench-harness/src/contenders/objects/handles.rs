//! Pools whose handle is a smart pointer that drops its object by itself: ours, their namesake, and newer ones.

use core::ops::Deref;

use infinity_pool as infinity;
use shared_arena as ours;
use upstream_shared_arena as upstream;

use crate::card::{Caps, Info, MemoryBy};
use crate::objects::{Maker, Object, RawPool};

/// A card of such a pool.
const fn card(name: &'static str, version: &'static str, caps: Caps, notes: &'static str) -> Info {
    Info { name, version, caps, memory: MemoryBy::HighWater, notes }
}

/// One thread makes objects, any thread drops them.
const MAKES_HERE: Caps = Caps { shared_alloc: false, ..Caps::GENERAL };

/// Makes a contender of a type with a constructor and a method that takes a value and returns a smart pointer.
macro_rules! contender {
    ($(#[$doc:meta])* $name:ident = $pool:ty, $make:expr, $method:ident -> $handle:ty, $info:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl Maker for $name {
            const INFO: Info = $info;
            type Pool<T: Object> = Handles<$pool>;

            fn make<T: Object>() -> Self::Pool<T> {
                Handles($make)
            }
        }

        // SAFETY: a handle is the owner of an object of its own; which threads may do what, the card says as the pool's
        // documentation has it.
        unsafe impl<T: Object> RawPool<T> for Handles<$pool> {
            type Handle = $handle;

            #[inline(always)]
            fn raw_put(&self, value: T) -> Option<$handle> {
                Some(self.0.$method(value))
            }

            #[inline(always)]
            unsafe fn look<R>(&self, handle: &$handle, look: impl FnOnce(&T) -> R) -> R {
                look(handle.deref())
            }

            #[inline(always)]
            unsafe fn raw_take(&self, handle: $handle) {
                drop(handle);
            }
        }
    };
}

/// A pool whose handles are smart pointers.
#[derive(Debug)]
pub struct Handles<P>(P);

contender! {
    /// The published `Pool`.
    UpstreamPool = upstream::Pool<T>, upstream::Pool::new(), alloc -> upstream::PoolBox<T>,
    card("upstream Pool", env!("EPHEMERA_VERSION_UPSTREAM_SHARED_ARENA"), Caps::LOCAL, "one thread")
}

contender! {
    /// The published `Arena`.
    UpstreamArena = upstream::Arena<T>, upstream::Arena::new(), alloc -> upstream::ArenaBox<T>,
    card("upstream Arena", env!("EPHEMERA_VERSION_UPSTREAM_SHARED_ARENA"), MAKES_HERE, "one thread makes")
}

contender! {
    /// The published `SharedArena`.
    UpstreamShared = upstream::SharedArena<T>, upstream::SharedArena::new(), alloc -> upstream::ArenaBox<T>,
    card("upstream SharedArena", env!("EPHEMERA_VERSION_UPSTREAM_SHARED_ARENA"), Caps::GENERAL, "")
}

contender! {
    /// plurality's `Pool`, by its boxes: they are dropped on any thread and outlive the pool, as ours do.
    Plurality = plurality::Pool<T>, plurality::Pool::new(), alloc_box -> plurality::Box<T>,
    card("plurality alloc_box", env!("EPHEMERA_VERSION_PLURALITY"), MAKES_HERE, "one thread makes")
}

contender! {
    /// multitude's arena, by its boxes: they are dropped on any thread and outlive it. A chunk is used again when its last
    /// box is gone.
    Multitude = multitude::Arena, multitude::Arena::new(), alloc_box -> multitude::Box<T>,
    card("multitude alloc_box", env!("EPHEMERA_VERSION_MULTITUDE"), MAKES_HERE, "one thread makes; frees by the chunk")
}

contender! {
    /// infinity_pool's `PinnedPool`.
    Infinity = infinity::PinnedPool<T>, infinity::PinnedPool::new(), insert -> infinity::PooledMut<T>,
    card("infinity_pool PinnedPool", env!("EPHEMERA_VERSION_INFINITY_POOL"), Caps::GENERAL, "a lock")
}

contender! {
    /// infinity_pool's `LocalPinnedPool`.
    InfinityLocal = infinity::LocalPinnedPool<T>, infinity::LocalPinnedPool::new(), insert -> infinity::LocalPooledMut<T>,
    card("infinity_pool LocalPinnedPool", env!("EPHEMERA_VERSION_INFINITY_POOL"), Caps::LOCAL, "one thread")
}

contender! {
    /// Our `Pool`.
    OurPool = ours::Pool<T>, ours::Pool::new(), alloc -> ours::PoolBox<T>,
    card("Pool", env!("EPHEMERA_VERSION_SHARED_ARENA"), Caps::LOCAL, "one thread")
}

contender! {
    /// Our `Arena`.
    OurArena = ours::Arena<T>, ours::Arena::new(), alloc -> ours::ArenaBox<T>,
    card("Arena", env!("EPHEMERA_VERSION_SHARED_ARENA"), MAKES_HERE, "one thread makes")
}

contender! {
    /// Our `SharedArena`.
    OurShared = ours::SharedArena<T>, ours::SharedArena::new(), alloc -> ours::ArenaBox<T>,
    card("SharedArena", env!("EPHEMERA_VERSION_SHARED_ARENA"), Caps::GENERAL, "")
}
