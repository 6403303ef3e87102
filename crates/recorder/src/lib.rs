//! Records what a program asks of its allocator: every block, its size, its thread, and when it went.
//!
//! The recorder writes into a file that is mapped into the process, thread by thread, chunk by chunk ([`format`](mod@format)), so that a
//! trace is whole up to the last call however the program ends. It is preloaded into programs that know nothing of it
//! (feature `preload`, `cargo xtask record`), or wraps the global allocator of a Rust program ([`TraceAlloc`]).
//!
//! The other half reads: [`Trace`] merges the threads into one sequence of events, [`Book`] turns addresses into blocks,
//! [`Summary`] counts. [`Writer`] makes traces by hand.
//!
//! `DESIGN.md` has the invariants.

#![expect(clippy::std_instead_of_alloc, reason = "a tool of a host; `alloc` is a module of it")]
#![cfg_attr(docsrs, doc = include_str!("../DESIGN.md"))]

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
pub use self::book::{Block, Book, Id, Step};
pub use self::error::{Error, StartError};
#[cfg(target_os = "linux")]
pub use self::process::start;
pub use self::reader::{End, Event, Events, Trace, What};
pub use self::summary::{Summary, grouped};
pub use self::timing::{Kind, Sample, Thread, Timing};
pub use self::writer::Writer;

/// Names the trace: where the preloaded recorder finds its path. It appends `.` and the number of its process.
pub const PATH_VARIABLE: &str = "EPHEMERA_TRACE";

/// Says how many bytes a trace may have.
pub const LIMIT_VARIABLE: &str = "EPHEMERA_TRACE_LIMIT";

/// The limit where none is said: 1 GiB, some 100 million calls.
pub const DEFAULT_LIMIT: u64 = 1 << 30;

/// Bytes that the path of a trace may have before the recorder appends to it.
pub const LONGEST_PATH: usize = 2023;

#[cfg(test)]
mod tests;
