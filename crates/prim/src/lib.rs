//! What the ephemera allocators `ring-alloc`, `shared_arena` and `typed-pool` have in common.
//!
//! One thread owns a piece of memory and allocates from it. Any thread may free a block of it. This
//! crate implements that protocol once:
//!
//! * [`record`]: the identity of a thread, which threads lease one after the other.
//! * [`local`]: the thread-local that binds a thread to its record, and thread exit.
//! * [`foreign`]: remote frees.
//! * [`unit_list`]: the list of all units of an owner, which statistics read from other threads.
//!
//! The other modules are raw memory ([`raw`], [`poison`]), address arithmetic ([`align`]), the
//! lookup of headers ([`header`]) and the allocator traits ([`traits`], [`backing`]).
//!
//! This crate makes no promise of stability. Depend on the allocators instead.
#![doc = include_str!("../DESIGN.md")]
#![no_std]
#![cfg_attr(all(feature = "nightly", not(ephemera_std_allocator)), feature(allocator_api))]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod align;
pub mod backing;
pub mod epoch;
pub mod fork;
pub mod gate;
pub mod header;
pub mod invariant;
pub mod poison;
pub mod prefetch;
pub mod raw;
pub mod sync;
pub mod traits;
pub mod unit_list;
pub mod witness;
pub mod word;

#[cfg(target_has_atomic = "64")]
pub mod foreign;
#[cfg(all(feature = "std", target_has_atomic = "64"))]
pub mod local;
#[cfg(target_has_atomic = "64")]
pub mod record;

#[cfg(all(test, feature = "alloc", ephemera_loom))]
mod models;
