//! Pools of values of one kind: a free list each, without the lifetime trap.
//!
//! Slots lie in units, and allocations come from one unit at a time: first the slots of it that were freed, the last one
//! first, then those never used, by moving a cursor. Slots have no header. A slot that another thread frees goes back to
//! the pool it is from, and values outlive the thread that made them.
//!
//! | type | for | values are freed |
//! |---|---|---|
//! | [`TypedPool`] | one type, one thread, over any backing allocator | by their handle, which borrows the pool |
//! | [`PooledBox`] | one type, all threads: what in C++ is a class with an `operator new` | on any thread, also after theirs ended |
//! | [`PooledAllocator`] | any container, all threads, zero-sized | on any thread, also after theirs ended |
//!
//! # Examples
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use allocator_api2::vec::Vec;
//! use typed_pool::{PooledAllocator, PooledBox, TypedPool, pooled};
//!
//! struct Order {
//!     id: u64,
//! }
//!
//! pooled!(Order);
//!
//! let order = PooledBox::new(Order { id: 7 });
//! std::thread::spawn(move || assert_eq!(order.id, 7)).join().unwrap();
//!
//! let pool = TypedPool::new();
//! let (first, second) = (pool.alloc(1), pool.alloc(2));
//! assert_eq!(*first + *second, 3);
//!
//! let mut few = Vec::new_in(PooledAllocator);
//! few.extend([1, 2, 3]);
//! # }
//! ```
//!
//! # Trade-offs
//!
//! * A value that is held for long keeps its unit: 32 KiB for values to 512 bytes, up to 256 KiB for larger ones (less in pools that hold few). The
//!   unit's other slots are used by other values of the same kind, and by nothing else: a thousand values that live for ever, scattered among
//!   a million that do not, can hold a thousand units (32 MB).
//! * A unit that ran full is allocated from again when an eighth of it is free, so up to an eighth of the slots may wait.
//! * Every thread has units of its own, of each type that it uses. Many types of which there are few values each do better with
//!   [`PooledAllocator`], whose classes they share.
//! * A general allocator does well with values of many sizes that live for long. Values that go all at once want an arena; ones that come and go
//!   in the order of a queue, a ring of chunks.
//!
//! # Memory comes back
//!
//! By itself: of the units that run empty, each pool keeps 4 and those that it began with, and one more each time that it misses one that
//! it gave back; a thread gives back all when it ends, and a unit that still holds values then goes with the last of
//! them, whichever thread drops it. By request: [`TypedPool::trim`], [`PooledBox::trim`], [`PooledBox::trim_all`] and the methods of the
//! allocators. Under a limit: [`Builder::limit`], [`PooledBox::set_limit`]; a thread that is about to be refused asks the
//! others to give back their empty units when they next have no free slot at hand. [`Stats`] says what is held.
//!
//! What other threads free is booked when the thread that has the pool runs out of units with a free slot (every 64th time that it looks for one, in
//! any case), trims, or ends. A unit that they emptied counts as empty from then on.
//!
//! In a forked child the one thread that is left frees and gives back what it has. What other threads of the parent had
//! stays, and so may two units of each heap on which one of them stood to read statistics.
//!
//! # Traits
//!
//! The allocators implement `Allocator` of allocator-api2 0.2; of 0.4 with feature `allocator-api2-04`; and the standard library's
//! where the compiler offers it without a gate (Rust 1.100), with no feature at all. If some crate in the build turns on
//! `allocator-api2/nightly`, two of these are one and the same trait: turn on feature `nightly` here too, or build with
//! `--cfg ephemera_no_std_allocator`. Backing allocators that speak only one of the other traits enter through
//! the newtypes `Std` and `Api04` of [`backing`].
//!
//! How it works: see the module [`design`].
#![no_std]
#![cfg_attr(feature = "nightly", feature(allocator_api))]
#![cfg_attr(feature = "nightly", allow(stable_features, reason = "stable from Rust 1.100 on, gated before"))]

#[cfg(test)]
extern crate alloc as std_alloc;
#[cfg(feature = "std")]
extern crate std;

mod abandoned;
mod account;
#[cfg(all(feature = "std", target_has_atomic = "64", not(ephemera_loom)))]
mod alloc;
#[cfg(all(feature = "std", target_has_atomic = "64", not(ephemera_loom)))]
mod boxed;
#[cfg(all(feature = "std", target_has_atomic = "64", not(ephemera_loom)))]
mod class;
mod error;
mod geometry;
#[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
mod group;
mod heap;
mod pool;
mod stats;
#[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
mod threads;
mod unit;

pub use abandoned::{Abandoned, abandoned};
#[cfg(all(feature = "std", target_has_atomic = "64", not(ephemera_loom)))]
pub use alloc::PooledAllocator;
#[cfg(all(feature = "std", target_has_atomic = "64", not(ephemera_loom)))]
pub use boxed::{AnyPool, OfType, Pool, PoolOf, Pooled, PooledBox};
pub use error::Refused;
pub use pool::{Builder, TypedBox, TypedPool};
pub use stats::Stats;

pub use ephemera_prim::backing;

#[doc = include_str!("../DESIGN.md")]
pub mod design {}

/// What the macros expand to names these. Not public API.
#[doc(hidden)]
#[cfg(all(feature = "std", target_has_atomic = "64", not(ephemera_loom)))]
pub mod __private {
    pub use core;
    pub use core::alloc::Layout;
    pub use core::ptr::NonNull;
    pub use std::thread::LocalKey;
    pub use std::thread_local;

    pub use allocator_api2::alloc::AllocError;
    pub use ephemera_prim::impl_allocator;

    pub use crate::alloc::{
        allocate, allocate_zeroed, deallocate, grow, set_limit, shrink, stats, trim, trim_all,
    };
    pub use crate::boxed::typed;
    pub use crate::threads::{Family, Here};
}
