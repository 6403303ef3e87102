//! `forward_to_value!`: implements the traits that the owner of a value forwards to that value.

/// Implements the traits of a type that owns a value of type `T`, to which its field `$value`
/// points.
macro_rules! forward_to_value {
    ([$($generics:tt)*] $owner:ty, $value:ident) => {
        impl<$($generics)*> core::ops::Deref for $owner {
            type Target = T;

            #[inline]
            fn deref(&self) -> &T {
                // SAFETY: `self` owns the value and is borrowed, so the value stays live.
                unsafe { self.$value.as_ref() }
            }
        }

        impl<$($generics)*> core::ops::DerefMut for $owner {
            #[inline]
            fn deref_mut(&mut self) -> &mut T {
                // SAFETY: `self` owns the value and is borrowed exclusively.
                unsafe { self.$value.as_mut() }
            }
        }

        impl<$($generics)*> AsRef<T> for $owner {
            fn as_ref(&self) -> &T {
                self
            }
        }

        impl<$($generics)*> AsMut<T> for $owner {
            fn as_mut(&mut self) -> &mut T {
                self
            }
        }

        impl<$($generics)*> core::borrow::Borrow<T> for $owner {
            fn borrow(&self) -> &T {
                self
            }
        }

        impl<$($generics)*> core::borrow::BorrowMut<T> for $owner {
            fn borrow_mut(&mut self) -> &mut T {
                self
            }
        }

        impl<$($generics)*> core::fmt::Debug for $owner
        where
            T: core::fmt::Debug,
        {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                (**self).fmt(f)
            }
        }

        impl<$($generics)*> core::fmt::Display for $owner
        where
            T: core::fmt::Display,
        {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                (**self).fmt(f)
            }
        }

        impl<$($generics)*> core::fmt::Pointer for $owner {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                core::fmt::Pointer::fmt(&self.$value, f)
            }
        }

        impl<$($generics)*> PartialEq for $owner
        where
            T: PartialEq,
        {
            fn eq(&self, other: &Self) -> bool {
                **self == **other
            }
        }

        impl<$($generics)*> Eq for $owner where T: Eq {}

        impl<$($generics)*> PartialOrd for $owner
        where
            T: PartialOrd,
        {
            fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
                (**self).partial_cmp(&**other)
            }
        }

        impl<$($generics)*> Ord for $owner
        where
            T: Ord,
        {
            fn cmp(&self, other: &Self) -> core::cmp::Ordering {
                (**self).cmp(&**other)
            }
        }

        impl<$($generics)*> core::hash::Hash for $owner
        where
            T: core::hash::Hash,
        {
            fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
                (**self).hash(state);
            }
        }
    };
}

pub(crate) use forward_to_value;
