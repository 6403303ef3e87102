//! Defines the traits that handles forward to their values, and the methods that handles share.
//!
//! Handles do not implement `AsRef`, `AsMut`, `PartialOrd` or `Ord`. With these traits,
//! `handle.as_ref()` or `handle.cmp(&value)` would call the handle's method instead of the value's.
//! Programs written for shared_arena 0.8 call the value's methods, for example those of an `Option`
//! or a number.

/// Defines a handle that dereferences to its value and converts to and from a raw pointer.
macro_rules! handle {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[repr(transparent)]
        pub struct $name<T> {
            place: core::ptr::NonNull<T>,
            value: core::marker::PhantomData<T>,
        }

        impl<T> $name<T> {
            /// # Safety
            /// The invariant H1 of this type holds for `place` and the new handle.
            #[inline]
            pub(crate) unsafe fn adopt(place: core::ptr::NonNull<T>) -> Self {
                Self { place, value: core::marker::PhantomData }
            }

            /// Returns the pointer to the value without dropping the handle. The value stays live
            /// at least until
            #[doc = concat!("[`", stringify!($name), "::from_raw`].")]
            #[inline]
            #[must_use = "the handle is never dropped unless `from_raw` recreates it"]
            pub fn into_raw(this: Self) -> core::ptr::NonNull<T> {
                core::mem::ManuallyDrop::new(this).place
            }

            /// Recreates a handle from a pointer that
            #[doc = concat!("[`", stringify!($name), "::into_raw`] returned.")]
            ///
            /// # Safety
            /// `value` is exactly the pointer that `into_raw` returned. A pointer made from a
            /// reference to the value is not enough, because it may access only the value. The
            /// pointer came from a handle of this type that the calling thread is allowed to own.
            /// Each call to `into_raw` permits one call to `from_raw`. This copy of the crate made
            /// the handle, not another copy in a plugin or its host.
            #[inline]
            #[must_use]
            pub unsafe fn from_raw(value: core::ptr::NonNull<T>) -> Self {
                // SAFETY: H1 held for the handle that `into_raw` forgot, and the new handle
                // replaces that handle.
                unsafe { Self::adopt(value) }
            }
        }

        impl<T> core::ops::Deref for $name<T> {
            type Target = T;

            #[inline]
            fn deref(&self) -> &T {
                // SAFETY: the slot has a value, which this handle owns or shares (H1).
                unsafe { self.place.as_ref() }
            }
        }

        impl<T: core::fmt::Debug> core::fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                (**self).fmt(f)
            }
        }

        impl<T: core::fmt::Display> core::fmt::Display for $name<T> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                (**self).fmt(f)
            }
        }

        impl<T> core::fmt::Pointer for $name<T> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                core::fmt::Pointer::fmt(&self.place, f)
            }
        }

        impl<T> core::borrow::Borrow<T> for $name<T> {
            #[inline]
            fn borrow(&self) -> &T {
                self
            }
        }

        impl<T: PartialEq> PartialEq for $name<T> {
            #[inline]
            fn eq(&self, other: &Self) -> bool {
                **self == **other
            }
        }

        impl<T: Eq> Eq for $name<T> {}

        impl<T: core::hash::Hash> core::hash::Hash for $name<T> {
            #[inline]
            fn hash<S: core::hash::Hasher>(&self, state: &mut S) {
                (**self).hash(state);
            }
        }

        // Moving the handle does not move the value.
        impl<T> Unpin for $name<T> {}
    };
}

