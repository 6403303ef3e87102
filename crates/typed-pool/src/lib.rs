//! Pools for values of one kind. Values may outlive the thread that made them.
//!
//! A pool allocates slots of one size from aligned blocks of memory, its *units*. It allocates from
//! one unit at a time: first the slots that were freed, the most recent first, then slots that were
//! never used. A slot has no header. A slot that another thread frees returns to the pool that
//! allocated it.
//!
//! | type | use | how values are freed |
//! |---|---|---|
//! | [`TypedPool`] | one type, one thread, any backing allocator | by their handle, which borrows the pool |
//! | [`PooledBox`] | one type, all threads, like a class with its own `operator new` in C++ | on any thread, even after their own thread ended |
//! | [`PooledAllocator`] | any container or a whole program, all threads, zero-sized | on any thread, even after their own thread ended |
//!
//! If [`PooledAllocator`] is the global allocator of a program, [`Scope`] is a heap for one
//! request, and [`measure`] counts the allocations of a closure.
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
//! * One live value keeps its whole unit from being freed: 32 KiB for values of up to 512 bytes, up
//!   to 256 KiB for larger ones (less in pools of few values). Other values of the same kind use
//!   the rest of the unit, and nothing else can. If a thousand long-lived values lie scattered
//!   among a million short-lived ones, they can hold a thousand units (32 MB).
//! * A pool allocates from a full unit again once an eighth of its slots is free. In a heap of 256
//!   units or more, a 64th of the slots is enough, but at least 4 slots. So up to that share of the
//!   slots may be unused.
//! * Each thread has its own units for each type that it uses. If there are many types with few
//!   values each, [`PooledAllocator`] holds less, because types of similar size share its classes.
//! * A general allocator suits long-lived values of many sizes. An arena suits values that are
//!   freed all at once. A ring of chunks suits values that are freed in the order of their
//!   allocation.
//!
//! # When memory is freed
//!
//! * A pool keeps 4 empty units and those of its initial capacity. It frees other units as soon as
//!   they become empty. Each time it needs a unit after it freed one, it keeps one more. If the
//!   load does not need these units for a while, each later slow path frees one of them. The pools
//!   of [`PooledBox`] and [`PooledAllocator`] keep 128 KiB of empty units instead, but at least one
//!   unit. Pools of these two kinds never keep more than 4 MiB in this way.
//! * A heap may keep one freed slot of each size class for the next allocation. This slot keeps
//!   its unit, of up to 64 KiB, until that allocation or a trim.
//! * The pools of [`PooledBox`] and [`PooledAllocator`] take their units, and blocks that are too
//!   large for a unit, from the module [`pages`]. It keeps the pages of freed units and blocks: up
//!   to 4 MiB or an eighth of the bytes in use, whichever is more. It keeps more pages if the
//!   process needs them again. A thread keeps up to 768 KiB of freed large blocks for itself.
//!   Blocks that the thread does not use go to the cache of the process.
//! * A thread frees all its empty units when it ends. A unit with live values is freed with the
//!   last of these values, whichever thread drops it.
//! * [`TypedPool::trim`], [`PooledBox::trim`], [`PooledBox::trim_all`], and the methods of the
//!   allocators free empty units on request.
//! * [`Builder::limit`] and [`PooledBox::set_limit`] bound the bytes held. Before a request is
//!   refused, the thread asks the other threads to free their empty units at their next slow path.
//!
//! [`Stats`] says how many bytes a pool holds, and how many of them are live.
//!
//! A *remote free* is a free on a thread that does not own the slot's unit. The owner *books* it,
//! and can then allocate the slot again. The owner books remote frees when it has no unit with a
//! free slot, at every 64th visit to its slow path, when it trims, and when it ends. A unit whose
//! last live slot was freed remotely counts as empty once its owner has booked that free.
//!
//! A thread publishes remote frees in bundles. If it frees several slots in a row that are close
//! together, up to 63 of these frees wait until the thread frees elsewhere, takes a slow path,
//! trims or ends. So a thread that frees and then sleeps can keep one unit of 32 KiB from being
//! freed by its owner. [`Stats`] counts the waiting slots as freed. Slots of larger units, of
//! scopes and of ended threads do not wait, nor do slots that were freed while their pools had a
//! limit.
//!
//! If other threads free all slots of a unit whose owner sleeps, these threads return the pages of
//! the slots to the operating system, as part of their own slow paths. They do so once the owner
//! has taken no slow path for 100 ms, or once other threads have freed more than 4 MiB of the
//! owner's memory since its last slow path. The page with the unit's header stays. So do the unit
//! that the owner allocates from, and the unit of a freed slot that waits for the owner's next
//! allocation. On Linux this needs the system call `membarrier`.
//!
//! In a forked child, the one remaining thread frees and trims its own memory. The units of the
//! parent's other threads stay. If one of those threads was reading statistics, up to two units of
//! each heap may stay as well.
//!
//! # Traits
//!
//! The allocators implement the `Allocator` of allocator-api2 0.2, and with the feature
//! `allocator-api2-04` that of 0.4. They implement the standard library's `Allocator` without a
//! feature wherever the compiler has it without a gate (Rust 1.100). If a crate in the build turns
//! on `allocator-api2/nightly`, two of these traits are one and the same. In that case, turn on the
//! feature `nightly` of this crate too, or build with `--cfg ephemera_no_std_allocator`. A backing
//! allocator that implements only one of the other traits is wrapped in `Std` or `Api04` of
//! [`backing`].
//!
//! The module [`design`] explains how the crate works.
#![no_std]
#![cfg_attr(feature = "nightly", feature(allocator_api))]
#![cfg_attr(
    any(ephemera_loom, not(all(feature = "std", target_has_atomic = "64"))),
    expect(dead_code, reason = "a pool for one thread does without remote frees")
)]
#![cfg_attr(feature = "nightly", allow(stable_features, reason = "stable from Rust 1.100 on, gated before"))]

