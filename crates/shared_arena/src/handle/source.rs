//! Defines the traits of arenas that make counted handles, for functions that take any such arena.

use super::ArenaRc;

pub(crate) mod sealed {
    /// Implemented only by the arenas of this crate.
    #[expect(unnameable_types, reason = "that is how a trait is sealed")]
    pub trait Sealed {}
}

/// An arena that makes [`ArenaRc`] handles: every arena of this crate.
pub trait AllocRc<T>: sealed::Sealed {
    /// Puts a value into the arena.
    fn new_rc(&self, value: T) -> ArenaRc<T>;
}

/// An arena that makes [`ArenaArc`](super::ArenaArc) handles: [`SharedArena`](crate::SharedArena)
/// and [`Arena`](crate::Arena).
#[cfg(all(feature = "std", target_has_atomic = "64"))]
pub trait AllocArc<T>: sealed::Sealed {
    /// Puts a value into the arena.
    fn new_arc(&self, value: T) -> super::ArenaArc<T>;
}
