//! The one switch between `core`'s atomics and loom's.
//!
//! Keyed on `cfg(ephemera_loom)` and on nothing else: a dependency never sees `cfg(test)`, so a model in
//! `ring-alloc` would otherwise run on atomics that loom cannot see.

#[cfg(all(not(ephemera_loom), target_has_atomic = "64"))]
pub use core::sync::atomic::AtomicU64;
#[cfg(not(ephemera_loom))]
pub use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, fence};

#[cfg(ephemera_loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};

/// Tells the processor, or the model checker, that this thread waits for another one.
#[inline]
pub fn spin_hint() {
    #[cfg(not(ephemera_loom))]
    core::hint::spin_loop();
    #[cfg(ephemera_loom)]
    loom::thread::yield_now();
}

/// The head of a list that a push is to try first: as it is now, to be confirmed by the exchange that follows.
///
/// Loom reverses an operation only with the last one on the same atomic. A load here would be that one, and no model
/// would ever see the push come before another thread's look at the head; so there the guess is blind.
#[cfg(target_has_atomic = "ptr")]
#[inline]
#[must_use]
pub fn guess<T>(head: &AtomicPtr<T>) -> *mut T {
    if cfg!(ephemera_loom) { core::ptr::null_mut() } else { head.load(Ordering::Relaxed) }
}

/// `const fn` everywhere but under loom, whose atomics cannot be made at compile time.
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
    /// A model that ran on `core`'s atomics would pass whatever the orderings are.
    #[test]
    fn loom_atomics_are_looms() {
        loom::model(|| {
            let name = core::any::type_name::<super::AtomicU64>();
            assert!(name.starts_with("loom::"), "the models run on {name}");
        });
    }
}