#[cfg(test)]
extern crate alloc as std_alloc;
#[cfg(feature = "std")]
extern crate std;

mod abandoned;
#[cfg(all(feature = "std", target_has_atomic = "64", not(ephemera_loom)))]
mod alloc;
#[cfg(all(feature = "std", target_has_atomic = "64", not(ephemera_loom)))]
mod boxed;
#[cfg(all(feature = "std", target_has_atomic = "64", not(ephemera_loom)))]
mod class;
mod error;
mod geometry;
mod heap;
mod local_frees;
mod pool;
#[cfg(all(feature = "std", target_has_atomic = "64", not(ephemera_loom)))]
mod scope;
mod slot_group;
mod stats;
#[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
mod threads;
mod unit;
mod unit_header;

pub use abandoned::{Abandoned, abandoned};
#[cfg(all(feature = "std", target_has_atomic = "64", not(ephemera_loom)))]
pub use alloc::PooledAllocator;
#[cfg(all(feature = "std", target_has_atomic = "64", not(ephemera_loom)))]
pub use boxed::{AnyPool, BoxPool, OfType, PoolOf, Pooled, PooledBox};
pub use error::TryAllocError;
pub use pool::{Builder, TypedBox, TypedPool};
#[cfg(all(feature = "std", target_has_atomic = "64", not(ephemera_loom)))]
pub use scope::{Counts, InScope, OverLimit, Scope, ScopeBuilder, ScopeError, ScopeHandle, Usage, measure};
pub use stats::Stats;

pub use ephemera_prim::backing;
/// The pages of the operating system from which [`PooledAllocator`] and its relatives take memory.
///
/// All families of the process share these pages. The functions purge freed pages, bound how many
/// stay resident, and report their bytes.
#[cfg(all(feature = "std", target_has_atomic = "64", not(ephemera_loom)))]
pub mod pages {
    #[doc(hidden)]
    pub use ephemera_prim::pages::refuse_call;
    pub use ephemera_prim::pages::{
        CACHE, CACHE_LEARNED, PageUsage, Pages, purge, set_cache, set_huge_pages, shed, usage,
    };
}

#[doc = include_str!("../DESIGN.md")]
pub mod design {}

/// The names that the macros expand to. Not public API.
#[doc(hidden)]
#[cfg(all(feature = "std", target_has_atomic = "64", not(ephemera_loom)))]
pub mod __private {
    pub use core;
    pub use core::alloc::Layout;
    pub use core::ptr::NonNull;
    pub use std::thread_local;

    pub use allocator_api2::alloc::AllocError;
    pub use ephemera_prim::impl_allocator;

    pub use crate::alloc::{
        allocate, allocate_zeroed, class_of, deallocate, give_to_own_unit, grow, or_null, reallocate,
        set_limit, shrink, stats, stride_of_slot, take_from_front, trim, trim_all,
    };
    pub use crate::boxed::typed;
    pub use crate::threads::{Family, FamilyCell, ThisCell};
}
