//! A ring of byte buffers in one store: taken guards are skipped, released by one store.
//!
//! A [`RingAl`] hands out buffers by moving along a chain of regions in memory that it took once. A
//! buffer is written by one holder, sent to other threads, frozen and shared; its last holder gives
//! it back with one store, on any thread. A region still in use is skipped, so one buffer that
//! stays does not stop the ring.
//!
//! | type | is |
//! |---|---|
//! | [`RingAl`] | the ring: for one thread at a time |
//! | [`FixedBufMut`] | a buffer of a fixed size, for one holder |
//! | [`ExtBuf`] | a buffer that grows while it borrows the ring, to become a [`FixedBufMut`] |
//! | [`FixedBuf`] | a frozen buffer, or a part of one, for any number of holders |
//! | [`GenericBufMut`] | a buffer of elements of any type |
//! | [`ringal!`] | a ring for each thread |
//!
//! # Examples
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use std::io::Write;
//! use ringal::RingAl;
//!
//! let mut ring = RingAl::new(64 << 10);
//!
//! let mut packet = ring.fixed(1_500).expect("an empty ring has room");
//! packet.write_all(b"header and body")?;
//! let packet = packet.freeze();
//! let body = packet.slice(11..);
//! let reader = std::thread::spawn(move || assert_eq!(body, "body"));
//!
//! let mut line = ring.extendable(16).expect("there is room");
//! write!(line, "GET {} HTTP/1.1", "/a/path/longer/than/asked/for")?;
//! assert!(line.finalize().ends_with(b"HTTP/1.1"));
//! # reader.join().unwrap();
//! # }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Trade-offs
//!
//! * The store has a fixed size. When no run of free regions is long enough, requests get `None`,
//!   or from the `try_` methods an error that says whether the ring is too small or too full;
//!   callers fall back to a `Vec`, or wait.
//! * A buffer costs a guard of 16 bytes and rounding to 16. A buffer that stays costs its own
//!   region, and splits the free space around it: beside a thousand of them, scattered, a request
//!   as large as a thousandth of the ring may find no place. Give what lives for long another ring,
//!   or another allocator.
//! * A request looks for room where there was some last, and then everywhere, one turn at most:
//!   that is the price of what stays, where the free space lies in several small windows far apart
//!   and each is used up in turn.
//! * In a ring that is full of small buffers, a request that is refused looks at each of them, and
//!   so does an [`ExtBuf`] that cannot grow. Where 32 buffers in use are enough to show that a
//!   request has no room, the ring remembers them. It refuses the next request of that size or more
//!   after a look at these. For requests of a sixteenth of the ring or more they always are. The
//!   `try_` methods of the ring look at all regions when they refuse, to say how full the ring is.
//! * The ring is for one thread; only giving back works from all.
//!
//! # The end of a ring
//!
//! Dropping a ring waits for nothing and leaves buffers valid. A store with buffers in use is
//! *parked*: its last buffer frees it, without any further call, however many stores are parked.
//! The drop of the ring looks at each of its regions, and each buffer that is dropped later pays
//! for one atomic subtraction.
//!
//! One case is left: another thread was in the middle of releasing a buffer when the ring was
//! dropped. The store may not count that release, and then its last buffer does not free it. One of
//! the next calls does: each ring of the heap that is made or dropped and each release that frees a
//! store looks at up to 8 parked stores, the latest among them, and at up to 1,024 regions of
//! these. (A call that finds another thread looking leaves that to the next one.)
//! [`RingAl::reclaim`] looks at all. Of a store that was freed, a header of 64 bytes stays until
//! one of these calls comes by.
//!
//! # Bytes
//!
//! What is not written yet is never shown as initialised: buffers deref to the written bytes. With
//! feature `bytes`, a frozen buffer becomes a `bytes::Bytes` without copying, and buffers are
//! `BufMut`.
//!
//! # Coming from ringal 0.2 to 0.4
//!
//! Change nothing, but for one form that may not compile. Buffers are `fmt::Write` besides
//! `io::Write`, so that `write!` has to be told which is meant where both traits are in scope
//! (E0034):
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use std::fmt::Write as _;
//! use std::io::{self, Write as _};
//! # let mut text = String::new();
//! # write!(text, "both are used").unwrap();
//!
//! let mut buffer = ringal::RingAl::new(1024).fixed(64).expect("an empty ring has room");
//! buffer.write_all(b"GET ")?;
//! io::Write::write_fmt(&mut buffer, format_args!("/{}", 7))?;
//! assert_eq!(buffer, "GET /7");
//! # }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! And `RingAl::new(n)` takes the bytes that it is asked for:
//!
//! | | 0.4.0 | here |
//! |---|---|---|
//! | the store | `n` rounded up to a power of two | `n` rounded up to 16, and a header on top |
//! | `RingAl::new(10_000).fixed(12_000)` | a buffer | `None`: ask for `RingAl::new(16_384)` |
//! | what a buffer costs besides its bytes | a guard of 8 bytes, rounding to 8 and more | a guard of 16 bytes, rounding to 16 |
//! | `fixed(21)`, `fixed(64)` have room for | at least 24 and 72 bytes: the next larger multiple of a word | 21 and 64 bytes, and `write` stops there |
//!
//! How it works: see the module [`design`].
#![no_std]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

