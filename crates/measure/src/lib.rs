//! The common parts of measurements: statistics, facts about the host, the counters of a process,
//! lanes of work, progress bars, tables, pictures, HTML pages, and the types of `summary.json` and
//! `icount.json`.
//!
//! `bench-harness`, `trace` and `xtask` use this crate, which does not depend on an allocator and
//! builds in seconds.

pub mod grid;
pub mod host;
pub mod lanes;
pub mod os;
pub mod page;
pub mod picture;
pub mod progress;
pub mod stats;
pub mod summary;
pub mod turns;
pub mod valgrind;
