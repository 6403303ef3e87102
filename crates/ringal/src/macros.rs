//! Defines `ringal!`, which declares and uses one ring per thread.

/// Declares one ring per thread, or allocates from the ring of the calling thread.
///
/// * `ringal!(@init, bytes)` declares one ring of `bytes` bytes per thread. It may appear wherever
///   `thread_local!` may. The other forms of the macro must be in the scope of this declaration.
/// * `ringal!(@fixed, n)` returns what [`RingAl::fixed`](crate::RingAl::fixed) returns.
/// * `ringal!(@ext, n, |buffer| ...)` calls the closure with an [`ExtBuf`](crate::ExtBuf) of at
///   least `n` bytes, and returns the closure's result as `Some`.
/// * `ringal!(@generic, n)` and `ringal!(@generic::<T>, n)` return what
///   [`RingAl::generic`](crate::RingAl::generic) returns.
///
/// A thread's ring is created when the thread first uses it. Buffers may outlive their thread.
///
/// All forms but `@init` return `None` in these cases:
///
/// * The ring has no room.
/// * The call is inside the closure of `@ext`, which borrows the ring.
/// * The thread has already destroyed its ring.
///
/// # Aborts
/// The first use on a thread calls `handle_alloc_error` if
/// [`RingAl::try_new`](crate::RingAl::try_new) fails.
///
/// # Examples
///
/// ```
/// use ringal::ringal;
/// use std::io::Write;
///
/// ringal!(@init, 64 << 10);
///
/// let mut fixed = ringal!(@fixed, 64).expect("an empty ring has room");
/// fixed.write_all(b"hello")?;
/// let line = ringal!(@ext, 16, |mut buffer| {
///     assert!(ringal!(@fixed, 8).is_none());
///     write!(buffer, "{} and more", 42).map(|()| buffer.finalize())
/// });
/// assert_eq!(line.expect("there is room")?, "42 and more");
/// # Ok::<(), std::io::Error>(())
/// ```
#[macro_export]
macro_rules! ringal {
    (@init, $bytes:expr) => {
        // This is a glob import, so an import of `RingAl` in the program takes precedence.
        #[allow(unused_imports, reason = "programs written for ringal 0.2 to 0.4 expect these names")]
        use $crate::names::*;

        ::std::thread_local! {
            /// The ring of each thread.
            pub static RINGAL: ::core::cell::RefCell<$crate::RingAl> =
                ::core::cell::RefCell::new($crate::RingAl::new($bytes));
        }
    };
    (@fixed, $bytes:expr) => {
        match $bytes {
            bytes => $crate::macros::with(&RINGAL, |ring| ring.fixed(bytes)).flatten(),
        }
    };
    (@ext, $bytes:expr, $use:expr) => {
        match $bytes {
            bytes => {
                $crate::macros::with(&RINGAL, |ring| $crate::macros::extendable(ring, bytes, $use)).flatten()
            }
        }
    };
    (@generic $(::<$element:ty>)?, $count:expr) => {
        match $count {
            count => $crate::macros::with(&RINGAL, |ring| ring.generic$(::<$element>)?(count)).flatten(),
        }
    };
}

use core::cell::RefCell;
use std::thread::LocalKey;

use crate::{ExtBuf, RingAl};

/// Calls `f` with this thread's ring. Returns the result of `f`, or `None` if the ring is already
/// borrowed or destroyed.
#[doc(hidden)]
pub fn with<R>(rings: &'static LocalKey<RefCell<RingAl>>, f: impl FnOnce(&mut RingAl) -> R) -> Option<R> {
    rings.try_with(|ring| Some(f(&mut *ring.try_borrow_mut().ok()?))).ok().flatten()
}

/// Calls `f` with an extendable buffer. Returns the result of `f`, or `None` if the ring has no
/// room. The signature determines the type of the closure's parameter.
#[doc(hidden)]
pub fn extendable<'a, R>(ring: &'a mut RingAl, bytes: usize, f: impl FnOnce(ExtBuf<'a>) -> R) -> Option<R> {
    ring.extendable(bytes).map(f)
}
