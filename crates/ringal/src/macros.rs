//! `ringal!`: a ring for each thread.

/// Declares a ring for each thread, or allocates from the ring of the calling thread.
///
/// * `ringal!(@init, bytes)` declares the rings. It may stand where a `thread_local!` may. The
///   other forms must be in its scope.
/// * `ringal!(@fixed, n)` returns what [`RingAl::fixed`](crate::RingAl::fixed) returns.
/// * `ringal!(@ext, n, |buffer| ...)` returns `Some` of what the closure returns for an
///   [`ExtBuf`](crate::ExtBuf).
/// * `ringal!(@generic, n)` and `ringal!(@generic::<T>, n)` return what
///   [`RingAl::generic`](crate::RingAl::generic) returns.
///
/// A thread's ring is created when the thread first uses it. The last three forms return `None` if
/// the ring has no room, inside the closure of `@ext`, which borrows the ring, and on a thread that
/// has destroyed its thread-locals. Buffers may outlive their thread.
///
/// # Aborts
/// The first use of a thread calls `handle_alloc_error` if [`RingAl::new`](crate::RingAl::new)
/// does: if there is no memory for a ring of this size.
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
        // A glob import, so that an import of `RingAl` in the program takes precedence.
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
    (@generic, $count:expr) => {
        match $count {
            count => $crate::macros::with(&RINGAL, |ring| ring.generic(count)).flatten(),
        }
    };
    (@generic::<$element:ty>, $count:expr) => {
        match $count {
            count => $crate::macros::with(&RINGAL, |ring| ring.generic::<$element>(count)).flatten(),
        }
    };
}

use core::cell::RefCell;
use std::thread::LocalKey;

use crate::{ExtBuf, RingAl};

/// Calls `f` with this thread's ring. Returns `None` if the ring is borrowed or destroyed.
#[doc(hidden)]
pub fn with<R>(rings: &'static LocalKey<RefCell<RingAl>>, f: impl FnOnce(&mut RingAl) -> R) -> Option<R> {
    rings.try_with(|ring| Some(f(&mut *ring.try_borrow_mut().ok()?))).ok().flatten()
}

/// Calls `f` with an extendable buffer. The signature gives the closure's parameter its type.
#[doc(hidden)]
pub fn extendable<'a, R>(ring: &'a mut RingAl, bytes: usize, f: impl FnOnce(ExtBuf<'a>) -> R) -> Option<R> {
    ring.extendable(bytes).map(f)
}
