//! Words that one thread writes and others may read.
//!
//! The owner's counts are written on every allocation, so they must cost no more than a plain field; and
//! statistics read them from other threads, so a plain field would be a data race. A load and a store with
//! `Relaxed` are both: up to the width of a pointer they are the plain instructions on every target that we know. On 32-bit targets an
//! [`OwnerU64`] costs more: on armv7 its store is a loop of exclusive loads and stores.
//!
//! They are **not** counters for two writers: `add` is a load and a store, not one operation.

use crate::sync::Ordering;

// ORDERING: Release. Pairs with the Acquire in `OwnerPtr::follow` and `OwnerU64::observe`. Publishes: what the owner
// did before, above all what the pointer points at and the end of use of the slots whose bits are stored.
const PUBLISH: Ordering =
    if cfg!(ephemera_weaken = "publish_relaxed") { Ordering::Relaxed } else { Ordering::Release };
// ORDERING: Acquire. Pairs with the Release in `OwnerPtr::publish` and `OwnerU64::publish`.
const OBSERVE: Ordering =
    if cfg!(ephemera_weaken = "observe_relaxed") { Ordering::Relaxed } else { Ordering::Acquire };

macro_rules! owner_word {
    ($(#[$meta:meta])* $name:ident, $int:ty, $atomic:ty) => {
        $(#[$meta])*
        #[derive(Debug)]
        #[repr(transparent)]
        pub struct $name($atomic);

        impl $name {
            $crate::const_unless_loom! {
                /// A word with this first value.
                #[must_use]
                pub fn new(value: $int) -> Self {
                    Self(<$atomic>::new(value))
                }
            }

            /// The value, as far as this thread has seen it.
            #[inline]
            #[must_use]
            pub fn get(&self) -> $int {
                self.0.load(Ordering::Relaxed)
            }

            /// Stores a value. The owner's alone.
            #[inline]
            pub fn set(&self, value: $int) {
                self.0.store(value, Ordering::Relaxed);
            }

            /// Stores a value with all that came before it: the end of use of what it says is free. The owner's alone.
            #[inline]
            pub fn publish(&self, value: $int) {
                // ORDERING: `PUBLISH`. Pairs with `observe`.
                self.0.store(value, PUBLISH);
            }

            /// The value, and with it what its owner did before it published that.
            #[inline]
            #[must_use]
            pub fn observe(&self) -> $int {
                // ORDERING: `OBSERVE`. Pairs with `publish`.
                self.0.load(OBSERVE)
            }

            /// Adds and returns the sum. The owner's alone; it must not overflow.
            #[inline]
            pub fn add(&self, more: $int) -> $int {
                let sum = self.get().wrapping_add(more);
                self.set(sum);
                sum
            }

            /// Takes off and returns the rest. The owner's alone; it must not go below zero.
            #[inline]
            pub fn sub(&self, less: $int) -> $int {
                $crate::invariant!(self.get() >= less, "an owner's count went below zero");
                let rest = self.get().wrapping_sub(less);
                self.set(rest);
                rest
            }
        }
    };
}

owner_word! {
    /// A `usize` that its owner writes and others may read.
    OwnerUsize, usize, crate::sync::AtomicUsize
}

#[cfg(any(ephemera_loom, target_has_atomic = "64"))]
owner_word! {
    /// A `u64` that its owner writes and others may read.
    OwnerU64, u64, crate::sync::AtomicU64
}

#[cfg(not(any(ephemera_loom, target_has_atomic = "64")))]
owner_word! {
    /// A `u64` that its owner writes. This target has no 64-bit atomics, hence no type that other threads read.
    OwnerU64, u64, LocalU64
}

/// What stands in for `AtomicU64` where there is none: a cell, for one thread.
#[cfg(not(any(ephemera_loom, target_has_atomic = "64")))]
#[derive(Debug)]
struct LocalU64(core::cell::Cell<u64>);

#[cfg(not(any(ephemera_loom, target_has_atomic = "64")))]
impl LocalU64 {
    const fn new(value: u64) -> Self {
        Self(core::cell::Cell::new(value))
    }

    fn load(&self, _: Ordering) -> u64 {
        self.0.get()
    }

    fn store(&self, value: u64, _: Ordering) {
        self.0.set(value);
    }
}

/// A pointer that its owner writes and others may read.
#[derive(Debug)]
#[repr(transparent)]
pub struct OwnerPtr<T>(crate::sync::AtomicPtr<T>);

impl<T> OwnerPtr<T> {
    crate::const_unless_loom! {
        /// A null pointer.
        #[must_use]
        pub fn null() -> Self {
            Self(crate::sync::AtomicPtr::new(core::ptr::null_mut()))
        }
    }

    crate::const_unless_loom! {
        /// This pointer.
        #[must_use]
        pub fn new(pointer: *mut T) -> Self {
            Self(crate::sync::AtomicPtr::new(pointer))
        }
    }

    /// The pointer, as far as this thread has seen it.
    #[inline]
    #[must_use]
    pub fn get(&self) -> *mut T {
        self.0.load(Ordering::Relaxed)
    }

    /// Stores a pointer. The owner's alone.
    #[inline]
    pub fn set(&self, pointer: *mut T) {
        self.0.store(pointer, Ordering::Relaxed);
    }

    /// Stores a pointer to something that readers on other threads may follow at once.
    #[inline]
    pub fn publish(&self, pointer: *mut T) {
        // ORDERING: `PUBLISH`. Pairs with `OwnerPtr::follow`. Publishes: what the pointer points at.
        self.0.store(pointer, PUBLISH);
    }

    /// Reads a pointer that the owner published, to follow it from another thread.
    #[inline]
    #[must_use]
    pub fn follow(&self) -> *mut T {
        // ORDERING: `OBSERVE`. Pairs with `OwnerPtr::publish`.
        self.0.load(OBSERVE)
    }
}

#[cfg(all(test, not(ephemera_loom)))]
mod tests {
    use super::{OwnerPtr, OwnerU64, OwnerUsize};

    #[test]
    fn sums_and_rests_are_stored_and_returned() {
        let word = OwnerUsize::new(5);
        assert_eq!((word.add(3), word.get()), (8, 8));
        assert_eq!((word.sub(8), word.get()), (0, 0));
        word.set(usize::MAX);
        assert_eq!(word.sub(usize::MAX), 0);
        let word = OwnerU64::new(1 << 40);
        assert_eq!(word.add(7), (1 << 40) + 7);
        word.publish(9);
        assert_eq!((word.observe(), word.get()), (9, 9));
    }

    #[test]
    fn pointers_come_back_as_they_went_in() {
        let mut target = 3_u32;
        let word = OwnerPtr::<u32>::null();
        assert!(word.get().is_null() && word.follow().is_null());
        word.publish(&raw mut target);
        assert_eq!(word.follow(), &raw mut target);
        word.set(core::ptr::null_mut());
        assert!(word.get().is_null());
        assert_eq!(OwnerPtr::new(&raw mut target).get(), &raw mut target);
    }
}

#[cfg(all(test, feature = "std", target_has_atomic = "64", not(ephemera_loom)))]
mod threads {
    use super::{OwnerPtr, OwnerU64};
    use alloc::sync::Arc;

    #[test]
    fn conc_what_is_published_may_be_followed() {
        let words = Arc::new((OwnerPtr::<u64>::null(), OwnerU64::new(0)));
        let theirs = Arc::clone(&words);
        let owner = std::thread::spawn(move || {
            theirs.0.publish(alloc::boxed::Box::into_raw(alloc::boxed::Box::new(7)));
            theirs.1.publish(1);
        });
        if words.1.observe() == 1 {
            assert!(!words.0.get().is_null(), "the pointer was stored before the word");
        }
        // SAFETY: what is published is a box that nobody frees before the join below.
        if let Some(seen) = unsafe { words.0.follow().as_ref() } {
            assert_eq!(*seen, 7);
        }
        owner.join().unwrap();
        // SAFETY: the owner is gone, and nobody else frees it.
        drop(unsafe { alloc::boxed::Box::from_raw(words.0.get()) });
    }
}
