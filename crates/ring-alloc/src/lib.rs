//! A ring of chunks for short-lived memory.
//!
//! A *chunk* is a piece of memory, usually 32 KiB, that the allocator cuts into blocks. An
//! allocation moves a cursor through the chunk, and a free adds to a count. When the last block of
//! a chunk is freed, the chunk can be reused from its start. Blocks do not have headers, and may be
//! freed in any order. The memory held depends on the live blocks, not on how many blocks were
//! allocated before.
//!
//! | type | use | blocks may be freed |
//! |---|---|---|
//! | [`RingAlloc`] | one thread, over pages or another allocator | by any handle to the same ring |
//! | [`OneRingAlloc`] | all threads, zero-sized, over pages | by any thread, at any time |
//!
//! # Examples
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use allocator_api2::boxed::Box;
//! use allocator_api2::vec::Vec;
//! use ring_alloc::{OneRingAlloc, RingAlloc};
//!
//! let ring = RingAlloc::new();
//! let mut packet = Vec::with_capacity_in(1_500, ring.clone());
//! packet.extend_from_slice(b"a short-lived message");
//! drop(packet);
//!
//! let parcel = Box::new_in([1_u8, 2, 3], OneRingAlloc);
//! std::thread::spawn(move || assert_eq!(*parcel, [1, 2, 3])).join().unwrap();
//! # }
//! ```
//!
//! # Trade-offs
//!
//! * A long-lived block pins its whole chunk: 32 KiB for blocks up to 2 KiB, and 256 KiB for blocks
//!   that are larger or are aligned to more than 512 bytes. A thousand small long-lived blocks,
//!   scattered among short-lived ones, can pin a thousand chunks (32 MB). A heap of 2 MiB or more,
//!   of which less than half is live, also reuses the memory between such blocks, where 3 or 4 KiB
//!   in a row are free. A free between them takes longer. Allocate long-lived blocks elsewhere.
//! * A block in a chunk can grow in place only at the top of its chunk, so two vectors move if they
//!   grow alternately.
//! * A block larger than 64 KiB, or aligned to more than 4 KiB, comes directly from the source of
//!   the chunks, at the speed of that source.
//! * For memory that is freed all at once, use an arena (`bumpalo`). For long-lived objects of one
//!   type, use a pool.
//!
//! # Where memory comes from
//!
//! The chunks and large blocks of [`OneRingAlloc`], and of a [`RingAlloc`] that was created without
//! a backing allocator ([`RingAlloc::new`], [`Builder::build`], [`Builder::try_build`]), come from
//! the operating system's pages. All threads share a bounded cache of freed pages. The global
//! allocator of the program does not serve this memory, so it does not count or limit it. A large
//! block of up to 1 MiB takes a span of pages whose length is a power of two. Only the requested
//! bytes count in the statistics and for a limit, but the rest of the span may be resident too.
//! LeakSanitizer does not search this memory for pointers. On targets without the necessary system
//! calls or without 64-bit atomics, the system's heap (`std::alloc::System`) serves it.
//!
//! A `RingAlloc` that was created with a backing allocator (`new_in`, `try_new_in`, `build_in`,
//! `try_build_in`) takes all of its memory from that allocator. `RingAlloc::default` creates the
//! backing allocator, so a `RingAlloc<Global>` from `default` takes all of its memory from the
//! global heap. Without the feature `std`, or if a [`Geometry`] has chunks of less than 32 KiB, the
//! global heap serves a ring that was created without a backing allocator.
//!
//! The documentation of this crate says *backing allocator* for either source.
//!
//! # How memory is returned
//!
//! * *Automatically*: besides the *front* of a class (the chunk that blocks are allocated from),
//!   each ring or thread by default keeps up to 4 empty chunks of that class and frees all others.
//!   At its exit, a thread frees all of its empty chunks.
//! * *After a hand-over*: if other threads free many blocks that a thread allocated from
//!   [`OneRingAlloc`], the heap of that thread grows to 2 MiB of small chunks. The chunks that the
//!   other threads emptied then rest until their cache lines have left the caches of the other
//!   cores. When the thread frees its blocks itself again, or the program sets a limit, the thread
//!   frees these chunks in one of its next slow paths.
//! * *On request*: [`RingAlloc::trim`], [`OneRingAlloc::trim`], [`OneRingAlloc::trim_all`].
//! * *Under a limit*: [`Builder::limit`], [`OneRingAlloc::set_limit`].
//!
//! [`Stats`] reports the bytes held.
//!
//! A chunk belongs to one thread, its owner. If another thread frees the last block of the chunk,
//! the owner reuses or frees the chunk when it needs a new front, trims or exits. If the owner has
//! needed no new front for 100 ms, other threads free most of these waiting chunks, and return the
//! pages of the others to the operating system. They do so within a bounded number of their slow
//! paths, remote frees and clock ticks. This bound grows with the number of waiting chunks. They do
//! so earlier if, within the 100 ms, they free blocks in more than 4 MiB of the owner's chunks
//! (more after repeated bursts). The memory therefore leaves the process even if the owner never
//! runs again. The exceptions are the owner's fronts, the empty chunks that the owner keeps for
//! reuse, and one page of each chunk that other threads could not free.
//!
//! If the owner has exited, the thread that frees the last block of a chunk also frees the chunk,
//! unless a new thread has taken over the chunks of the owner.
//!
//! A forked child can free the blocks of the parent's other threads, but never frees the chunks of
//! these blocks. The child uses and frees the chunks of the forking thread as usual, except for
//! chunks that another thread of the parent was using at the fork. If that thread was freeing a
//! block of a chunk, or was checking whether it could free the chunk, the child may keep the chunk.
//! A signal handler must not call an allocator of this crate, because the signal may have
//! interrupted such a call.
//!
//! # Traits
//!
//! Both types implement the `Allocator` trait of allocator-api2 0.2. With the feature
//! `allocator-api2-04`, they also implement the trait of 0.4. Where the standard library's trait is
//! usable without a feature gate (Rust 1.100), they also implement that trait. This does not
//! require a feature of this crate.
//!
//! If another crate in the build turns on `allocator-api2/nightly`, two of these traits become the
//! same trait. In that case, turn on the feature `nightly` of this crate too, or build with
//! `--cfg ephemera_no_std_allocator`. A backing allocator must implement the trait of
//! allocator-api2 0.2. Wrap an allocator that implements only one of the other two traits in the
//! newtype `Std` or `Api04` of [`backing`].
//!
//! The module [`design`] explains how the allocators work.
#![no_std]
#![cfg_attr(feature = "nightly", feature(allocator_api))]
#![cfg_attr(
    not(all(feature = "std", target_has_atomic = "64")),
    expect(dead_code, reason = "a ring for one thread does without remote frees")
)]
#![cfg_attr(feature = "nightly", allow(stable_features, reason = "stable from Rust 1.100 on, gated before"))]

