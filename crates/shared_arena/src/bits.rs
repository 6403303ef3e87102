//! Defines the word of a page: a bit for each slot, which is set if the slot is free, and a bit
//! that says whether the page is listed.
#![forbid(unsafe_code)]

/// The free slots of a page, as the page's owner knows them.
///
/// The topmost bit is [`Bits::LISTED`]. This bit is set while the page is on its shard's list of
/// pages with free slots, or is the current page. A word of zero means that the page is full and
/// unlisted. A local free that finds zero links the page and then sets the bit of its slot. A local
/// free that finds another value only sets the bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bits(u64);

impl Bits {
    /// The bit that is set while the page is on its shard's list, or is the current page.
    pub(crate) const LISTED: u64 = 1 << 63;

    #[inline]
    pub(crate) const fn of(word: u64) -> Self {
        Self(word)
    }

    #[inline]
    pub(crate) const fn word(self) -> u64 {
        self.0
    }

    /// Returns the word of a listed page with these slots free.
    #[inline]
    pub(crate) const fn listed(slots: u64) -> Self {
        Self(slots | Self::LISTED)
    }

    /// Returns whether the page is full and unlisted.
    #[inline]
    pub(crate) const fn is_unlisted(self) -> bool {
        self.0 == 0
    }

    /// Returns the free slots, without the listed bit.
    #[inline]
    pub(crate) const fn slots(self) -> u64 {
        self.0 & !Self::LISTED
    }

    /// Returns the word of a listed page after these slots were freed.
    #[inline]
    pub(crate) const fn and(self, slots: u64) -> Self {
        Self(self.0 | slots)
    }

    /// Returns the word of any page after these slots were freed and the page was listed.
    pub(crate) const fn with(self, slots: u64) -> Self {
        Self(self.0 | slots | Self::LISTED)
    }
}

#[cfg(test)]
mod tests {
    use super::Bits;

    #[test]
    fn a_free_lists_the_page_and_keeps_the_other_slots() {
        let full = Bits::of(0);
        assert!(full.is_unlisted());
        let one = full.with(1 << 5);
        assert_eq!((one.slots(), one.is_unlisted()), (1 << 5, false));
        let two = one.and(1 << 62);
        assert_eq!(two, one.with(1 << 62));
        assert_eq!(two.slots(), 1 << 5 | 1 << 62);
        assert_eq!(Bits::of(two.word()), two);
        assert_eq!((Bits::listed(0).slots(), Bits::listed(0).is_unlisted()), (0, false));
    }
}
