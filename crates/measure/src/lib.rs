//! The common parts of measurements: statistics, the process's own counters, pictures and HTML
//! pages.
//!
//! `bench-harness`, `trace` and `xtask` use the crate. The crate depends on no allocator and builds
//! in seconds.

pub mod host;
pub mod os;
pub mod page;
pub mod picture;
pub mod stats;
pub mod turns;