#[cfg(feature = "std")]
extern crate std;
#[macro_use]
extern crate ephemera_prim;

mod chunk;
mod cursor;
#[cfg(all(test, not(ephemera_loom)))]
#[path = "../tests/support/divided.rs"]
mod divided;
mod geometry;
mod heap;
mod live;
#[cfg(all(feature = "std", target_has_atomic = "64"))]
mod one;
mod ring;
mod stats;

pub use geometry::{Geometry, Standard};
#[cfg(all(feature = "std", target_has_atomic = "64", not(ephemera_loom)))]
pub use one::OneRingAlloc;
pub use ring::{Builder, RingAlloc};
pub use stats::{ClassStats, Stats};

pub use ephemera_prim::backing;
/// The pages of the operating system, from which [`OneRingAlloc`] and [`RingAlloc::new`] take
/// memory.
///
/// All threads share one cache of freed pages. The pools of `typed-pool` use the same cache. The
/// functions of this module purge freed pages, bound the number of freed pages that stay resident,
/// ask for huge pages, and report the bytes in use and in the cache. [`Pages`](pages::Pages)
/// implements `Allocator` over these pages.
///
/// # Examples
///
/// ```
/// use allocator_api2::vec::Vec;
/// use ring_alloc::{OneRingAlloc, RingAlloc, pages};
///
/// let ring = RingAlloc::new();
/// let mut bytes = Vec::new_in(&ring);
/// bytes.resize(1 << 20, 7_u8);
/// drop(bytes);
/// ring.trim();
/// OneRingAlloc.trim_all();
/// pages::purge();
/// assert_eq!(pages::usage().bytes_cached, 0);
/// ```
#[cfg(all(feature = "std", target_has_atomic = "64", not(ephemera_loom)))]
pub mod pages {
    pub use ephemera_prim::pages::{
        CACHE, CACHE_LEARNED, PageUsage, Pages, purge, set_cache, set_huge_pages, shed, usage,
    };
}

#[doc = include_str!("../DESIGN.md")]
pub mod design {}