#[cfg(not(target_has_atomic = "ptr"))]
compile_error!(
    "ringal counts the handles of frozen buffers: it needs atomic compare-and-swap of pointer size"
);

mod buffer;
#[cfg(feature = "bytes")]
mod bytes;
mod checked;
#[cfg(feature = "alloc")]
mod end;
mod error;
mod geometry;
mod guard;
#[cfg(all(feature = "std", not(ephemera_loom)))]
#[doc(hidden)]
pub mod macros;
#[cfg(feature = "alloc")]
mod parked;
mod ring;
mod stats;
mod store;
mod word;

#[cfg(all(test, feature = "alloc", ephemera_loom))]
mod models;

pub use buffer::{ExtBuf, FixedBuf, FixedBufMut, GenericBufMut};
pub use error::{CreateError, Full, Refused};
#[cfg(feature = "alloc")]
pub use ring::Builder;
pub use ring::RingAl;
pub use stats::Stats;

#[doc = include_str!("../DESIGN.md")]
pub mod design {}

/// What programs written for the namesake find in scope after `ringal!(@init, ..)`.
#[doc(hidden)]
pub mod names {
    pub use crate::RingAl;
    pub use core::cell::RefCell;
}

/// What does not compile, and why it must not.
///
/// A ring is for one thread at a time:
/// ```compile_fail,E0277
/// # use ringal::RingAl;
/// fn shared<T: Sync>(_: &T) {}
/// shared(&RingAl::new(64));
/// ```
///
/// An extendable buffer has its ring for itself:
/// ```compile_fail,E0499
/// # use ringal::RingAl;
/// let mut ring = RingAl::new(1024);
/// let growing = ring.extendable(8).unwrap();
/// let other = ring.fixed(8);
/// growing.finalize();
/// ```
///
/// It does not outlive the ring:
/// ```compile_fail,E0515
/// # use ringal::{ExtBuf, RingAl};
/// fn make() -> ExtBuf<'static> {
///     let mut ring = RingAl::new(1024);
///     ring.extendable(8).unwrap()
/// }
/// ```
///
/// Nor does it leave the closure of `ringal!`:
/// ```compile_fail
/// # use ringal::ringal;
/// ringal!(@init, 1024);
/// let escaped = ringal!(@ext, 8, |buffer| buffer);
/// ```
///
/// What is written does not outlive its buffer:
/// ```compile_fail,E0505
/// # use ringal::RingAl;
/// let buffer = RingAl::new(1024).fixed(8).unwrap();
/// let bytes = &buffer[..];
/// drop(buffer);
/// assert!(bytes.is_empty());
/// ```
///
/// Frozen buffers are not written:
/// ```compile_fail,E0596
/// # use ringal::RingAl;
/// let mut buffer = RingAl::new(1024).fixed(8).unwrap().freeze();
/// buffer[..].fill(0);
/// ```
///
/// Which `write!` is meant, where there are two:
/// ```compile_fail,E0034
/// # use ringal::RingAl;
/// use std::{fmt::Write as _, io::Write as _};
/// let mut buffer = RingAl::new(1024).fixed(8).unwrap();
/// let _ = write!(buffer, "{}", 7);
/// ```
///
/// Elements that must stay on their thread keep their buffer there:
/// ```compile_fail,E0277
/// # use ringal::RingAl;
/// let buffer = RingAl::new(1024).generic::<std::rc::Rc<u8>>(8).unwrap();
/// std::thread::spawn(move || drop(buffer));
/// ```
#[cfg(all(doctest, feature = "std"))]
mod does_not_compile {}
