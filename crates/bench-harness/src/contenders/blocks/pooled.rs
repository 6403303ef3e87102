//! `PooledAllocator` of this workspace's `typed-pool`.

use typed_pool::PooledAllocator;

use super::System;
use super::api02::Api02;
use crate::blocks::Contender;
use crate::card::{Caps, Info, MemoryBy};

/// Our `PooledAllocator`.
#[derive(Clone, Copy, Debug)]
pub struct Pooled;

impl Contender for Pooled {
    const INFO: Info = Info {
        name: "PooledAllocator",
        version: env!("EPHEMERA_VERSION_TYPED_POOL"),
        caps: Caps::GENERAL,
        memory: MemoryBy::HighWater,
        notes: "",
    };
    type Metered = Self;
    type Backing = System;
    type Ref<'a> = Api02<PooledAllocator>;

    fn create() -> Self {
        Self
    }

    fn by_ref(&self) -> Self::Ref<'_> {
        Api02(PooledAllocator)
    }
}
