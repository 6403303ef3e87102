//! Pools of values of one type that threads can share.
//!
//! An **arena** has slots for values of one type. Each thread owns pages of up to 63 slots, and
//! claims slots from them without a lock or an atomic read-modify-write. Any thread may drop a
//! value. That costs one read-modify-write if another thread owns the value's page. Handles are one
//! pointer wide and may outlive their arena.
//!
//! | arena | used by | handles | handles for other threads |
//! |---|---|---|---|
//! | [`SharedArena`] | any number of threads | [`ArenaBox`], [`ArenaArc`], [`ArenaRc`] | all but `ArenaRc` |
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
//! // In place, for a value that is too large to be moved.
//! let large = arena.alloc_with(|slot| slot.write([7; 40]));
//! assert_eq!((large[39], arena.stats().0), (7, 1));
//! # }
//! ```
//!
//! # Trade-offs
//!
//! * An arena allocates groups of pages that grow with it. With one value of up to 128 bytes, it
//!   holds 2.4 to 9.4 KiB: 2.6 KiB for a word, 3.8 KiB for 40 bytes, 7.6 KiB for a single byte.
//!   Later it allocates up to 16 KiB (words), 32 KiB (40 bytes) or 256 KiB (256 bytes and more) at
//!   a time. A long-lived value pins its own group, and no other one.
//! * A value that does not fit into a group of 256 KiB has a group of its own. The group takes the
//!   value's size plus its alignment, or plus 256 bytes if its alignment is smaller. A zero-sized
//!   value takes the room of its alignment.
//! * Besides the values, an arena holds 64 bytes for each group; in each group, 48 bytes for each
//!   page that the type's largest group can have; the room of one value between two pages; and 8
//!   bytes for each slot of a page that ever had a counted handle. In a large arena of words, this
//!   overhead is less than one byte for each value.
//! * Each thread that uses an arena has its own pages in it. While a thread lives and does not
//!   allocate, no other thread can use its empty pages.
//! * A value forgotten with `mem::forget` keeps its slot, which is never freed.
//!
//! # When memory is freed
//!
//! * **Without a request**: now and then, a thread that needs a page looks for empty groups. The
//!   thread frees the groups that two looks in a row found empty ([`Trim::Idle`]).
//! * **On request**: [`SharedArena::trim`] frees empty groups: those of the calling thread, those
//!   of threads that have exited, and those that no thread has used. It asks the other threads to
//!   free their empty groups when they next need a page. A later thread may take over the pages of
//!   an exited thread. While that later thread runs and does not use this arena, other threads
//!   cannot free these pages.
//! * **Under a limit** ([`Builder::limit`]): a request that would exceed the limit first looks for
//!   empty pages. If there are too few, the `try_alloc` methods return their argument. [`Stats`]
//!   reports the memory held.
//! * **After the arena**: the handles of a dropped arena keep its memory. The drop of the last
//!   value in a group frees the group. The drop of the last value in the arena also frees the
//!   arena's state. The thread that drops the value frees the memory, and waits for no other
//!   thread.
//!
//! A thread that sleeps does not look. If other threads drop its values, its groups stay until it
//! trims, has looked twice or exits, or until the arena is dropped. So let such a thread call
//! [`SharedArena::trim`] before it waits for a long time, or drop the arena.
//!
//! One case takes longer. A thread drops a value that it allocated itself, and during that drop
//! another thread drops the arena. Then the value's group is freed when the first thread next runs
//! out of slots, drops another value of a dropped arena, or exits. A thread that creates or drops
//! any arena may free the group too, because it looks at a few such groups; [`trim_all`] looks at
//! all of them. The state of such an arena, about a kilobyte, may stay as long as that group.
//!
//! # One copy in a process
//!
//! If a plugin is linked with its own copy of this crate, that copy numbers the threads of the
//! process by itself. **An arena and its handles belong to the copy that made them.** Do not pass
//! either to code that is linked with another copy, even of the same version. Two threads would
//! both act as the owner of the same pages, and values would be overwritten. An arena checks for
//! another copy whenever it has no slot at hand for the calling thread, and then refuses new values
//! ([`Refused::other_copy`]). Unless debug assertions are on, it does not check for every value.
//! Let the host make and drop the values, or link the host and the plugin to one dynamic library
//! that contains this crate.
//!
//! # The global allocator
//!
//! All memory comes from the global allocator. Its methods must not unwind, as
//! [`GlobalAlloc`](core::alloc::GlobalAlloc) requires. They may use arenas of this crate and drop
//! handles.
//!
//! # Coming from shared_arena 0.8
//!
//! Most programs need no change. Two things may not compile. [`ArenaArc`] is `Send` and `Sync`
//! under the same bounds as `Arc`, so it requires `T: Send + Sync`. And handles compare and hash
//! like their values, so that sets can hold them: `handle.eq(&value)` compares handles, so write
//! `*handle == value`. Handles do not implement `AsRef`, `AsMut` and `Ord`: `handle.as_ref()`,
//! `handle.cmp(&value)` and `handle.max(value)` still call the value's own methods.
//!
//! Initialisers may be `FnOnce`, and `slot.write(value)` is a safe one. [`Pool::shrink_to_fit`]
//! takes `&self`. A program may observe these differences when it runs:
//!
//! | | 0.8.4 | here |
//! |---|---|---|
//! | `stats()` after `new()` or `with_capacity(0)` | `(0, 63)` | `(0, 0)`: the arena allocates its first page with its first value |
//! | slots of a page, by which `stats()` grows and capacities are rounded up | 63 | 63 for values of up to 4,156 bytes; fewer for larger ones, down to one |
//! | bytes held for a first value above that size | 63 values | at most 256 KiB, or one value and its alignment if these are larger |
//! | `shrink_to_fit()` of a `SharedArena` or `Arena` where nothing is empty | `true` | `false` |
//! | `Debug` of an arena | lists its pages | reports the numbers of used and free slots |
//!
//! The module [`design`] explains how the crate works.
#![no_std]
#![cfg_attr(ephemera_loom, expect(dead_code, reason = "models do without the handles"))]

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
#[cfg(all(test, feature = "std", ephemera_loom))]
mod models;
#[cfg(feature = "alloc")]
mod owner;
#[cfg(all(feature = "std", target_has_atomic = "64"))]
mod parked;
#[cfg(all(feature = "std", target_has_atomic = "64"))]
mod protocol;
#[cfg(feature = "alloc")]
mod refill;
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
pub use stats::Stats;

/// Looks at all dropped arenas that still had values when they were dropped. Frees those whose last
/// value was dropped since, and returns the number of arenas that it freed.
///
/// Programs rarely need this function: the drop of the last value frees an arena's memory, or else
/// the next creation or drop of any arena does. The call takes time linear in the number of pages
/// that it reads. The memory of a live arena is freed by its own `trim`.
///
/// # Examples
///
/// ```
/// use shared_arena::SharedArena;
///
/// let arena = SharedArena::new();
/// let last = arena.alloc(1);
/// drop(arena);
/// drop(last);
/// shared_arena::trim_all();
/// ```
#[cfg(all(feature = "std", target_has_atomic = "64", not(ephemera_loom)))]
pub fn trim_all() -> usize {
    thread::look_at_all()
}

/// Alias of [`trim_all`].
#[cfg(all(feature = "std", target_has_atomic = "64", not(ephemera_loom)))]
pub fn reclaim() -> usize {
    trim_all()
}

#[doc = include_str!("../DESIGN.md")]
pub mod design {}
