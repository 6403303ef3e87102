//! Words that one thread writes and others may read.
//!
//! The owner's counts are written on every allocation, so they must cost no more than a plain field; and
//! statistics read them from other threads, so a plain field would be a data race. A load and a store with
//! `Relaxed` are both: on every target that we know they are the plain instructions.
//!
//! They are **not** counters for two writers: `add` is a load and a store, not one operation.

use crate::sync::Ordering;

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
                debug_assert!(self.get() >= less, "an owner's count went below zero");
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

/// A `u64` of a type for one thread: this target has no 64-bit atomics, and so no other thread.
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
        // ORDERING: Release. Pairs with the Acquire in `OwnerPtr::follow`. Publishes: what the pointer points at.
        self.0.store(pointer, Ordering::Release);
    }

    /// Reads a pointer that the owner published, to follow it from another thread.
    #[inline]
    #[must_use]
    pub fn follow(&self) -> *mut T {
        // ORDERING: Acquire. Pairs with the Release in `OwnerPtr::publish`.
        self.0.load(Ordering::Acquire)
    }
}
