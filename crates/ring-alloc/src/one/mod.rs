//! `OneRingAlloc`: a heap for each thread, behind one zero-sized handle.
//!
//! * `handle`: the public type.
//! * `thread`: the static state of this process, and the heap of the calling thread.
//! * `record`: the data of each record, and frees between records.
//! * `freed`: when the pages of a freed chunk return to the operating system.
//! * `idle_chunks`: how other threads purge the chunks of an idle owner.

mod freed;
#[cfg(any(test, not(ephemera_loom)))]
mod idle_chunks;
#[cfg(all(test, not(ephemera_loom)))]
mod idle_tests;
#[cfg(all(test, ephemera_loom))]
mod models;
pub(crate) mod record;
#[cfg(not(ephemera_loom))]
mod thread;

#[cfg(not(ephemera_loom))]
pub use handle::OneRingAlloc;

#[cfg(not(ephemera_loom))]
mod handle;
