//! Ring of chunks for memory that does not live long.
#![no_std]

#[cfg(feature = "std")]
extern crate std;

mod account;
mod chunk;
mod cursor;
mod geometry;
mod heap;
mod live;
#[cfg(all(feature = "std", target_has_atomic = "64"))]
mod one;
mod ring;
mod stats;

pub use geometry::{Geometry, Standard};
#[cfg(all(feature = "std", target_has_atomic = "64", not(ephemera_loom)))]
pub use one::OneRingAlloc;
pub use ring::{Builder, RingAlloc};
pub use stats::{ClassStats, Stats};
