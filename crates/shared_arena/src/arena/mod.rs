//! Defines the three arenas and their builder.

mod builder;
#[macro_use]
mod methods;
#[cfg(all(feature = "std", target_has_atomic = "64"))]
mod local;
mod pool;
#[cfg(all(feature = "std", target_has_atomic = "64"))]
mod shared;

pub use builder::{Build, Builder, Trim};
#[cfg(all(feature = "std", target_has_atomic = "64"))]
pub use local::Arena;
pub use pool::Pool;
#[cfg(all(feature = "std", target_has_atomic = "64"))]
pub use shared::SharedArena;

#[cfg(all(test, feature = "std", target_has_atomic = "64"))]
mod tests;
