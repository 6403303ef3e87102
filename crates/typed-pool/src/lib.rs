//! Pools for values of one type or one size class. A value may outlive the thread that allocated
//! it.
//!
//! A pool divides aligned blocks of memory, its *units*, into slots of one size. It allocates from
//! one unit at a time: first the freed slots, most recently freed first, then slots that have never
//! been used. Slots have no header. A slot that another thread frees returns to the pool that
//! allocated it.
//!
//! | type | use | how values are freed |
//! |---|---|---|
//! | [`TypedPool`] | one type, one thread, any backing allocator | by their handle, which borrows the pool |
//! | [`PooledBox`] | one type, all threads, like a class with its own `operator new` in C++ | on any thread, even after the allocating thread has ended |
//! | [`PooledAllocator`] | any container or a whole program, all threads, zero-sized | on any thread, even after the allocating thread has ended |
//!
//! In a program whose global allocator is [`PooledAllocator`], a [`Scope`] is a heap for one
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
//! * One live value keeps its whole unit allocated: 32 KiB for values of up to 512 bytes, up to 256
//!   KiB for larger values, and less in pools of few values. Only values of the same type or size
//!   class can use the other slots of the unit. A thousand long-lived values that are scattered
//!   among a million short-lived ones can keep a thousand units (32 MB).
//! * A pool reuses a full unit when an eighth of the unit's slots are free, so up to an eighth of
//!   the slots can stay unused. In a pool with 256 units or more, a 64th (at least 4 slots)
//!   suffices, if that is less than an eighth.
//! * Each thread has separate units for every type that it uses. For many types with few values
//!   each, [`PooledAllocator`] holds less memory, because types of similar size share its classes.
//! * A general allocator suits long-lived values of many sizes. An arena suits values that are
//!   freed all at once. A ring of chunks suits values that are freed in the order of their
//!   allocation.
//!
//! # When memory is freed
//!
//! * A pool keeps 4 empty units and the units of its initial capacity. It frees every other unit as
//!   soon as the unit becomes empty. Each time a pool frees a unit and later requests one, it keeps
//!   one more from then on. If the load later needs fewer units, later slow paths (allocations that
//!   find no free slot at once) free the surplus one unit at a time. The pools of [`PooledBox`] and
//!   [`PooledAllocator`] keep 128 KiB instead of 4 units, but at least one unit. They never keep
//!   more than 4 MiB in this way.
//! * If other threads free many values that a thread allocated, the thread's pool of that type
//!   grows to 2 MiB, unless the pool has a limit. In [`PooledAllocator`], one size class of the
//!   thread grows instead. The units that the other threads emptied then rest until their cache
//!   lines have left the other cores. The pool or class shrinks within about 128 slow paths of the
//!   thread after such frees end.
//! * A pool may hold one freed slot for its next allocation. Until that allocation or a trim, the
//!   slot keeps its unit of up to 64 KiB allocated.
//! * The pools of [`PooledBox`] and [`PooledAllocator`] take their units, and blocks that are too
//!   large for a unit, from the module [`pages`]. That module caches the pages of freed units and
//!   blocks: up to 4 MiB or an eighth of the bytes in use, whichever is more. The bound rises if
//!   the process requests pages after the cache has returned pages to the system. Each thread also
//!   keeps up to 768 KiB of freed large blocks for itself. Blocks that the thread does not reuse
//!   move to the cache of the process.
//! * When a thread ends, it frees all of its empty units. Its other units stay. The thread that
//!   drops the last value in such a unit frees the unit, unless a later thread has taken it over.
//! * [`TypedPool::trim`], [`PooledBox::trim`], [`PooledBox::trim_all`], and the `trim` methods of
//!   the allocators free empty units on request.
//! * [`Builder::limit`] and [`PooledBox::set_limit`] bound the bytes held. Before a limit that
//!   several threads share refuses a request, the requesting thread asks the other threads to free
//!   their empty units at their next slow path.
//!
//! [`Stats`] reports the bytes that a pool holds, and how many of them are live.
//!
//! A *remote free* is a free on a thread that does not own the slot's unit. The owner *books* the
//! free, and can then allocate the slot again. An owner books remote frees when it finds no unit
//! with a free slot, at every 64th visit to its slow path, when it trims, and when it ends. If the
//! last live slot of a unit is freed remotely, the unit becomes empty when its owner books that
//! free.
//!
//! A thread publishes remote frees in *bundles*. If it frees several slots of one group of 63
//! neighbours in a row, all of these frees except the first may wait. They wait until the thread
//! makes a remote free to another group, takes a slow path, trims or ends. A thread that frees
//! slots and then sleeps can therefore keep one unit of 32 KiB allocated. [`Stats`] counts the
//! waiting slots as freed. A free does not wait if the slot's unit is larger, if the unit belongs
//! to a scope or to an ended thread, or if the pool has a limit.
//!
//! If other threads free the last live slots of a unit whose owner sleeps, they also return the
//! pages of the unit's slots to the operating system. They do so in some of their own slow paths
//! and remote frees, if the owner is idle. An owner is idle if it has taken no slow path for 100
//! ms, or if other threads have freed more than 4 MiB of its memory (more after repeated bursts)
//! since its last slow path. The page with the unit's header stays resident. Units that the owner
//! allocates from or keeps empty also stay resident, and so does a unit whose freed slot waits for
//! the owner's next allocation. On Linux, other threads can return pages only if the system call
//! `membarrier` is available.
//!
//! In a forked child, the surviving thread frees and trims its own memory. The units of the
//! parent's other threads stay allocated. If, at the fork, one of those threads was looking for
//! pages to return, the units that it looked at stay too. A signal handler must not allocate from
//! or free to a pool of this crate, because the signal may have interrupted such a call.
//!
//! # Traits
//!
//! The allocators implement the `Allocator` trait of allocator-api2 0.2. With the feature
//! `allocator-api2-04`, they also implement the trait of 0.4. Where the standard library's
//! `Allocator` is stable (Rust 1.100), they implement it without a feature. If a crate in the build
//! turns on `allocator-api2/nightly`, two of these traits become one trait. In that case, also turn
//! on this crate's feature `nightly`, or build with `--cfg ephemera_no_std_allocator`. To use a
//! backing allocator that implements only the standard library's trait or the trait of 0.4, wrap it
//! in `Std` or `Api04` of [`backing`].
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
#[macro_use]
extern crate ephemera_prim;

