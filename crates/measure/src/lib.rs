//! The common parts of measurements: statistics, the process's own counters, pictures and pages.
//!
//! The crate has no contender and builds in seconds. The benchmark harness and the crate of traces
//! stand on it.

pub mod host;
pub mod os;
pub mod page;
pub mod picture;
pub mod stats;
pub mod turns;
