//! Counts the cache lines that move between cores while a program allocates and frees.
//!
//! valgrind's tool lackey prints every load and store of a real program. [`Replay`] reads that log
//! and replays the accesses on [`Caches`]: a private cache of infinite size for each core, with the
//! MESI protocol. `cargo xtask coherence` runs the program `coherence-program` over several
//! allocators and prints the counts; `docs/scaling.md` explains them.
//!
//! The program's threads take turns, so one thread runs at a time. The running thread stores to a
//! *mark* whenever it enters a *phase*, such as a call to the allocator. The mark's address encodes
//! the thread and the phase, so the log does not need thread identifiers, and the model can leave
//! out the program's own bookkeeping.

#![forbid(unsafe_code)]
#![expect(clippy::std_instead_of_alloc, clippy::std_instead_of_core, reason = "a tool that always has std")]

mod caches;
pub mod catalogue;
mod counts;
pub mod marks;
mod replay;

pub use caches::{CORES, Caches, Event, LineAccess};
pub use counts::{EventCounts, LineRegion, RegionCounts};
pub use replay::{Broken, Measured, Replay};
