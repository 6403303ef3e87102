//! The allocators of this workspace, and the published versions of `ring-alloc`.

use core::fmt;

use allocator_api2::alloc::{Allocator, Global};

use super::System;
use super::api02::Api02;
use crate::backing::CountingBacking;
use crate::blocks::Contender;
use crate::card::{Caps, Info, MemoryBy};

/// Defines a contender for an allocator without state.
macro_rules! stateless {
    ($(#[$doc:meta])* $contender:ident, $allocator:path, $name:literal, $version:literal, $caps:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $contender;

        impl Contender for $contender {
            const INFO: Info = Info {
                name: $name,
                version: env!($version),
                caps: $caps,
                memory: MemoryBy::HighWater,
                notes: "",
            };
            type Metered = Self;
            type Backing = System;
            type Ref<'a> = Api02<$allocator>;

            fn create() -> Self {
                Self
            }

            fn by_ref(&self) -> Self::Ref<'_> {
                Api02($allocator)
            }
        }
    };
}

/// Defines a contender for a ring of one thread over a backing allocator.
macro_rules! local {
    ($(#[$doc:meta])* $contender:ident, $ring:ident, $name:literal, $version:literal, $caps:expr) => {
        $(#[$doc])*
        pub struct $contender<A: Allocator = Global>($ring::RingAlloc<A>);

        impl<A: Allocator> fmt::Debug for $contender<A> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($contender)).finish_non_exhaustive()
            }
        }

        impl<A: Allocator + Clone + Default + 'static> Contender for $contender<A> {
            const INFO: Info = Info {
                name: $name,
                version: env!($version),
                caps: $caps,
                memory: MemoryBy::Backing,
                notes: "one thread",
            };
            type Metered = $contender<CountingBacking>;
            type Backing = System;
            type Ref<'a> = Api02<&'a $ring::RingAlloc<A>>;

            fn create() -> Self {
                Self($ring::RingAlloc::new_in(A::default()))
            }

            fn by_ref(&self) -> Self::Ref<'_> {
                Api02(&self.0)
            }
        }
    };
}

local! {
    /// Our `RingAlloc`.
    OurRing, ring_alloc, "RingAlloc", "EPHEMERA_VERSION_RING_ALLOC", Caps::LOCAL
}
stateless! {
    /// Our `OneRingAlloc`.
    OurOneRing, ring_alloc::OneRingAlloc, "OneRingAlloc", "EPHEMERA_VERSION_RING_ALLOC", Caps::GENERAL
}
stateless! {
    /// Our `PooledAllocator`.
    OurPooled, typed_pool::PooledAllocator, "PooledAllocator", "EPHEMERA_VERSION_TYPED_POOL", Caps::GENERAL
}
local! {
    /// The published `RingAlloc`.
    UpstreamRing,
    upstream_ring_alloc,
    "upstream RingAlloc",
    "EPHEMERA_VERSION_UPSTREAM_RING_ALLOC",
    Caps { grow_in_place: false, ..Caps::LOCAL }
}
stateless! {
    /// The published `OneRingAlloc`. At thread exit it writes to memory that it has freed, which
    /// corrupts the heap of the whole process.
    UpstreamOneRing,
    upstream_ring_alloc::OneRingAlloc,
    "upstream OneRingAlloc",
    "EPHEMERA_VERSION_UPSTREAM_RING_ALLOC",
    Caps { grow_in_place: false, threads_end: false, ..Caps::GENERAL }
}
