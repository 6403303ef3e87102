//! Object pools for values of one type, for one thread or for many.
//!
//! An **arena** has slots for values of one type. Each thread owns pages of up to 63 slots, and
//! usually claims slots from them without a lock or an atomic read-modify-write. Any thread may
//! drop a value. If another thread owns the value's page, the drop usually costs one
//! read-modify-write. Handles are one pointer wide and may outlive their arena.
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
//! // `alloc_with` initialises a value in its slot, for values that are too large to move.
//! let large = arena.alloc_with(|slot| slot.write([7; 40]));
//! assert_eq!((large[39], arena.stats().0), (7, 1));
//! # }
//! ```
//!
//! # Trade-offs
//!
//! * An arena allocates pages in groups, and the groups get larger as the arena grows. With one
//!   value of up to 128 bytes, an arena holds 2.4 to 9.4 KiB: 2.6 KiB for a word, 3.8 KiB for 40
//!   bytes, 7.6 KiB for a single byte. A large arena allocates up to 16 KiB (words), 32 KiB (40
//!   bytes) or 256 KiB (256 bytes and more) at a time. A long-lived value pins only its own group.
//! * A value that does not fit into a group of 256 KiB gets its own group. That group takes the
//!   value's size plus the value's alignment, or plus 256 bytes if the alignment is smaller. A
//!   zero-sized value takes as many bytes as its alignment.
//! * The overhead of a group is about 64 bytes, 48 bytes for each page that the type's largest
//!   group can have, and the space of one value between two pages. A page that ever had a counted
//!   handle takes 8 more bytes for each slot. In a large arena of words without counted handles,
//!   the overhead is less than one byte for each value.
//! * Each thread that uses an arena has its own pages in it. While a thread is alive but does not
//!   allocate, no other thread can use that thread's empty pages.
//! * If a handle is passed to `mem::forget`, its slot is never freed.
//!
//! # When memory is freed
//!
//! * **Without a request**: a thread that needs a page sometimes looks for empty groups among its
//!   own. The thread frees the groups that two looks in a row found empty ([`Trim::Idle`]).
//! * **After a hand-over**: if other threads drop many values of a thread, the thread's part of the
//!   arena grows to at most about 2 MiB. The pages that the other threads freed then rest until
//!   their cache lines have left the caches of the other cores. At most four parts, of all arenas
//!   together, grow in this way at the same time. After the thread begins to drop its values
//!   itself, it frees these pages without a request. An arena with a limit, with [`Trim::Manual`]
//!   or with values of more than 4 KiB does not grow in this way.
//! * **On request**: [`SharedArena::trim`] frees the empty groups of the calling thread and of
//!   exited threads, and the groups that no thread owns. It also asks the other threads to free
//!   their empty groups when they next need a page. A new thread may take over the pages of an
//!   exited thread. While the new thread runs without using this arena, other threads cannot free
//!   those pages.
//! * **Under a limit** ([`Builder::limit`]): before a request fails because of the limit, the
//!   thread uses or frees empty pages. If there are too few, the `try_alloc` methods return their
//!   argument. [`Stats`] reports the memory that the arena holds.
//! * **After the drop of the arena**: each remaining value keeps its group. Dropping the last value
//!   in a group frees the group. Dropping the last value of the arena also frees the arena's state.
//!   The dropping thread never waits for another thread.
//!
//! A sleeping thread does not look for empty groups. If other threads drop its values, its groups
//! stay until that thread trims or has looked twice, or until the arena is dropped. After the
//! thread has exited, other threads can take over or free the groups. Call [`SharedArena::trim`] on
//! a thread before it waits for a long time.
//!
//! One case takes longer: a thread drops a value that it allocated itself, and during that drop
//! another thread drops the arena. The value's group is then freed when the first thread next runs
//! out of slots, drops another value of a dropped arena, or exits. Creating or dropping any arena
//! can also free the group, because each creation or drop looks at some groups in this state.
//! [`trim_all`] looks at all groups in this state. The state of the dropped arena, about a
//! kilobyte, may stay as long as the group.
//!
//! In a forked child, the forking thread uses and frees its own pages. It can drop the values of
//! the parent's other threads, but cannot reuse or trim the pages of these threads. If another
//! thread of the parent was freeing groups of a dropped arena at the fork, some groups of that
//! arena stay allocated in the child. A signal handler must not use an arena or drop a handle,
//! because the signal may have interrupted such a call.
//!
//! # One copy in a process
//!
//! If a plugin is linked with its own copy of this crate, that copy numbers the threads of the
//! process independently. **An arena and its handles belong to the copy that made them.** Do not
//! pass either to code that is linked with another copy, even of the same version. Otherwise, two
//! threads could both act as the owner of the same pages, and overwrite each other's values. An
//! arena checks for another copy only when the calling thread has no slot at hand, and then refuses
//! new values ([`Refused::other_copy`]). With debug assertions, it checks every allocation. Have
//! the host make and drop the values, or link the host and the plugin to one dynamic library that
//! contains this crate.
//!
//! # The global allocator
//!
//! All memory comes from the global allocator. Its methods must not unwind, as
//! [`GlobalAlloc`](core::alloc::GlobalAlloc) requires. They may use arenas of this crate and drop
//! handles.
//!
//! # Coming from shared_arena 0.8
//!
//! Most programs compile unchanged. Two differences may stop a program from compiling. First,
//! [`ArenaArc`] is `Send` and `Sync` under the same bounds as `Arc`: it requires `T: Send + Sync`.
//! Second, handles compare and hash like their values, so sets can hold them. `handle.eq(&value)`
//! expects another handle, so write `*handle == value` instead. Handles do not implement `AsRef`,
//! `AsMut` or `Ord`, so `handle.as_ref()`, `handle.cmp(&value)` and `handle.max(value)` still call
//! the value's own methods.
//!
//! An initialiser may be `FnOnce`, and `|slot| slot.write(value)` does not need `unsafe`.
//! [`Pool::shrink_to_fit`] takes `&self`. A running program may observe these differences:
//!
//! | | 0.8.4 | here |
//! |---|---|---|
//! | `stats()` after `new()` or `with_capacity(0)` | `(0, 63)` | `(0, 0)`: the arena allocates its first page with its first value |
//! | slots per page; `stats()` grows in steps of a page, and capacities are rounded up to whole pages | 63 | 63 for values of up to 4,156 bytes; fewer for larger ones, down to one |
//! | bytes held for a first value of more than 4,156 bytes | 63 values | at most about 256 KiB, or one value plus its alignment if that is larger |
//! | `shrink_to_fit()` of a `SharedArena` or `Arena` without an empty page | `true` | `false` |
//! | `Debug` of an arena | lists its pages | reports the numbers of used and free slots |
//!
//! The module [`design`] explains how the crate works.
#![no_std]
#![cfg_attr(
    any(ephemera_loom, not(all(feature = "std", target_has_atomic = "64"))),
    expect(dead_code, reason = "models do without the handles, and pools without the code for threads")
)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;
#[macro_use]
extern crate ephemera_prim;

