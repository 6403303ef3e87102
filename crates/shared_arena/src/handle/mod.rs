//! Defines the handles. Each handle is one pointer wide, and may outlive its arena.

#[macro_use]
mod traits;

#[cfg(all(feature = "std", target_has_atomic = "64"))]
mod arc;
#[cfg(all(feature = "std", target_has_atomic = "64"))]
mod arena_box;
mod pool_box;
mod rc;
#[cfg(all(feature = "std", target_has_atomic = "64"))]
mod weak;

#[cfg(all(feature = "std", target_has_atomic = "64"))]
pub use arc::{AllocArc, ArenaArc};
#[cfg(all(feature = "std", target_has_atomic = "64"))]
pub use arena_box::ArenaBox;
pub use pool_box::PoolBox;
pub use rc::{AllocRc, ArenaRc};
#[cfg(all(feature = "std", target_has_atomic = "64"))]
pub use weak::Weak;

pub(crate) mod sealed {
    /// A trait that only the arenas of this crate implement.
    #[expect(unnameable_types, reason = "that is how a trait is sealed")]
    pub trait Sealed {}
}
