//! The atomics of `core`, or those of loom in a model.
//!
//! The switch is `cfg(ephemera_loom)`. `cfg(test)` would not do: it does not reach dependencies, so
//! a model in `ring-alloc` would run on atomics that loom cannot see.

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

/// Waits a moment for another thread. Each of the first few calls with one `backoff` waits longer
/// than the one before. Under loom this function tells the model checker that this thread waits.
#[inline]
pub fn pause(backoff: &Backoff) {
    #[cfg(not(ephemera_loom))]
    backoff.spin();
    #[cfg(ephemera_loom)]
    {
        let _ = backoff;
        loom::thread::yield_now();
    }
}

/// Pushes `item` onto the stack with this head, unless the head is `closed`. Returns whether this
/// call pushed the item.
///
/// `link` stores its argument in the new item, as the item below: null, or an item that was pushed
/// before. `order` is the ordering of the push. It publishes the link, and all that this thread
/// wrote to the item.
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

/// Returns the head of a stack as a first guess, which the exchange of a push confirms or corrects.
///
/// Under loom the guess is null. Loom reorders an operation only with the previous operation on the
/// same atomic. If that were a load here, no model would run the push before another thread's read
/// of the head.
#[inline]
#[must_use]
pub fn guess<T>(head: &AtomicPtr<T>) -> *mut T {
    if cfg!(ephemera_loom) { core::ptr::null_mut() } else { head.load(Ordering::Relaxed) }
}

/// Changes a word to `new(value)`, unless that is `None`. Returns whether it changed the word.
///
/// `value` is the word's value as `exchange` last saw it, and `first` is a first guess of it.
/// `exchange` is the word's `compare_exchange` or `compare_exchange_weak`, with its orderings. The
/// method of `core` for this has a new name, which the oldest supported compiler does not know.
#[inline]
pub fn change_if<T: Copy>(
    first: T,
    exchange: impl Fn(T, T) -> Result<T, T>,
    new: impl Fn(T) -> Option<T>,
) -> bool {
    let mut value = first;
    while let Some(new) = new(value) {
        match exchange(value, new) {
            Ok(_) => return true,
            Err(now) => value = now,
        }
    }
    false
}

/// Declares a `const fn`, or a plain `fn` under loom, whose atomics cannot be created at compile
/// time.
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
    /// A model that runs on `core`'s atomics passes with any orderings.
    #[test]
    fn loom_models_run_on_the_atomics_of_loom() {
        loom::model(|| {
            let name = core::any::type_name::<super::AtomicU64>();
            assert!(name.starts_with("loom::"), "the models run on {name}");
        });
    }
}
