//! The atomics that the allocators use: the atomics of `core`, stand-ins where the target lacks
//! them, or loom's atomics in a model.
//!
//! `cfg(ephemera_loom)` selects loom. `cfg(test)` would not work, because it does not apply to
//! dependencies: a model in `ring-alloc` would run this crate on atomics that loom cannot see.

#[cfg(not(any(ephemera_loom, all(target_has_atomic = "64", target_has_atomic = "ptr"))))]
mod one_thread;

#[cfg(all(not(ephemera_loom), target_has_atomic = "64"))]
pub use core::sync::atomic::AtomicU64;
#[cfg(not(ephemera_loom))]
pub use core::sync::atomic::{AtomicBool, AtomicU8, Ordering, fence};
#[cfg(all(not(ephemera_loom), target_has_atomic = "ptr"))]
pub use core::sync::atomic::{AtomicPtr, AtomicUsize};

#[cfg(not(any(ephemera_loom, target_has_atomic = "64")))]
pub use one_thread::AtomicU64;
#[cfg(not(any(ephemera_loom, target_has_atomic = "ptr")))]
pub use one_thread::{AtomicPtr, AtomicUsize};

#[cfg(ephemera_loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};

use crossbeam_utils::Backoff;

/// The number of tries of [`try_briefly`]. Together with the pauses after them, they take about as
/// long as a thousand spin hints.
const TRIES: usize = if cfg!(ephemera_loom) { 2 } else { 21 };

/// Calls `attempt` until it returns a value, at most [`TRIES`] times, and pauses after each
/// failure. Returns `None` if all tries fail.
pub(crate) fn try_briefly<T>(mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    #[cfg(not(ephemera_loom))]
    let backoff = Backoff::new();
    for _ in 0..TRIES {
        let got = attempt();
        if got.is_some() {
            return got;
        }
        // The time of the spin doubles with each of the first few failures.
        #[cfg(not(ephemera_loom))]
        backoff.spin();
        #[cfg(ephemera_loom)]
        loom::thread::yield_now();
    }
    None
}

/// Pushes `item` onto the stack with this head, unless the head equals `closed`. Returns whether
/// this call pushed the item.
///
/// `link` stores its argument in the new item: a pointer to the item below, or null. `order` is the
/// ordering of the push, which publishes the link and everything that this thread wrote to the
/// item.
#[inline]
pub fn push<T>(
    head: &AtomicPtr<T>,
    item: *mut T,
    closed: Option<*mut T>,
    order: Ordering,
    link: impl Fn(*mut T),
) -> bool {
    let backoff = Backoff::new();
    let mut below = guess(head);
    while Some(below) != closed {
        link(below);
        match head.compare_exchange_weak(below, item, order, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(now) => below = now,
        }
        backoff.spin();
    }
    false
}

/// Returns a first guess of a stack's head. The exchange of a push confirms or corrects the guess.
///
/// Under loom the guess is null. Loom reorders an operation only with the previous operation on the
/// same atomic. If a load preceded the push, a model would never run the push before another
/// thread's read of the head.
#[inline]
#[must_use]
pub fn guess<T>(head: &AtomicPtr<T>) -> *mut T {
    if cfg!(ephemera_loom) { core::ptr::null_mut() } else { head.load(Ordering::Relaxed) }
}

/// Replaces the value of a word with the result of `new(value)`, and returns the previous value.
///
/// `first` is a first guess of the value. `exchange` is the word's `compare_exchange` or
/// `compare_exchange_weak`, with its orderings. After a failed exchange, the function tries again
/// with the value that the exchange found. `core` has an equivalent method, but the oldest
/// supported compiler does not know its current name.
///
/// # Errors
/// Returns the value, without a change, if `new(value)` is `None`.
#[inline]
pub fn change_if<T: Copy>(
    first: T,
    exchange: impl Fn(T, T) -> Result<T, T>,
    new: impl Fn(T) -> Option<T>,
) -> Result<T, T> {
    let mut value = first;
    while let Some(new) = new(value) {
        match exchange(value, new) {
            Ok(_) => return Ok(value),
            Err(now) => value = now,
        }
    }
    Err(value)
}

/// Declares a `const fn`. Under loom it declares a plain `fn`, because loom's atomics cannot be
/// created at compile time.
#[macro_export]
#[doc(hidden)]
macro_rules! const_unless_loom {
    ($(#[$meta:meta])* $vis:vis fn $name:ident ( $($args:tt)* ) -> $ret:ty $body:block) => {
        #[cfg(not(ephemera_loom))]
        $(#[$meta])* $vis const fn $name($($args)*) -> $ret $body
        #[cfg(ephemera_loom)]
        $(#[$meta])* $vis fn $name($($args)*) -> $ret $body
    };
}

#[cfg(all(test, ephemera_loom))]
mod tests {
    /// Checks that models use loom's atomics. On the atomics of `core`, a model would pass with any
    /// orderings.
    #[test]
    fn loom_models_run_on_the_atomics_of_loom() {
        loom::model(|| {
            let name = core::any::type_name::<super::AtomicU64>();
            assert!(name.starts_with("loom::"), "the models run on {name}");
        });
    }
}
