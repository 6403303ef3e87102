//! The traits that byte buffers share with slices: comparison, hashing, formatting, appending.

#[cfg(feature = "alloc")]
use alloc::{string::String, vec::Vec};
use core::borrow::{Borrow, BorrowMut};
use core::cmp::Ordering;
use core::fmt::{self, Write};
use core::hash::{Hash, Hasher};

use crate::buffer::{FixedBuf, FixedBufMut};
use crate::ring::ExtBuf;

/// Formats bytes as a byte string literal.
struct Literal<'a>(&'a [u8]);

impl fmt::Debug for Literal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("b\"")?;
        for &byte in self.0 {
            match byte {
                b'\0' => f.write_str("\\0")?,
                // `escape_ascii` escapes single quotes, which is not necessary in a string literal.
                b'\'' => f.write_char('\'')?,
                _ => write!(f, "{}", byte.escape_ascii())?,
            }
        }
        f.write_char('"')
    }
}

/// Implements comparisons of a buffer with other types that contain bytes, in both directions.
macro_rules! compare {
    ($buffer:ty: $($(#[$meta:meta])* $other:ty;)*) => {$(
        $(#[$meta])*
        impl PartialEq<$other> for $buffer {
            #[inline]
            fn eq(&self, other: &$other) -> bool {
                let other: &[u8] = other.as_ref();
                self[..] == *other
            }
        }

        $(#[$meta])*
        impl PartialOrd<$other> for $buffer {
            #[inline]
            fn partial_cmp(&self, other: &$other) -> Option<Ordering> {
                let other: &[u8] = other.as_ref();
                self[..].partial_cmp(other)
            }
        }

        $(#[$meta])*
        impl PartialEq<$buffer> for $other {
            #[inline]
            fn eq(&self, other: &$buffer) -> bool {
                *other == *self
            }
        }

        $(#[$meta])*
        impl PartialOrd<$buffer> for $other {
            #[inline]
            fn partial_cmp(&self, other: &$buffer) -> Option<Ordering> {
                other.partial_cmp(self).map(Ordering::reverse)
            }
        }
    )*};
}

macro_rules! bytes_like {
    ($buffer:ty) => {
        impl AsRef<[u8]> for $buffer {
            #[inline]
            fn as_ref(&self) -> &[u8] {
                self
            }
        }

        impl Borrow<[u8]> for $buffer {
            #[inline]
            fn borrow(&self) -> &[u8] {
                self
            }
        }

        /// Hashes like a slice, so a slice can look up a buffer in a map.
        impl Hash for $buffer {
            #[inline]
            fn hash<H: Hasher>(&self, state: &mut H) {
                self[..].hash(state);
            }
        }

        impl PartialEq for $buffer {
            #[inline]
            fn eq(&self, other: &Self) -> bool {
                self[..] == other[..]
            }
        }

        impl Eq for $buffer {}

        impl PartialOrd for $buffer {
            #[inline]
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $buffer {
            #[inline]
            fn cmp(&self, other: &Self) -> Ordering {
                self[..].cmp(&other[..])
            }
        }

        impl<T: ?Sized> PartialEq<&T> for $buffer
        where
            $buffer: PartialEq<T>,
        {
            #[inline]
            fn eq(&self, other: &&T) -> bool {
                *self == **other
            }
        }

        impl<T: ?Sized> PartialOrd<&T> for $buffer
        where
            $buffer: PartialOrd<T>,
        {
            #[inline]
            fn partial_cmp(&self, other: &&T) -> Option<Ordering> {
                self.partial_cmp(*other)
            }
        }

        impl<const N: usize> PartialEq<[u8; N]> for $buffer {
            #[inline]
            fn eq(&self, other: &[u8; N]) -> bool {
                self[..] == other[..]
            }
        }

        compare! { $buffer:
            [u8];
            str;
            #[cfg(feature = "alloc")] Vec<u8>;
            #[cfg(feature = "alloc")] String;
        }

        impl PartialEq<$buffer> for &[u8] {
            #[inline]
            fn eq(&self, other: &$buffer) -> bool {
                other[..] == **self
            }
        }

        impl PartialEq<$buffer> for &str {
            #[inline]
            fn eq(&self, other: &$buffer) -> bool {
                other[..] == *self.as_bytes()
            }
        }

        impl fmt::Debug for $buffer {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&Literal(self), f)
            }
        }

        impl fmt::LowerHex for $buffer {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::UpperHex for $buffer {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.iter().try_for_each(|byte| write!(f, "{byte:02X}"))
            }
        }

        impl<'a> IntoIterator for &'a $buffer {
            type Item = &'a u8;
            type IntoIter = core::slice::Iter<'a, u8>;

            #[inline]
            fn into_iter(self) -> Self::IntoIter {
                self.iter()
            }
        }
    };
}

bytes_like!(FixedBuf);
bytes_like!(FixedBufMut);

impl AsMut<[u8]> for FixedBufMut {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

impl BorrowMut<[u8]> for FixedBufMut {
    #[inline]
    fn borrow_mut(&mut self) -> &mut [u8] {
        self
    }
}

impl From<FixedBufMut> for FixedBuf {
    #[inline]
    fn from(buffer: FixedBufMut) -> Self {
        buffer.freeze()
    }
}

impl AsRef<[u8]> for ExtBuf<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl AsMut<[u8]> for ExtBuf<'_> {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

/// Implements the standard library's traits for appending, for a buffer that has
/// `try_extend_from_slice`.
macro_rules! appends {
    ($buffer:ty, $has_room:expr) => {
        /// Writes the whole string, or returns an error without writing any of it.
        impl fmt::Write for $buffer {
            #[inline]
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.try_extend_from_slice(text.as_bytes()).map_err(|_| fmt::Error)
            }
        }

        /// Appends bytes until the buffer is full or the iterator ends. Takes only as many bytes
        /// from the iterator as fit. To keep the others, pass the iterator by reference.
        impl Extend<u8> for $buffer {
            fn extend<I: IntoIterator<Item = u8>>(&mut self, bytes: I) {
                let has_room: fn(&mut Self) -> bool = $has_room;
                let mut bytes = bytes.into_iter();
                while has_room(self) {
                    let Some(byte) = bytes.next() else { return };
                    // This cannot fail, because `has_room` returned `true`, and the iterator cannot
                    // use the room while this function borrows the buffer.
                    let _ = self.try_extend_from_slice(&[byte]);
                }
            }
        }

        impl<'a> Extend<&'a u8> for $buffer {
            fn extend<I: IntoIterator<Item = &'a u8>>(&mut self, bytes: I) {
                self.extend(bytes.into_iter().copied());
            }
        }
    };
}

appends!(FixedBufMut, |buffer| buffer.spare() != 0);
appends!(ExtBuf<'_>, |buffer| buffer.try_reserve(1).is_ok());
