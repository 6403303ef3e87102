//! The common parts of the ephemera allocators.
//!
//! In `ring-alloc`, `shared_arena` and `typed-pool`, one thread owns a piece of memory and
//! allocates blocks from it, and any thread may free the blocks. This crate implements the
//! ownership protocol once, for all three (`ringal` uses only other parts of this crate):
//!
//! * [`record`]: a thread's identity in one allocator. One thread at a time leases a record.
//! * [`local`]: the thread-local that binds a thread to its record, and thread exit.
//! * [`foreign`]: remote frees.
//! * [`claim`] and [`barrier`]: how another thread returns the pages of an idle owner's empty
//!   units to the operating system.
//! * [`biased`]: how another thread frees the empty units of an idle owner.
//! * `idle`: the queue of heaps whose owners may be idle. Other threads visit these heaps.
//! * [`unit_list`]: the list of all units of an owner, which other threads read for statistics.
//! * [`rest`]: the delay before an owner reuses memory that another thread freed.
//! * [`word`]: words that one thread writes and others read.
//! * [`epoch`]: how one thread asks all others to trim.
//! * [`pages`]: memory from the operating system.
//! * [`gate`] and [`fork`]: a lock that a thread tries a bounded number of times, and that a forked
//!   child can take over.
//! * [`account`] and [`large`]: the limit on the bytes of a pool, and its large blocks.
//!
//! The other modules are utilities: raw memory and the lookup of headers ([`raw`], [`poison`],
//! [`prefetch`]), a selection without a branch ([`select`](mod@select)), a line of statistics
//! ([`summary`]), the allocator traits ([`traits`], [`backing`]), and checks for debug builds and
//! models ([`invariant!`], [`witness`], [`sync`], [`weaken`]).
//!
//! The API of this crate is not stable. Depend on the allocators instead.
#![doc = include_str!("../DESIGN.md")]
#![no_std]
#![cfg_attr(all(feature = "nightly", not(ephemera_std_allocator)), feature(allocator_api))]
#![expect(clippy::new_without_default, reason = "no code creates these types through `Default`")]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

#[macro_use]
pub mod weaken;

pub mod account;
pub mod backing;
pub mod barrier;
pub mod biased;
pub mod claim;
pub mod epoch;
pub mod foreign;
pub mod fork;
pub mod gate;
#[cfg(any(ephemera_pages, feature = "alloc"))]
pub mod idle;
pub mod invariant;
pub mod large;
#[cfg(feature = "std")]
pub mod local;
#[cfg(any(ephemera_pages, feature = "alloc"))]
pub mod pages;
pub mod poison;
pub mod prefetch;
pub mod raw;
#[cfg(any(ephemera_pages, feature = "alloc"))]
pub mod record;
pub mod rest;
pub mod select;
pub mod summary;
pub mod sync;
pub mod traits;
pub mod unit_list;
pub mod witness;
pub mod word;

#[cfg(all(test, feature = "alloc", ephemera_loom))]
mod models;
