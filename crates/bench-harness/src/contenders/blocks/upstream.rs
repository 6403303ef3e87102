//! `ring-alloc` 0.2.0 as published.

use core::fmt;

use allocator_api2::alloc::{Allocator, Global};
use upstream_ring_alloc as published;

use super::System;
use super::api02::Api02;
use crate::backing::Counting;
use crate::blocks::Contender;
use crate::card::{Caps, Info, MemoryBy};

/// The published `RingAlloc` over `A`.
pub struct Ring<A: Allocator>(published::RingAlloc<A>);

impl<A: Allocator> fmt::Debug for Ring<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}

impl<A: Allocator + Clone + Default + 'static> Contender for Ring<A> {
    const INFO: Info = Info {
        name: "upstream RingAlloc",
        version: env!("EPHEMERA_VERSION_UPSTREAM_RING_ALLOC"),
        caps: Caps { grow_in_place: false, ..Caps::LOCAL },
        memory: MemoryBy::Backing,
        notes: "one thread",
    };
    type Metered = Ring<Counting>;
    type Backing = System;
    type Ref<'a> = Api02<&'a published::RingAlloc<A>>;

    fn create() -> Self {
        Self(published::RingAlloc::new_in(A::default()))
    }

    fn by_ref(&self) -> Self::Ref<'_> {
        Api02(&self.0)
    }
}

/// The published `OneRingAlloc`.
#[derive(Clone, Copy, Debug)]
pub struct OneRing;

impl Contender for OneRing {
    const INFO: Info = Info {
        name: "upstream OneRingAlloc",
        version: env!("EPHEMERA_VERSION_UPSTREAM_RING_ALLOC"),
        // Its state for a thread writes to memory that it freed, when the thread ends: the whole process's heap is spoilt.
        caps: Caps { grow_in_place: false, threads_end: false, ..Caps::GENERAL },
        memory: MemoryBy::HighWater,
        notes: "",
    };
    type Metered = Self;
    type Backing = System;
    type Ref<'a> = Api02<published::OneRingAlloc>;

    fn create() -> Self {
        Self
    }

    fn by_ref(&self) -> Self::Ref<'_> {
        Api02(published::OneRingAlloc)
    }
}

/// The published `RingAlloc` as it is used.
pub type DefaultRing = Ring<Global>;
