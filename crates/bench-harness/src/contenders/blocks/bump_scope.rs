//! bump-scope: a bump arena. It reuses the last block at once and everything else after a reset.

use core::fmt;

use allocator_api2::alloc::{Allocator, Global};
use bump_scope::Bump;
use bump_scope::alloc::compat::AllocatorApi2V02Compat as Compat;

use super::System;
use super::api02::Api02;
use crate::backing::CountingBacking;
use crate::blocks::Contender;
use crate::card::{Caps, Info, MemoryBy};

/// An arena over `A` with the default settings, reset after every sample or batch within the
/// measured time.
pub struct ScopeBlocks<A: Allocator + Clone>(Bump<Compat<A>>);

impl<A: Allocator + Clone> fmt::Debug for ScopeBlocks<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopeBlocks").finish_non_exhaustive()
    }
}

impl<A: Allocator + Clone + Default + 'static> Contender for ScopeBlocks<A> {
    const INFO: Info = Info {
        name: "bump-scope",
        version: env!("EPHEMERA_VERSION_BUMP_SCOPE"),
        caps: Caps::ARENA,
        memory: MemoryBy::Backing,
        notes: "reuses only its last block; reset",
    };
    type Metered = ScopeBlocks<CountingBacking>;
    type Backing = System;
    type Ref<'a> = Api02<&'a Bump<Compat<A>>>;

    fn create() -> Self {
        Self(Bump::new_in(Compat(A::default())))
    }

    fn by_ref(&self) -> Self::Ref<'_> {
        Api02(&self.0)
    }

    fn reset(&mut self) {
        self.0.reset();
    }
}

/// bump-scope as it is used.
pub type BumpScope = ScopeBlocks<Global>;
