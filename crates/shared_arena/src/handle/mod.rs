//! Defines the handles. Each is one pointer wide, and may outlive its arena.

#[macro_use]
mod traits;

#[cfg(all(feature = "std", target_has_atomic = "64"))]
mod arc;
#[cfg(all(feature = "std", target_has_atomic = "64"))]
mod arena_box;
mod pool_box;
mod rc;
mod source;
#[cfg(all(feature = "std", target_has_atomic = "64"))]
mod weak;

#[cfg(all(feature = "std", target_has_atomic = "64"))]
pub use arc::ArenaArc;
#[cfg(all(feature = "std", target_has_atomic = "64"))]
pub use arena_box::ArenaBox;
pub use pool_box::PoolBox;
pub use rc::ArenaRc;
#[cfg(all(feature = "std", target_has_atomic = "64"))]
pub use source::AllocArc;
pub use source::AllocRc;
pub(crate) use source::sealed;
#[cfg(all(feature = "std", target_has_atomic = "64"))]
pub use weak::Weak;
