//! A ring of byte buffers in one block of memory of fixed size, the *store*. Dropping a buffer is a
//! single atomic write, on any thread.
//!
//! A [`RingAl`] allocates buffers by moving along a chain of regions in its store, which it
//! allocated once. One thread writes a buffer, then sends it to other threads, or freezes and
//! shares it. The last handle frees the buffer with one write, on any thread. The ring skips
//! regions still in use, so one long-lived buffer does not stop the ring.
//!
//! | type | purpose |
//! |---|---|
//! | [`RingAl`] | the ring, used by one thread at a time |
//! | [`FixedBufMut`] | a buffer of a fixed size, with one handle |
//! | [`ExtBuf`] | a buffer that grows while it borrows the ring, and becomes a [`FixedBufMut`] |
//! | [`FixedBuf`] | a frozen buffer, or a part of one, with any number of handles |
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
//! * The store has a fixed size. If no run of free regions is long enough, a request returns
//!   `None`. The `try_` methods return an error that says whether the ring is too small or too
//!   full. A caller then falls back to a `Vec`, or waits.
//! * A buffer costs a guard of 16 bytes, and rounding to 16. A long-lived buffer costs its own
//!   region and splits the free space around it. Among a thousand such buffers, scattered over the
//!   ring, a request as large as a thousandth of the ring may be refused. Use another ring or
//!   another allocator for long-lived buffers.
//! * A request first searches the places that had room most recently, and then the rest of the ring
//!   once. The search gets expensive where long-lived buffers leave several small gaps far apart,
//!   and requests use up one gap after another.
//! * In a ring full of small buffers, a refused request visits every buffer, and so does an
//!   [`ExtBuf`] that cannot grow. If 32 buffers in use are enough to prove that a request has no
//!   room, the ring remembers them, and refuses the next request of at least that size after it has
//!   checked only those buffers. For requests of at least a sixteenth of the ring, 32 buffers are
//!   always enough. The ring's `try_` methods visit all regions when they refuse, to say how full
//!   the ring is.
//! * The ring is for one thread. Other threads can only free its buffers.
//!
//! # The end of a ring
//!
//! Dropping a ring never blocks, and its buffers stay valid. A store with live buffers is *parked*:
//! its last buffer frees it, without any further call, however many stores are parked. The drop of
//! the ring visits each of its regions. Each buffer that is dropped later costs one atomic
//! subtraction.
//!
//! There is one exception: if another thread was in the middle of freeing a buffer when the ring
//! was dropped, the last buffer may not free the store. Then a *sweep* frees it. Each creation or
//! drop of a ring on the heap runs a sweep, and so does each buffer that frees a store. A sweep
//! visits up to 8 parked stores, the most recent among them, and up to 1,024 of their regions. If
//! another thread is sweeping, the call skips its sweep, and a later sweep makes up for it.
//! [`RingAl::trim_all`] sweeps all parked stores. The 64-byte header of a freed store stays until a
//! sweep reaches it.
//!
//! # Bytes
//!
//! Buffers deref to the bytes that were written, and never expose uninitialised ones. With feature
//! `bytes`, a frozen buffer converts to a `bytes::Bytes` without copying, and writable buffers
//! implement `BufMut`.
//!
//! # Coming from ringal 0.2 to 0.4
//!
//! Programs compile unchanged, with one exception. Buffers implement `fmt::Write` besides
//! `io::Write`, so `write!` is ambiguous where both traits are in scope (E0034). Name the trait
//! there:
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
//! Sizes are also closer to the requested ones:
//!
//! | | 0.4.0 | here |
//! |---|---|---|
//! | size of the store | `n` rounded up to a power of two | `n` rounded up to 16, plus a header |
//! | `RingAl::new(10_000).fixed(12_000)` | a buffer | `None`: use `RingAl::new(16_384)` |
//! | guard of a buffer | 8 bytes | 16 bytes |
//! | rounding of a buffer | to 8 bytes or more | to 16 bytes |
//! | capacity after `fixed(21)` | at least 24 bytes: a multiple of a word | 21 bytes |
//! | capacity after `fixed(64)` | at least 72 bytes | 64 bytes, and `write` stops there |
//!
//! The module [`design`] describes how the ring works.
#![no_std]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

#[cfg(not(target_has_atomic = "ptr"))]
compile_error!(
    "ringal needs atomic compare-and-swap of pointer size, to count the handles of frozen buffers"
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
mod release;
mod ring;
mod stats;
mod store;
mod traits;
mod word;

#[cfg(all(test, feature = "alloc", ephemera_loom))]
mod models;

pub use buffer::{FixedBuf, FixedBufMut, GenericBufMut};
pub use error::{CreateError, Full, RequestError};
#[cfg(feature = "alloc")]
pub use ring::Builder;
pub use ring::{ExtBuf, RingAl};
pub use stats::Stats;

#[doc = include_str!("../DESIGN.md")]
pub mod design {}

/// The names that programs written for ringal 0.2 to 0.4 expect in scope after `ringal!(@init,
/// ..)`.
#[doc(hidden)]
pub mod names {
    pub use crate::RingAl;
    pub use core::cell::RefCell;
}

/// Programs that must not compile.
///
/// A ring is for one thread at a time:
/// ```compile_fail,E0277
/// # use ringal::RingAl;
/// fn shared<T: Sync>(_: &T) {}
/// shared(&RingAl::new(64));
/// ```
///
/// An extendable buffer borrows its ring exclusively:
/// ```compile_fail,E0499
/// # use ringal::RingAl;
/// let mut ring = RingAl::new(1024);
/// let growing = ring.extendable(8).unwrap();
/// let other = ring.fixed(8);
/// growing.finalize();
/// ```
///
/// An extendable buffer does not outlive the ring:
/// ```compile_fail,E0515
/// # use ringal::{ExtBuf, RingAl};
/// fn make() -> ExtBuf<'static> {
///     let mut ring = RingAl::new(1024);
///     ring.extendable(8).unwrap()
/// }
/// ```
///
/// An extendable buffer does not leave the closure of `ringal!`:
/// ```compile_fail
/// # use ringal::ringal;
/// ringal!(@init, 1024);
/// let escaped = ringal!(@ext, 8, |buffer| buffer);
/// ```
///
/// A slice of the written bytes does not outlive its buffer:
/// ```compile_fail,E0505
/// # use ringal::RingAl;
/// let buffer = RingAl::new(1024).fixed(8).unwrap();
/// let bytes = &buffer[..];
/// drop(buffer);
/// assert!(bytes.is_empty());
/// ```
///
/// A frozen buffer is not writable:
/// ```compile_fail,E0596
/// # use ringal::RingAl;
/// let mut buffer = RingAl::new(1024).fixed(8).unwrap().freeze();
/// buffer[..].fill(0);
/// ```
///
/// `write!` is ambiguous where both traits are in scope:
/// ```compile_fail,E0034
/// # use ringal::RingAl;
/// use std::{fmt::Write as _, io::Write as _};
/// let mut buffer = RingAl::new(1024).fixed(8).unwrap();
/// let _ = write!(buffer, "{}", 7);
/// ```
///
/// A buffer of elements that are not `Send` is not `Send`:
/// ```compile_fail,E0277
/// # use ringal::RingAl;
/// let buffer = RingAl::new(1024).generic::<std::rc::Rc<u8>>(8).unwrap();
/// std::thread::spawn(move || drop(buffer));
/// ```
#[cfg(all(doctest, feature = "std"))]
mod does_not_compile {}
