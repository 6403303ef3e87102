//! Words that one thread writes and other threads may read.
//!
//! The owner writes its counts on every allocation, so a write must be as cheap as a store to a
//! plain field. Other threads read the counts for statistics, so accesses to a plain field would be
//! data races. `Relaxed` loads and stores solve both problems: up to the width of a pointer, they
//! compile to plain instructions on every known target. On 32-bit targets an [`OwnerU64`] costs
//! more: on armv7 its store is a loop of exclusive loads and stores.
//!
//! These words are **not** counters for several writers: `add` is a load and a store, not one
//! atomic operation.

use crate::sync::Ordering;

// ORDERING: Release. Pairs with the Acquire in `OwnerPtr::observe`, `OwnerU64::observe` and
// `OwnerUsize::observe`. Publishes: all earlier writes of the owner, such as writes to the target
// of the pointer, and its accesses to the slots whose bits are stored.
ordering!(publish_order = Release, Relaxed if "publish_relaxed");
// ORDERING: Acquire. Pairs with the Release in `OwnerPtr::publish`, `OwnerU64::publish` and
// `OwnerUsize::sub_publish`.
ordering!(observe_order = Acquire, Relaxed if "observe_relaxed");

macro_rules! owner_word {
    ($(#[$meta:meta])* $name:ident $(<$t:ident>)?, $value:ty, $atomic:ty) => {
        $(#[$meta])*
        #[derive(Debug)]
        #[repr(transparent)]
        pub struct $name $(<$t>)? ($atomic);

        impl $(<$t>)? $name $(<$t>)? {
            $crate::const_unless_loom! {
                /// Creates a word that holds `value`.
                pub fn new(value: $value) -> Self {
                    Self(<$atomic>::new(value))
                }
            }

            /// Returns the value, which may be out of date unless the caller is the owner.
            #[inline]
            pub fn get(&self) -> $value {
                self.0.load(Ordering::Relaxed)
            }

            /// Stores a value. Only the owner may call this.
            #[inline]
            pub fn set(&self, value: $value) {
                self.0.store(value, Ordering::Relaxed);
            }

            /// Stores a value and publishes all earlier writes of this thread. Only the owner may
            /// call this.
            #[inline]
            pub fn publish(&self, value: $value) {
                // ORDERING: `publish_order`. Pairs with `observe`.
                self.0.store(value, publish_order());
            }

            /// Returns the value. If the owner published this value, the caller then sees
            /// everything that the owner wrote before.
            #[inline]
            pub fn observe(&self) -> $value {
                // ORDERING: `observe_order`. Pairs with `publish`.
                self.0.load(observe_order())
            }
        }
    };
}

macro_rules! arithmetic {
    ($name:ident, $int:ty) => {
        impl $name {
            /// Adds `more` and returns the sum, which must not overflow. Only the owner may call
            /// this.
            #[inline]
            pub fn add(&self, more: $int) -> $int {
                let sum = self.get().wrapping_add(more);
                self.set(sum);
                sum
            }

            /// Subtracts `less` and returns the difference, which must not be negative. Only the
            /// owner may call this.
            #[inline]
            pub fn sub(&self, less: $int) -> $int {
                $crate::invariant!(self.get() >= less, "an owner's count went below zero");
                let rest = self.get().wrapping_sub(less);
                self.set(rest);
                rest
            }

            /// Subtracts `less` like [`Self::sub`], and publishes all earlier writes of this
            /// thread. Only the owner may call this.
            #[inline]
            pub fn sub_publish(&self, less: $int) -> $int {
                $crate::invariant!(self.get() >= less, "an owner's count went below zero");
                let rest = self.get().wrapping_sub(less);
                self.publish(rest);
                rest
            }
        }
    };
}

owner_word! {
    /// A `usize` that its owner writes and others may read.
    OwnerUsize, usize, crate::sync::AtomicUsize
}
arithmetic!(OwnerUsize, usize);

owner_word! {
    /// A `u64` that its owner writes and others may read. On a target without 64-bit atomics, only
    /// the owner reads it.
    OwnerU64, u64, crate::sync::AtomicU64
}
arithmetic!(OwnerU64, u64);

owner_word! {
    /// A pointer that its owner writes and others may read.
    OwnerPtr<T>, *mut T, crate::sync::AtomicPtr<T>
}

impl<T> OwnerPtr<T> {
    crate::const_unless_loom! {
        /// Creates a null pointer.
        pub fn null() -> Self {
            Self::new(core::ptr::null_mut())
        }
    }
}

#[cfg(all(test, not(ephemera_loom)))]
mod tests {
    use super::{OwnerPtr, OwnerU64, OwnerUsize};

    #[test]
    fn add_and_sub_store_their_result_and_return_it() {
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
    fn pointers_are_returned_as_they_were_stored() {
        let mut target = 3_u32;
        let word = OwnerPtr::<u32>::null();
        assert!(word.get().is_null() && word.observe().is_null());
        word.publish(&raw mut target);
        assert_eq!(word.observe(), &raw mut target);
        word.set(core::ptr::null_mut());
        assert!(word.get().is_null());
        assert_eq!(OwnerPtr::new(&raw mut target).get(), &raw mut target);
    }
}

#[cfg(all(test, feature = "std", not(ephemera_loom)))]
mod threads {
    use super::{OwnerPtr, OwnerU64};
    use alloc::sync::Arc;

    #[test]
    fn conc_published_pointer_may_be_followed() {
        for waits_for_the_word in [false, true] {
            let words = Arc::new((OwnerPtr::<u64>::null(), OwnerU64::new(0)));
            let theirs = Arc::clone(&words);
            let owner = std::thread::spawn(move || {
                theirs.0.publish(alloc::boxed::Box::into_raw(alloc::boxed::Box::new(7)));
                theirs.1.publish(1);
            });
            while waits_for_the_word && words.1.observe() == 0 {
                std::thread::yield_now();
            }
            while words.0.observe().is_null() {
                assert!(!waits_for_the_word, "the pointer was stored before the word");
                std::thread::yield_now();
            }
            // SAFETY: the pointer points to a leaked box, which is freed only after the join below.
            assert_eq!(unsafe { *words.0.observe() }, 7);
            owner.join().unwrap();
            // SAFETY: the owner thread was joined, and nothing else frees the box.
            drop(unsafe { alloc::boxed::Box::from_raw(words.0.get()) });
        }
    }
}
