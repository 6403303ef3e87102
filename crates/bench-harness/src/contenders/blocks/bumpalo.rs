//! bumpalo: a bump arena. It reuses the last block at once and everything else after a reset.

use bumpalo::Bump;

use super::System;
use super::api02::Api02;
use crate::blocks::Contender;
use crate::card::{Caps, Info, MemoryBy};

/// An arena that is reset after every sample or batch within the measured time.
#[derive(Debug)]
pub struct Bumpalo(Bump);

impl Contender for Bumpalo {
    const INFO: Info = Info {
        name: "bumpalo",
        version: env!("EPHEMERA_VERSION_BUMPALO"),
        caps: Caps::ARENA,
        memory: MemoryBy::HighWater,
        notes: "reuses only its last block; reset",
    };
    type Metered = Self;
    type Backing = System;
    type Ref<'a> = Api02<&'a Bump>;

    fn create() -> Self {
        Self(Bump::new())
    }

    fn by_ref(&self) -> Self::Ref<'_> {
        Api02(&self.0)
    }

    fn reset(&mut self) {
        self.0.reset();
    }
}
