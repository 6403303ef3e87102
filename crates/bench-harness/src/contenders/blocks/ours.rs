//! `ring-alloc` of this workspace.

use core::fmt;

use allocator_api2::alloc::{Allocator, Global};
use ring_alloc as ours;

use super::System;
use super::api02::Api02;
use crate::backing::Counting;
use crate::blocks::Contender;
use crate::card::{Caps, Info, MemoryBy};

/// Our `RingAlloc` over `A`.
pub struct Ring<A: Allocator>(ours::RingAlloc<A>);

impl<A: Allocator> fmt::Debug for Ring<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}

impl<A: Allocator + Clone + Default + 'static> Contender for Ring<A> {
    const INFO: Info = Info {
        name: "RingAlloc",
        version: env!("EPHEMERA_VERSION_RING_ALLOC"),
        caps: Caps::LOCAL,
        memory: MemoryBy::Backing,
        notes: "one thread",
    };
    type Metered = Ring<Counting>;
    type Backing = System;
    type Ref<'a> = Api02<&'a ours::RingAlloc<A>>;

    fn create() -> Self {
        Self(ours::RingAlloc::new_in(A::default()))
    }

    fn by_ref(&self) -> Self::Ref<'_> {
        Api02(&self.0)
    }
}

/// Our `OneRingAlloc`.
#[derive(Clone, Copy, Debug)]
pub struct OneRing;

impl Contender for OneRing {
    const INFO: Info = Info {
        name: "OneRingAlloc",
        version: env!("EPHEMERA_VERSION_RING_ALLOC"),
        caps: Caps::GENERAL,
        memory: MemoryBy::HighWater,
        notes: "",
    };
    type Metered = Self;
    type Backing = System;
    type Ref<'a> = Api02<ours::OneRingAlloc>;

    fn create() -> Self {
        Self
    }

    fn by_ref(&self) -> Self::Ref<'_> {
        Api02(ours::OneRingAlloc)
    }
}

/// Our `RingAlloc` as it is used.
pub type DefaultRing = Ring<Global>;