/// Implements the methods and traits that the two counted handles share. `$clone` and `$drop` are
/// the methods of the counts that count a new handle and take off a handle.
macro_rules! counted {
    ($name:ident by $clone:ident and $drop:ident) => {
        impl<T> $name<T> {
            /// Pins the value of a new handle.
            #[inline]
            pub(crate) fn pin_new(this: Self) -> core::pin::Pin<Self> {
                // SAFETY: this is the only handle, so every later handle is pinned too. The value
                // stays in place until its destructor has run.
                unsafe { core::pin::Pin::new_unchecked(this) }
            }

            #[inline]
            fn count(&self) -> &crate::counts::Count {
                // SAFETY: the counts include this handle (H1), and the result borrows the handle.
                unsafe { crate::slot::count_of(self.place) }
            }

            /// Returns the number of strong handles to the value at this moment.
            #[inline]
            #[must_use]
            pub fn strong_count(this: &Self) -> usize {
                this.count().strong()
            }

            /// Returns whether both handles share one value.
            #[inline]
            #[must_use]
            pub fn ptr_eq(this: &Self, other: &Self) -> bool {
                this.place == other.place
            }
        }

        impl<T> Clone for $name<T> {
            #[inline]
            fn clone(&self) -> Self {
                self.count().$clone();
                // SAFETY: the line above counted the new handle (H1).
                unsafe { Self::adopt(self.place) }
            }
        }

        impl<T> Drop for $name<T> {
            #[inline]
            fn drop(&mut self) {
                if self.count().$drop() {
                    self.drop_last();
                }
            }
        }

        impl<T: core::panic::RefUnwindSafe> core::panic::UnwindSafe for $name<T> {}
    };
}

/// Defines a handle that owns its slot alone.
macro_rules! boxed {
    ($(#[$meta:meta])* $name:ident, $home:ty) => {
        handle! {
            $(#[$meta])*
            ///
            /// # Invariant
            /// **H1** `place` is a slot of an arena for `T` with a value in it, and only this
            /// handle owns the slot.
            $name
        }

        impl<T> $name<T> {
            /// Returns the value and frees its slot.
            #[inline]
            #[must_use]
            pub fn into_inner(this: Self) -> T {
                let place = core::mem::ManuallyDrop::new(this).place;
                // SAFETY: the handle owned the slot alone, and is forgotten (H1).
                let slot: crate::slot::ClaimedSlot<T, $home> = unsafe { crate::slot::ClaimedSlot::adopt(place) };
                // SAFETY: the slot has a value (H1), and the guard `slot` does not drop it.
                let value = unsafe { place.read() };
                drop(slot);
                value
            }

            /// Pins the value. The value does not move with its handle, and the value's slot is not
            /// reused before the value is dropped.
            #[inline]
            #[must_use]
            pub fn into_pin(this: Self) -> core::pin::Pin<Self> {
                // SAFETY: the value stays in place until its destructor has run: no handle moves
                // it, and a forgotten handle keeps the slot.
                unsafe { core::pin::Pin::new_unchecked(this) }
            }
        }

        impl<T> Drop for $name<T> {
            #[inline]
            fn drop(&mut self) {
                // SAFETY: this handle owns the slot, and the guard frees it even if the value's
                // destructor unwinds (H1).
                let slot: crate::slot::ClaimedSlot<T, $home> = unsafe { crate::slot::ClaimedSlot::adopt(self.place) };
                // SAFETY: the slot has a value, and only this handle can reach it (H1).
                unsafe { self.place.drop_in_place() };
                // With an explicit drop, this function is not inlined into the drops of nodes that
                // have handles, which would take more instructions.
                drop(slot);
            }
        }

        impl<T> core::ops::DerefMut for $name<T> {
            #[inline]
            fn deref_mut(&mut self) -> &mut T {
                // SAFETY: the slot has a value, and this handle owns the slot alone (H1).
                unsafe { self.place.as_mut() }
            }
        }

        impl<T> core::borrow::BorrowMut<T> for $name<T> {
            #[inline]
            fn borrow_mut(&mut self) -> &mut T {
                self
            }
        }

        impl<T> From<$name<T>> for core::pin::Pin<$name<T>> {
            #[inline]
            fn from(this: $name<T>) -> Self {
                $name::into_pin(this)
            }
        }

        impl<T: core::panic::UnwindSafe> core::panic::UnwindSafe for $name<T> {}
    };
}
