//! jemalloc through `GlobalAlloc`. It is a C library, so no call is inlined.

use super::global::Global;
use crate::blocks::Contender;
use crate::card::{Caps, Info, MemoryBy};

/// jemalloc with its default options.
#[derive(Clone, Copy, Debug)]
pub struct Jemalloc;

impl Contender for Jemalloc {
    const INFO: Info = Info {
        name: "jemalloc",
        version: env!("EPHEMERA_VERSION_JEMALLOC"),
        caps: Caps::GENERAL,
        memory: MemoryBy::HighWater,
        notes: "C, not inlined",
    };
    type Metered = Self;
    type Backing = Self;
    type Ref<'a> = Global<tikv_jemallocator::Jemalloc>;

    fn create() -> Self {
        Self
    }

    fn by_ref(&self) -> Self::Ref<'_> {
        Global(tikv_jemallocator::Jemalloc)
    }
}