mod account;
#[cfg(not(ephemera_loom))]
mod arena;
mod bag;
mod bits;
mod close;
mod counts;
mod error;
mod geometry;
mod group;
#[cfg(not(ephemera_loom))]
mod handle;
#[cfg(all(test, feature = "std", ephemera_loom))]
mod models;
mod owner;
#[cfg(all(feature = "std", target_has_atomic = "64"))]
mod parked;
#[cfg(all(feature = "std", target_has_atomic = "64"))]
mod protocol;
mod refill;
mod rest;
mod shard;
#[cfg(not(ephemera_loom))]
mod slot;
mod stats;
mod store;
#[cfg(all(feature = "std", target_has_atomic = "64", not(ephemera_loom)))]
mod thread;
mod trim;
mod turn;
#[cfg(all(feature = "std", target_has_atomic = "64"))]
mod world;

#[cfg(all(feature = "std", target_has_atomic = "64", not(ephemera_loom)))]
pub use arena::{Arena, SharedArena};
#[cfg(not(ephemera_loom))]
pub use arena::{Build, Builder, Pool, Trim};
pub use error::{Refused, TryAllocError};
#[cfg(all(feature = "std", target_has_atomic = "64", not(ephemera_loom)))]
pub use handle::{AllocArc, ArenaArc, ArenaBox, Weak};
#[cfg(not(ephemera_loom))]
pub use handle::{AllocRc, ArenaRc, PoolBox};
pub use stats::Stats;

/// Frees all dropped arenas that have no live slots, except arenas at which another thread is
/// looking at the same time. Returns the number of arenas that this call freed.
///
/// Programs rarely need this function. Usually the drop of the last value frees an arena's memory,
/// and otherwise a later creation or drop of any arena does. The call takes time linear in the
/// number of pages that dropped arenas still hold. To free memory of a live arena, call the arena's
/// `trim`.
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
