//! A ring of byte buffers in one fixed-size block of memory, the *store*. While the ring exists,
//! any thread frees an unshared buffer with a single atomic write.
//!
//! A [`RingAl`] allocates its store once, and then allocates buffers by moving along the chain of
//! regions in the store. One thread writes a buffer, then sends it to another thread, or freezes
//! and shares it. Dropping the last handle frees the buffer. The ring skips regions in use, so a
//! long-lived buffer does not stop the ring.
//!
//! | type | purpose |
//! |---|---|
//! | [`RingAl`] | the ring, used by one thread at a time |
//! | [`FixedBufMut`] | a buffer of a fixed size, with one handle |
//! | [`ExtBuf`] | a buffer that grows while it borrows the ring, and becomes a [`FixedBufMut`] |
//! | [`FixedBuf`] | a frozen buffer, or a part of one, with any number of handles |
//! | [`GenericBufMut`] | a buffer of elements of any type |
//! | [`ringal!`] | one ring per thread |
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
//!   full. The caller can then fall back to a `Vec`, or wait.
//! * Each buffer has a guard of 16 bytes and a size that is rounded up to a multiple of 16. Feature
//!   `checked` raises both numbers to 32 and adds a margin. A long-lived buffer occupies its region
//!   and splits the free space around it. If a thousand long-lived buffers are scattered over the
//!   ring, the ring may refuse a request as small as a thousandth of its size. Use another ring or
//!   another allocator for long-lived buffers.
//! * If buffers are freed in bursts, for example by another thread that frees batches, the ring
//!   cycles through up to about 4 MiB of its store. The cache lines of a freed buffer then leave
//!   the caches of that thread's core before the ring uses them again.
//! * A request first searches at a few positions where it is likely to find room. If these have no
//!   room, the search continues through the ring, at most once around. Such a round is often needed
//!   if long-lived buffers leave several small gaps far apart, and requests use up one gap after
//!   another.
//! * In a ring full of small buffers, a refused request visits every buffer. An [`ExtBuf`] that
//!   cannot grow also visits every buffer. If at most 32 live buffers block every run of the
//!   requested size, the ring remembers them until it merges regions or searches again. Until then,
//!   and while these buffers are live, the ring checks only them before it refuses a request of at
//!   least that size. For requests of at least a sixteenth of the ring, 32 buffers are always
//!   enough. If a `try_` method of the ring refuses a request for lack of room, it visits all
//!   regions to report how full the ring is.
//! * Only one thread at a time can allocate from a ring. Any thread can use and free its buffers.
//!
//! # The end of a ring
//!
//! Dropping a ring never blocks, and its buffers stay valid. If buffers are live, the store is
//! *parked* until its last buffer frees it. No further call is needed, however many stores are
//! parked. The drop of the ring visits each of its regions. Each later drop of a buffer costs an
//! additional atomic subtraction.
//!
//! There is one exception: if another thread was freeing a buffer when the ring was dropped, the
//! drop of the last buffer may leave the store parked. In that case, a *sweep* frees the store.
//! Every creation and drop of a ring on the heap runs a sweep, and so does every drop of a buffer
//! that frees a store. A sweep visits up to 8 parked stores, usually including the most recent one,
//! and up to 1,024 of the regions in these stores. If another thread is sweeping, a thread skips
//! its sweep, and the other thread then sweeps once more. If many sweeps are skipped, later sweeps
//! visit more stores to make up for them. [`RingAl::trim_all`] sweeps all parked stores, unless
//! another thread is sweeping. The 64-byte header of a freed store stays allocated until a sweep
//! reaches it.
//!
//! In a forked child, no thread releases the buffers of the parent's other threads. A store may
//! also stay allocated if, at the fork, another thread of the parent was releasing one of its
//! buffers, was dropping its ring, or was sweeping the store. A signal handler must not use a ring
//! or drop a buffer, because the signal may have interrupted such a call.
//!
//! # Bytes
//!
//! Byte buffers dereference to the written bytes only. With feature `bytes`, a frozen buffer
//! converts to a `bytes::Bytes` without copying, and writable byte buffers implement `BufMut`.
//!
//! # Coming from ringal 0.2 to 0.4
//!
//! With the default features, or any of `tls`, `drop` and `generic`, programs compile unchanged,
//! with one exception. (With `default-features = false` and none of these features, add `std`, or
//! `alloc` without the standard library. Without them, a ring needs memory from the caller.)
//! Buffers implement `fmt::Write` as well as `io::Write`, so `write!` is ambiguous where both
//! traits are in scope (E0034). In such a place, name the trait:
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
//! Sizes are also closer to the requested sizes:
//!
//! | | 0.4.0 | here |
//! |---|---|---|
//! | size of the store | `n` rounded up to a power of two | `n` rounded up to a multiple of 16, plus 112 bytes |
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
#[macro_use]
extern crate ephemera_prim;

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
/// A ring cannot be shared between threads:
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
/// An extendable buffer cannot outlive its ring:
/// ```compile_fail,E0515
/// # use ringal::{ExtBuf, RingAl};
/// fn make() -> ExtBuf<'static> {
///     let mut ring = RingAl::new(1024);
///     ring.extendable(8).unwrap()
/// }
/// ```
///
/// An extendable buffer cannot escape from the closure of `ringal!`:
/// ```compile_fail
/// # use ringal::ringal;
/// ringal!(@init, 1024);
/// let escaped = ringal!(@ext, 8, |buffer| buffer);
/// ```
///
/// A slice of the written bytes cannot outlive its buffer:
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
