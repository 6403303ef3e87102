//! The word of a guard: the length of the region, and whether a buffer uses the region.
//!
//! ```text
//!  | in use: 1 bit | bytes from this guard to the next, a multiple of the granule |
//!    top bit
//! ```
//!
//! The bit is the sign bit, so "free and at least this long" is one signed comparison. After the
//! ring is dropped, the lowest bit of a free region's word says whether the region is settled (see
//! `end`).
#![forbid(unsafe_code)]

use core::fmt;

const TAKEN: usize = 1 << (usize::BITS - 1);

/// The bit that marks a region as settled: the lowest bit, which is zero in every length.
#[cfg(feature = "alloc")]
const SETTLED: usize = 1;

/// The length of the longest region in bytes: the largest value of a signed word.
pub(crate) const LONGEST: usize = TAKEN - 1;

/// The word of a guard: the length of its region in bytes, including the guard, and whether the
/// region is taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(usize);

impl Word {
    /// Returns the word of a free region of `len` bytes.
    #[inline]
    pub(crate) const fn free(len: usize) -> Self {
        Self(len)
    }

    /// Returns the word of a taken region of `len` bytes.
    #[inline]
    pub(crate) const fn taken(len: usize) -> Self {
        Self(len | TAKEN)
    }

    #[inline]
    pub(crate) const fn from_bits(bits: usize) -> Self {
        Self(bits)
    }

    #[inline]
    pub(crate) const fn bits(self) -> usize {
        self.0
    }

    #[inline]
    pub(crate) const fn is_taken(self) -> bool {
        self.0 & TAKEN != 0
    }

    /// Returns the word of a settled region of `len` bytes. A settled region is free, its ring was
    /// dropped, and sweeps do not subtract a share for it (see `end`).
    #[cfg(feature = "alloc")]
    pub(crate) const fn settled(len: usize) -> Self {
        Self(len | SETTLED)
    }

    #[cfg(feature = "alloc")]
    pub(crate) const fn is_settled(self) -> bool {
        self.0 & SETTLED != 0
    }

    /// Returns the number of bytes from this guard to the next, for every kind of word.
    #[cfg(feature = "alloc")]
    pub(crate) const fn span(self) -> usize {
        self.0 & !(TAKEN | SETTLED)
    }

    /// Returns the number of bytes from this guard to the next. The region must not be settled.
    #[inline]
    pub(crate) const fn len(self) -> usize {
        self.0 & !TAKEN
    }

    /// Returns whether the region is free and has at least `need` bytes. As signed numbers, the
    /// word of a taken region is negative, and `need` never is.
    #[inline]
    pub(crate) const fn fits(self, need: usize) -> bool {
        self.0 as isize >= need as isize
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Word({} bytes, {})", self.len(), if self.is_taken() { "taken" } else { "free" })
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, Word};

    #[test]
    fn word_round_trips_length_and_bit() {
        for len in [0, 16, 4096, LONGEST & !15, LONGEST] {
            for word in [Word::free(len), Word::taken(len)] {
                assert_eq!((word.len(), Word::from_bits(word.bits())), (len, word));
            }
            assert!(!Word::free(len).is_taken() && Word::taken(len).is_taken());
        }
    }

    #[test]
    #[cfg(feature = "alloc")]
    fn settled_word_is_not_taken_and_keeps_its_length() {
        for len in [16, 4096, LONGEST & !15] {
            let word = Word::settled(len);
            assert!(word.is_settled() && !word.is_taken() && word.span() == len);
            assert!(!Word::free(len).is_settled() && !Word::taken(len).is_settled());
            assert_eq!((Word::free(len).span(), Word::taken(len).span()), (len, len));
        }
    }

    #[test]
    fn only_a_free_and_long_enough_region_fits() {
        assert!(Word::free(32).fits(32) && Word::free(48).fits(32) && Word::free(LONGEST).fits(LONGEST));
        assert!(!Word::free(16).fits(32));
        for len in [0, 16, 32, 48, LONGEST] {
            assert!(!Word::taken(len).fits(16) && !Word::taken(len).fits(0), "{len}");
        }
    }
}
