//! The arenas that make counted handles, for functions that take any of them.

use super::ArenaRc;

pub(crate) mod sealed {
    /// Implemented by the arenas of this crate alone.
    #[expect(unnameable_types, reason = "that is how a trait is sealed")]
    pub trait Sealed {}
}

/// An arena that makes [`ArenaRc`] handles: all of this crate's.
pub trait AllocRc<T>: sealed::Sealed {
    /// Puts a value into the arena.
    fn new_rc(&self, value: T) -> ArenaRc<T>;
}

/// An arena that makes [`ArenaArc`](super::ArenaArc) handles: [`SharedArena`](crate::SharedArena) and [`Arena`](crate::Arena).
#[cfg(all(feature = "std", target_has_atomic = "64"))]
pub trait AllocArc<T>: sealed::Sealed {
    /// Puts a value into the arena.
    fn new_arc(&self, value: T) -> super::ArenaArc<T>;
}
