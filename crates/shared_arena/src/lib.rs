//! Pages of slots with a bitfield: a pool of one type that threads can share.
//!
//! An arena hands out slots for values of one type and takes them back one by one, on any thread. The thread that claims a slot does so
//! from pages of its own, without a lock or an atomic read-modify-write; a value dropped by another thread costs one. Handles
//! are one pointer wide and may outlive their arena.
//!
//! | arena | allocated by | handles | handles go to other threads |
//! |---|---|---|---|
//! | [`SharedArena`] | any threads | [`ArenaBox`], [`ArenaArc`], [`ArenaRc`] | all but `ArenaRc` |
//! | [`Arena`] | one thread at a time | the same | the same |
//! | [`Pool`] | one thread, also without `std` | [`PoolBox`], [`ArenaRc`] | none |
//!
//! # Examples
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use shared_arena::SharedArena;
//!
//! let arena = SharedArena::new();
//! let mut message = arena.alloc([0_u8; 40]);
//! message[0] = 1;
//! let thread = std::thread::spawn(move || message[0]);
//! assert_eq!(thread.join().unwrap(), 1);
//!
//! // In place, for what is too large to be moved.
//! let large = arena.alloc_with(|slot| slot.write([7; 40]));
//! assert_eq!((large[39], arena.stats().0), (7, 1));
//! # }
//! ```
//!
//! # Trade-offs
//!
//! * Memory is taken in groups of pages that grow with the arena: about 3 KiB for a first small value, then up to 16 KiB (words), 32 KiB (40
//!   bytes) or 256 KiB (256 bytes and more) at a time. A value that lives long keeps its group, and nothing more.
//! * Besides the values: 64 bytes for each group; 48 bytes for each page that the type's largest group can have, in each group; the room of one
//!   value between two pages; and 8 bytes for each slot of a page that ever had a counted handle. In a large arena of words that is less than
//!   one byte a value.
//! * Each thread that uses an arena has pages of its own in it. What a thread that goes on without allocating keeps empty, nobody else can use.
//! * A value forgotten with `mem::forget` keeps its slot for ever.
//!
//! # Memory comes back
//!
//! By itself: groups that were found empty twice in a row go ([`Trim::Idle`]; a thread looks now and then when it needs a page). By request:
//! `shrink_to_fit`, which gives back what is empty in the caller's pages, in those of threads that ended and in those nobody used yet, and asks
//! the other threads to follow when they next need a page. (The pages of a thread that ended are out of reach while a younger thread that does not use
//! this arena has taken its place.) Under a limit: [`Builder::limit`]; then the `try_alloc` forms give the value back. [`Statistics`] says
//! what is held.
//!
//! An arena that is dropped while handles live goes with them: each group with its last value, the rest with the last group. The thread that
//! drops the last value frees the memory, and waits for no other thread. One case takes longer: a thread drops a value that it made
//! itself, and in the midst of that another thread drops the arena. Then the value's group goes when that thread next runs out of slots, drops
//! another value of a dropped arena, or ends; or when somebody creates or drops an arena, which looks at a few such groups. [`reclaim`] looks
//! at all. The state of such an arena, about a kilobyte, may wait for the same.
//!
//! # One copy in a process
//!
//! A plugin that is linked with a copy of this crate of its own has its own threads, as far as that copy knows. **An arena and its handles
//! belong to the copy that made them.** Do not hand them to code that has another copy, not even of the same version: two threads would take
//! themselves for the owner of the same pages, and values would be written over. An arena looks for another copy whenever it has no slot at
//! hand for the asking thread, and then refuses new values ([`Refused::other_copy`]). It does not look at each value, unless debug assertions are
//! on. Have the host make and drop the values, or link both to one dynamic library that contains this crate.
//!
//! # The heap
//!
//! All memory comes from the global allocator. Its methods must not unwind, as [`GlobalAlloc`](core::alloc::GlobalAlloc) says. They may use
//! arenas, and drop handles, of this crate.
//!
//! # Coming from shared_arena 0.8
//!
//! Most programs change nothing. Two things may not compile. [`ArenaArc`] is `Send` and `Sync` as `Arc` is, so that `T: Send + Sync` is asked for.
//! And handles are equal and hash as their values, to be kept in sets: `handle.eq(&value)` compares handles, so write `*handle == value`.
//! `AsRef`, `AsMut` and `Ord` they do not have: `handle.as_ref()`, `handle.cmp(&value)` and `handle.max(value)` still are the value's own.
//!
//! Initialisers may be `FnOnce`, and `slot.write(value)` is a safe one; [`Pool::shrink_to_fit`] takes `&self`. What a program may see when it runs:
//!
//! | | 0.8.4 | here |
//! |---|---|---|
//! | `stats()` after `new()` or `with_capacity(0)` | `(0, 63)` | `(0, 0)`: the first value gets its page when it comes |
//! | slots of a page, by which `stats()` grows and capacities are rounded up | 63 | 63 for values of up to 4,156 bytes; fewer beyond, down to one |
//! | bytes held for a first value beyond that size | 63 values | at most 256 KiB, or one value if that is larger |
//! | `shrink_to_fit()` of a `SharedArena` or `Arena` where nothing is empty | `true` | `false` |
//! | `Debug` of an arena | lists its pages | says how many slots are used and free |
//!
//! How it works: see the module [`design`].
#![no_std]
#![cfg_attr(ephemera_loom, allow(dead_code, reason = "models do without the handles"))]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

