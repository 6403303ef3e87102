//! snmalloc through `GlobalAlloc`. It is a C++ library, so no call is inlined.

use super::global::Global;
use crate::blocks::Contender;
use crate::card::{Caps, Info, MemoryBy};

/// snmalloc, without its checks.
#[derive(Clone, Copy, Debug)]
pub struct SnMalloc;

impl Contender for SnMalloc {
    const INFO: Info = Info {
        name: "snmalloc",
        version: env!("EPHEMERA_VERSION_SNMALLOC"),
        caps: Caps::GENERAL,
        memory: MemoryBy::HighWater,
        notes: "C++, not inlined",
    };
    type Metered = Self;
    type Backing = Self;
    type Ref<'a> = Global<snmalloc_rs::SnMalloc>;

    fn create() -> Self {
        Self
    }

    fn by_ref(&self) -> Self::Ref<'_> {
        Global(snmalloc_rs::SnMalloc)
    }
}