mod abandoned;
#[cfg(all(feature = "std", target_has_atomic = "64", not(ephemera_loom)))]
mod alloc;
#[cfg(all(feature = "std", target_has_atomic = "64", not(ephemera_loom)))]
mod boxed;
mod class;
mod error;
mod forward;
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
pub use error::TryAllocError;
pub use pool::{Builder, TypedBox, TypedPool};
pub use stats::Stats;
#[cfg(all(feature = "std", target_has_atomic = "64", not(ephemera_loom)))]
pub use {
    alloc::PooledAllocator,
    boxed::{AnyPool, BoxPool, OfType, PoolOf, Pooled, PooledBox},
    scope::{Counts, InScope, OverLimit, Scope, ScopeBuilder, ScopeError, ScopeHandle, Usage, measure},
};

pub use ephemera_prim::backing;
/// The pages of the operating system from which [`PooledBox`] and the pooled allocators take
/// memory.
///
/// All of these pools share one cache of pages, and so does `OneRingAlloc` of `ring-alloc`. The
/// functions of this module purge freed pages, bound the number of freed pages that stay resident,
/// ask for huge pages, and report the bytes in use and in the cache.
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

/// The names that the expansions of the macros use. Not public API.
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
        ThisFamily, class_of, give_to_own_unit, or_null, stride_of_slot, take_from_front,
    };
    pub use crate::boxed::{erase_typed, give_typed};
    pub use crate::threads::{Family, FamilyCell, ThisCell};
}
