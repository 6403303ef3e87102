//! Ring of chunks for memory that does not live long.
//!
//! Allocation moves a cursor through a chunk; a free counts; a chunk whose blocks have all come home is used again. Blocks have
//! no header, may be freed in any order and one by one, and memory stays bounded by what is alive, not by
//! what came and went.
//!
//! | type | for | blocks are freed |
//! |---|---|---|
//! | [`RingAlloc`] | one thread, over any backing allocator | by any handle to the same ring |
//! | [`OneRingAlloc`] | all threads, zero-sized, over the global heap | on any thread, also after theirs ended |
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
//! packet.extend_from_slice(b"for a moment");
//! drop(packet);
//!
//! let parcel = Box::new_in([1_u8, 2, 3], OneRingAlloc);
//! std::thread::spawn(move || assert_eq!(*parcel, [1, 2, 3])).join().unwrap();
//! # }
//! ```
//!
//! # Trade-offs
//!
//! * A block that is held for long keeps its chunk: 32 KiB for blocks to 2 KiB, 256 KiB for blocks to 64 KiB. It
//!   costs nothing more than that, but a thousand small blocks that live for ever, scattered among short-lived ones, can hold a
//!   thousand chunks (32 MB). Give such blocks to another allocator.
//! * A block can grow in place only at the top of the chunk. Several vectors that grow in turn move as they would anywhere.
//! * What is larger than 64 KiB, or aligned to more than 4 KiB, is the backing allocator's own block, with that one's speed.
//! * A region that is freed all at once wants an arena (`bumpalo`); objects of one type that live for long want a pool.
//!
//! # Memory comes back
//!
//! By itself: of the chunks that run empty, each ring or thread keeps 4 of each class and frees the others; a thread frees all
//! of them when it ends. By request: [`RingAlloc::flush`], [`OneRingAlloc::clean_local`], [`OneRingAlloc::clean_global`]. Under
//! a limit: [`Builder::limit`], [`OneRingAlloc::set_limit`]. [`Stats`] says what is held.
//!
//! A chunk that remote frees emptied is booked when its owner next runs out of its front chunk, cleans, or ends. A chunk that an
//! ended thread left behind is freed with its last block, by the thread that frees that block.
//!
//! In a forked child, chunks of the parent's other threads stay: blocks in them can be freed, but their memory is not. What the
//! forking thread has is used and freed as before.
//!
//! # Traits
//!
//! Both types implement `Allocator` of allocator-api2 0.2; of 0.4 with feature `allocator-api2-04`; and the standard library's
//! where the compiler offers it without a gate (Rust 1.100), with no feature at all. If some crate in the build turns on
//! `allocator-api2/nightly`, two of these are one and the same trait: turn on feature `nightly` here too, or build with
//! `--cfg ephemera_no_std_allocator`. Backing allocators that speak only one of the other traits enter through
//! the newtypes `Std` and `Api04` of [`backing`].
//!
//! How it works: see the module [`design`].
#![no_std]
#![cfg_attr(feature = "nightly", feature(allocator_api))]
#![cfg_attr(feature = "nightly", allow(stable_features, reason = "stable from Rust 1.100 on, gated before"))]

#[cfg(feature = "std")]
extern crate std;

mod account;
mod chunk;
mod cursor;
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

#[doc = include_str!("../DESIGN.md")]
pub mod design {}
