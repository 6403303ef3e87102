//! multitude: a bump arena whose chunks count what lies in them. A chunk whose blocks are all freed is used again.

use core::fmt;

use allocator_api2_04::alloc::Global;
use multitude::Arena;

use super::System;
use super::api02::Api02;
use super::blink::Backing;
use crate::backing::CountingBacking;
use crate::blocks::Contender;
use crate::card::{Caps, Info, MemoryBy};

/// An arena over `A`, by its `Allocator`.
pub struct Chunked<A: Backing + Clone>(Arena<A>);

impl<A: Backing + Clone> fmt::Debug for Chunked<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunked").finish_non_exhaustive()
    }
}

impl<A: Backing + Clone> Contender for Chunked<A> {
    const INFO: Info = Info {
        name: "multitude",
        version: env!("EPHEMERA_VERSION_MULTITUDE"),
        caps: Caps::LOCAL,
        memory: MemoryBy::Backing,
        notes: "one thread; frees by the chunk",
    };
    type Metered = Chunked<CountingBacking>;
    type Backing = System;
    type Ref<'a> = Api02<&'a Arena<A>>;

    fn create() -> Self {
        Self(Arena::new_in(A::default()))
    }

    fn by_ref(&self) -> Self::Ref<'_> {
        Api02(&self.0)
    }
}

/// multitude as it is used.
pub type Multitude = Chunked<Global>;
