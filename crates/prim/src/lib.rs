//! The floor under the ephemera allocators: what `ring-alloc`, `shared_arena` and `typed-pool` share.
//!
//! One thread owns a piece of memory, any thread may give parts of it back. This crate has that
//! protocol once, apart from what each allocator does with it: [`record`] (a thread's identity and its
//! lease), [`local`] (the thread-local behind it and its exit), [`foreign`] (remote frees), [`unit_list`]
//! (all units of an owner, for statistics too). Beside it stand the door to raw memory
//! ([`raw`], [`poison`]), address arithmetic ([`align`]), the look-up of headers ([`header`]) and the
//! glue to the allocator traits ([`traits`], [`backing`]).
//!
//! It has no stability promise of its own: depend on the allocators, not on this crate.
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
