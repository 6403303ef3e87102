//! Records each call that a program makes to its allocator: the block, its size, the thread and
//! the time.
//!
//! The recorder writes into a file that is mapped into the process ([`format`](mod@format)). The
//! kernel owns the written bytes, so the trace is complete up to the last call, however the
//! program ends. Each thread writes to its own packets, without a lock. The recorder is preloaded
//! into unmodified programs (feature `preload`, `cargo xtask record`), or wraps the global
//! allocator of a Rust program ([`TraceAlloc`]).
//!
//! This crate also reads traces. [`Trace`] merges the events of all threads into one sequence,
//! [`Book`] maps addresses to blocks, and [`Summary`] counts events, blocks and bytes. [`Writer`]
//! creates traces for tests and generators.
//!
//! `DESIGN.md` lists the invariants.

#![expect(clippy::std_instead_of_alloc, reason = "a tool of a host; `alloc` is a module of it")]
#![cfg_attr(docsrs, doc = include_str!("../DESIGN.md"))]

#[macro_use]
extern crate ephemera_prim;

mod book;
mod error;
pub mod format;
mod reader;
mod shown;
mod summary;
mod timing;
mod writer;

#[cfg(target_os = "linux")]
mod alloc;
#[cfg(target_os = "linux")]
mod file;
#[cfg(target_os = "linux")]
mod list;
#[cfg(target_os = "linux")]
mod lock;
#[cfg(target_os = "linux")]
mod os;
#[cfg(all(target_os = "linux", feature = "preload"))]
mod preload;
#[cfg(target_os = "linux")]
mod process;
#[cfg(all(target_os = "linux", feature = "preload"))]
mod real;
#[cfg(target_os = "linux")]
mod stream;
#[cfg(target_os = "linux")]
mod tls;

#[cfg(target_os = "linux")]
pub use self::alloc::TraceAlloc;
pub use self::book::{Book, BookStep, Id, LiveBlock};
pub use self::error::{StartError, TraceError};
#[cfg(target_os = "linux")]
pub use self::process::start;
pub use self::reader::{Events, RunEnd, Trace, TraceEvent, What};
pub use self::summary::{Summary, grouped};
pub use self::timing::{OperationTimes, ThreadClocks, TimeSample, Timing};
pub use self::writer::Writer;

/// The environment variable with the path of the trace. The recorder appends `.` and the process
/// ID, then `.` and a number if that file exists.
pub const PATH_VARIABLE: &str = "EPHEMERA_TRACE";

/// The environment variable with the limit of a trace, in bytes.
pub const LIMIT_VARIABLE: &str = "EPHEMERA_TRACE_LIMIT";

/// The default limit of a trace in bytes: 1 GiB, enough for about 100 million calls.
pub const DEFAULT_LIMIT: u64 = 1 << 30;

/// The maximum length of a trace's path in bytes, before the recorder appends its suffix.
pub const LONGEST_PATH: usize = 2023;

#[cfg(test)]
mod tests;
