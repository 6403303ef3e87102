//! `OneRingAlloc`: a heap for each thread, behind one zero-sized handle.

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
