//! What every handle does as its value does, and what the two boxes have in common.
//!
//! Not `AsRef`, `AsMut`, `PartialOrd`, `Ord`: where a handle has them, `handle.as_ref()` or `handle.cmp(&value)` is the handle's method and no more
//! that of its value, say an `Option` or a number. Programs that come from the namesake call the latter.

/// Traits of a handle that derefs to its value by `place`.
macro_rules! as_value {
    ($name:ident) => {
        impl<T> core::ops::Deref for $name<T> {
            type Target = T;

            #[inline]
            fn deref(&self) -> &T {
                // SAFETY: H1: the handle has the slot, or a share in it, and there is a value in it.
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

        // The value does not move with its handle.
        impl<T> Unpin for $name<T> {}
    };
}

/// A handle that has its slot alone.
macro_rules! boxed {
    ($(#[$meta:meta])* $name:ident, $home:ty) => {
        $(#[$meta])*
        ///
        /// # Invariant
        /// **H1** `place` is a slot of an arena for `T` that this handle has alone, with a value in it.
        #[repr(transparent)]
        pub struct $name<T> {
            place: core::ptr::NonNull<T>,
            value: core::marker::PhantomData<T>,
        }

        as_value!($name);

        impl<T> $name<T> {
            /// # Safety
            /// H1.
            #[inline]
            pub(crate) unsafe fn adopt(place: core::ptr::NonNull<T>) -> Self {
                Self { place, value: core::marker::PhantomData }
            }

            /// The slot, for whoever gives it back.
            #[inline]
            fn into_slot(this: Self) -> crate::slot::Slot<T, $home> {
                let place = core::mem::ManuallyDrop::new(this).place;
                // SAFETY: H1: the handle had the slot alone, and is forgotten.
                unsafe { crate::slot::Slot::adopt(place) }
            }

            /// Takes the value out and gives the slot back.
            #[inline]
            #[must_use]
            pub fn into_inner(this: Self) -> T {
                let place = this.place;
                let slot = Self::into_slot(this);
                // SAFETY: H1: there is a value in it, which is read once.
                let value = unsafe { place.read() };
                drop(slot);
                value
            }

            /// The pointer to the value, which is not dropped and whose slot stays taken until
            #[doc = concat!("[`", stringify!($name), "::from_raw`].")]
            #[inline]
            #[must_use = "the value is never dropped unless it is made a handle again"]
            pub fn into_raw(this: Self) -> *mut T {
                core::mem::ManuallyDrop::new(this).place.as_ptr()
            }

            /// Makes a handle again of what
            #[doc = concat!("[`", stringify!($name), "::into_raw`] returned.")]
            ///
            /// # Safety
            /// `value` is exactly the pointer that `into_raw` returned (not one made from a reference to the value, which may access the
            /// value alone), of a handle of this kind, on a thread that the handle may be on; once. This copy of the crate made the handle:
            /// not that of a plugin or its host.
            #[inline]
            #[must_use]
            pub unsafe fn from_raw(value: *mut T) -> Self {
                // SAFETY: the caller's pointer is that of a slot.
                let place = unsafe { core::ptr::NonNull::new_unchecked(value) };
                // SAFETY: the caller's: the slot is the handle's again.
                unsafe { Self::adopt(place) }
            }

            /// Pins the value. It does not move with its handle, and its slot is not used again before it was dropped.
            #[inline]
            #[must_use]
            pub fn into_pin(this: Self) -> core::pin::Pin<Self> {
                // SAFETY: the value stays where it is until its destructor ran: no handle moves it, and a forgotten one keeps the slot.
                unsafe { core::pin::Pin::new_unchecked(this) }
            }
        }

        impl<T> Drop for $name<T> {
            #[inline]
            fn drop(&mut self) {
                // SAFETY: H1; given back by the guard, also when the destructor unwinds.
                let slot: crate::slot::Slot<T, $home> = unsafe { crate::slot::Slot::adopt(self.place) };
                // SAFETY: H1: there is a value in it, and nobody uses it any more.
                unsafe { self.place.drop_in_place() };
                drop(slot);
            }
        }

        impl<T> core::ops::DerefMut for $name<T> {
            #[inline]
            fn deref_mut(&mut self) -> &mut T {
                // SAFETY: H1: the handle has the slot alone.
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
        impl<T: core::panic::RefUnwindSafe> core::panic::RefUnwindSafe for $name<T> {}
    };
}