#[cfg(feature = "alloc")]
mod account;
#[cfg(all(feature = "alloc", not(ephemera_loom)))]
mod arena;
#[cfg(all(feature = "std", target_has_atomic = "64"))]
mod bag;
#[cfg(feature = "alloc")]
mod bits;
#[cfg(feature = "alloc")]
mod close;
#[cfg(feature = "alloc")]
mod counts;
#[cfg(feature = "alloc")]
mod error;
#[cfg(feature = "alloc")]
mod geometry;
#[cfg(feature = "alloc")]
mod group;
#[cfg(all(feature = "alloc", not(ephemera_loom)))]
mod handle;
#[cfg(all(test, feature = "std", not(ephemera_loom)))]
mod hostile;
#[cfg(all(test, feature = "std", ephemera_loom))]
mod models;
#[cfg(feature = "alloc")]
mod owner;
#[cfg(all(feature = "std", target_has_atomic = "64"))]
mod parked;
#[cfg(feature = "alloc")]
mod shard;
#[cfg(all(feature = "alloc", not(ephemera_loom)))]
mod slot;
#[cfg(feature = "alloc")]
mod stats;
#[cfg(feature = "alloc")]
mod store;
#[cfg(all(feature = "std", target_has_atomic = "64", not(ephemera_loom)))]
mod thread;
#[cfg(feature = "alloc")]
mod trim;
#[cfg(all(feature = "std", target_has_atomic = "64"))]
mod turn;
#[cfg(all(feature = "std", target_has_atomic = "64"))]
mod world;

#[cfg(all(feature = "std", target_has_atomic = "64", not(ephemera_loom)))]
pub use arena::{Arena, SharedArena};
#[cfg(all(feature = "alloc", not(ephemera_loom)))]
pub use arena::{Build, Builder, Pool, Trim};
#[cfg(feature = "alloc")]
pub use error::{Refused, TryAllocError};
#[cfg(all(feature = "std", target_has_atomic = "64", not(ephemera_loom)))]
pub use handle::{AllocArc, ArenaArc, ArenaBox, Weak};
#[cfg(all(feature = "alloc", not(ephemera_loom)))]
pub use handle::{AllocRc, ArenaRc, PoolBox};
#[cfg(feature = "alloc")]
pub use stats::Statistics;

/// Looks through all arenas that were dropped with values in use, and frees those whose values have gone since. Returns how many.
///
/// There is rarely a need to: the drop of the last value does it, or the next creation or drop of any arena. Takes time in proportion to
/// the pages that are looked through.
#[cfg(all(feature = "std", target_has_atomic = "64", not(ephemera_loom)))]
pub fn reclaim() -> usize {
    thread::look_at_all()
}

#[doc = include_str!("../DESIGN.md")]
pub mod design {}
