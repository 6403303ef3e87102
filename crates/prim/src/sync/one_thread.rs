//! Stand-ins for the atomics that a target lacks.
//!
//! On a target without 64-bit atomics or without compare-and-swap, the allocators offer only their
//! types for one thread. These types share code with the types for all threads, and this module
//! lets the shared code compile. A read-modify-write here is a load and a store.
//!
//! [`AtomicU64`] is not `Sync`, because it is a cell, so safe code cannot share it between threads.

#[cfg(not(target_has_atomic = "64"))]
use core::cell::Cell;
use core::sync::atomic::Ordering;
#[cfg(not(target_has_atomic = "ptr"))]
use core::sync::atomic::{AtomicPtr as CoreAtomicPtr, AtomicUsize as CoreAtomicUsize};

/// A word with the loads and stores of an atomic.
#[cfg(not(target_has_atomic = "64"))]
#[derive(Debug)]
struct WordU64(Cell<u64>);

#[cfg(not(target_has_atomic = "64"))]
impl WordU64 {
    const fn new(value: u64) -> Self {
        Self(Cell::new(value))
    }

    #[inline]
    fn load(&self, _: Ordering) -> u64 {
        self.0.get()
    }

    #[inline]
    fn store(&self, value: u64, _: Ordering) {
        self.0.set(value);
    }
}

macro_rules! stand_in {
    ($(#[$meta:meta])* $name:ident $(<$t:ident>)?, $value:ty, $word:ty) => {
        $(#[$meta])*
        #[derive(Debug)]
        #[repr(transparent)]
        pub struct $name $(<$t>)? ($word);

        impl $(<$t>)? $name $(<$t>)? {
            /// Creates a word with this value.
            pub const fn new(value: $value) -> Self {
                Self(<$word>::new(value))
            }

            /// Returns the value.
            #[inline]
            pub fn load(&self, order: Ordering) -> $value {
                self.0.load(order)
            }

            /// Stores a value.
            #[inline]
            pub fn store(&self, value: $value, order: Ordering) {
                self.0.store(value, order);
            }

            /// Replaces the value with the result of `change`, and returns the previous value.
            #[inline]
            fn change(&self, change: impl FnOnce($value) -> $value) -> $value {
                let before = self.load(Ordering::Relaxed);
                self.store(change(before), Ordering::Relaxed);
                before
            }

            /// Stores a value, and returns the previous one.
            #[inline]
            pub fn swap(&self, value: $value, _: Ordering) -> $value {
                self.change(|_| value)
            }

            /// Stores `new` if the value is `current`, and returns the previous value.
            ///
            /// # Errors
            /// Returns the value if it is not `current`.
            #[inline]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                _: Ordering,
                _: Ordering,
            ) -> Result<$value, $value> {
                let before = self.load(Ordering::Relaxed);
                if before != current {
                    return Err(before);
                }
                Ok(self.change(|_| new))
            }

            /// Stores `new` like `compare_exchange`, and never fails spuriously.
            ///
            /// # Errors
            /// Returns the value if it is not `current`.
            #[inline]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }
        }
    };
}

macro_rules! arithmetic {
    ($name:ident, $value:ty) => {
        impl $name {
            /// Adds `more`, wrapping, and returns the previous value.
            #[inline]
            pub fn fetch_add(&self, more: $value, _: Ordering) -> $value {
                self.change(|value| value.wrapping_add(more))
            }

            /// Subtracts `less`, wrapping, and returns the previous value.
            #[inline]
            pub fn fetch_sub(&self, less: $value, _: Ordering) -> $value {
                self.change(|value| value.wrapping_sub(less))
            }

            /// Sets `bits`, and returns the previous value.
            #[inline]
            pub fn fetch_or(&self, bits: $value, _: Ordering) -> $value {
                self.change(|value| value | bits)
            }
        }
    };
}

#[cfg(not(target_has_atomic = "64"))]
stand_in! {
    /// Stands in for `AtomicU64`, on one thread.
    AtomicU64, u64, WordU64
}
#[cfg(not(target_has_atomic = "64"))]
arithmetic!(AtomicU64, u64);

#[cfg(not(target_has_atomic = "ptr"))]
stand_in! {
    /// Stands in for an `AtomicUsize` with compare-and-swap, on one thread.
    AtomicUsize, usize, CoreAtomicUsize
}
#[cfg(not(target_has_atomic = "ptr"))]
arithmetic!(AtomicUsize, usize);

#[cfg(not(target_has_atomic = "ptr"))]
stand_in! {
    /// Stands in for an `AtomicPtr` with compare-and-swap, on one thread.
    AtomicPtr<T>, *mut T, CoreAtomicPtr<T>
}
