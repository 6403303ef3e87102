//! Allocators for one thread: rings, multitude, and bump arenas, which free all their blocks at
//! once in a reset. Most of them accept a backing allocator. In the memory pass, these run over a
//! backing allocator that counts the bytes they hold.

use allocator_api2::alloc::{Allocator, Global};
use allocator_api2_04::alloc as v04;
use blink_alloc::BlinkAlloc;
use bump_scope::alloc::compat::AllocatorApi2V02Compat as Compat;
use multitude::Arena;

use super::{Api02, Api04, System};
use crate::backing::CountingBacking;
use crate::blocks::Contender;
use crate::card::{Caps, Info};

/// Defines a contender over a backing allocator. If `$reset` names a method, workloads call it
/// after each batch of allocations, and the measured time includes that call.
macro_rules! local {
    (
        $(#[$doc:meta])*
        $name:ident<$backing:ident: $bound:path = $usual:ty> = $alloc:ty, $new:expr, $adapter:ident, $info:expr
        $(, $reset:ident)?
    ) => {
        $(#[$doc])*
        pub(crate) struct $name<$backing: $bound + Clone = $usual>($alloc);

        impl<$backing: $bound + Clone + Default + 'static> Contender for $name<$backing> {
            const INFO: Info = Info { counted: true, ..$info };
            type Metered = $name<CountingBacking>;
            type Backing = System;
            type Ref<'a> = $adapter<&'a $alloc>;

            fn create() -> Self {
                Self($new($backing::default()))
            }

            fn by_ref(&self) -> Self::Ref<'_> {
                $adapter(&self.0)
            }

            $(fn reset(&mut self) {
                self.0.$reset();
            })?
        }
    };
}

local! {
    UpstreamRing<A: Allocator = Global> =
        upstream_ring_alloc::RingAlloc<A>, upstream_ring_alloc::RingAlloc::new_in, Api02,
    Info::new(
        "upstream RingAlloc",
        env!("EPHEMERA_VERSION_UPSTREAM_RING_ALLOC"),
        Caps::LOCAL,
        "one thread",
    )
}
local! {
    /// bump-scope with its default settings. It can reuse the last block once that block is freed.
    BumpScope<A: Allocator = Global> =
        bump_scope::Bump<Compat<A>>, |backing| bump_scope::Bump::new_in(Compat(backing)), Api02,
    Info::new("bump-scope", env!("EPHEMERA_VERSION_BUMP_SCOPE"), Caps::ARENA, "reuses only its last block; reset"),
    reset
}
local! {
    /// blink-alloc. On a free, version 0.4.0 compares the start of the block with its cursor, which
    /// is at the end of the last block. The two never match, so this contender does not reuse any
    /// block before a reset.
    Blink<A: v04::Allocator = v04::Global> = BlinkAlloc<A>, BlinkAlloc::new_in, Api04,
    Info::new("blink-alloc", env!("EPHEMERA_VERSION_BLINK_ALLOC"), Caps::ARENA, "reuses no single block; reset"),
    reset
}
local! {
    /// multitude, whose chunks count their live blocks. It reuses a chunk once none of the chunk's
    /// blocks is live.
    Chunked<A: v04::Allocator = v04::Global> = Arena<A>, Arena::new_in, Api02,
    Info::new("multitude", env!("EPHEMERA_VERSION_MULTITUDE"), Caps::LOCAL, "one thread; frees by the chunk")
}

/// `RingAlloc` over pages, as `RingAlloc::new` creates it. Its peak is the resident memory of the
/// process, which includes the cache of freed pages.
pub(crate) struct OurRing(ring_alloc::RingAlloc);

impl Contender for OurRing {
    const INFO: Info = Info::new("RingAlloc", env!("EPHEMERA_VERSION_RING_ALLOC"), Caps::LOCAL, "one thread");
    type Metered = Self;
    type Backing = System;
    type Ref<'a> = Api02<&'a ring_alloc::RingAlloc>;

    fn create() -> Self {
        Self(ring_alloc::RingAlloc::new())
    }

    fn by_ref(&self) -> Self::Ref<'_> {
        Api02(&self.0)
    }
}

/// bumpalo, which can reuse the last block once that block is freed. It does not accept a backing
/// allocator.
pub(crate) struct Bumpalo(bumpalo::Bump);

impl Contender for Bumpalo {
    const INFO: Info = Info::new(
        "bumpalo",
        env!("EPHEMERA_VERSION_BUMPALO"),
        Caps::ARENA,
        "reuses only its last block; reset",
    );
    type Metered = Self;
    type Backing = System;
    type Ref<'a> = Api02<&'a bumpalo::Bump>;

    fn create() -> Self {
        Self(bumpalo::Bump::new())
    }

    fn by_ref(&self) -> Self::Ref<'_> {
        Api02(&self.0)
    }

    fn reset(&mut self) {
        self.0.reset();
    }
}
