//! Implements `OneRingAlloc`: a heap for each thread, and a zero-sized handle to all of these
//! heaps.
//!
//! * `handle`: the public type.
//! * `thread`: the static state of the process, and the heap of the calling thread.
//! * `record`: the data of each record, and remote frees.
//! * `idle_chunks`: how other threads free or purge the chunks of an idle owner.

#[cfg(not(ephemera_loom))]
mod handle;
mod idle_chunks;
#[cfg(all(test, not(ephemera_loom)))]
mod idle_tests;
#[cfg(all(test, ephemera_loom))]
mod models;
pub(crate) mod record;
#[cfg(all(test, not(ephemera_loom)))]
mod sparse_tests;
#[cfg(not(ephemera_loom))]
mod thread;

#[cfg(not(ephemera_loom))]
pub use handle::OneRingAlloc;
