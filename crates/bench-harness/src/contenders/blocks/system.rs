//! The system's allocator (glibc on Linux) through `std::alloc::System`. It is the reference of
//! every table.

use std::alloc::System as Malloc;

use super::global::Global;
use crate::blocks::Contender;
use crate::card::{Caps, Info, MemoryBy};

/// The system's allocator.
#[derive(Clone, Copy, Debug)]
pub struct System;

impl Contender for System {
    const INFO: Info = Info {
        name: if cfg!(target_env = "gnu") { "glibc" } else { "system" },
        version: "",
        caps: Caps::GENERAL,
        memory: MemoryBy::HighWater,
        notes: "reference",
    };
    type Metered = Self;
    type Backing = Self;
    type Ref<'a> = Global<Malloc>;

    fn create() -> Self {
        Self
    }

    fn by_ref(&self) -> Global<Malloc> {
        Global(Malloc)
    }
}
