//! The word of a page: a bit for each slot that is free, and one that says where the page is.
#![forbid(unsafe_code)]

use core::fmt;

/// The free slots of a page, as its owner knows them.
///
/// The topmost bit is [`Bits::LISTED`]: the page is on its shard's list of pages with free slots, or is the current one. A word of zero
/// is a page that is full and on no list: the one case in which a free has more to do than to set a bit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bits(u64);

impl Bits {
    /// On the shard's list, or current.
    pub(crate) const LISTED: u64 = 1 << 63;

    #[inline]
    pub(crate) const fn of(word: u64) -> Self {
        Self(word)
    }

    #[inline]
    pub(crate) const fn word(self) -> u64 {
        self.0
    }

    /// Listed, with these slots free.
    #[inline]
    pub(crate) const fn listed(slots: u64) -> Self {
        Self(slots | Self::LISTED)
    }

    /// Full and on no list.
    #[inline]
    pub(crate) const fn is_unlisted(self) -> bool {
        self.0 == 0
    }

    /// The free slots alone.
    #[inline]
    pub(crate) const fn slots(self) -> u64 {
        self.0 & !Self::LISTED
    }

    /// The word of a listed page after these slots were given back.
    #[inline]
    pub(crate) const fn and(self, slots: u64) -> Self {
        Self(self.0 | slots)
    }

    /// The word after these slots were given back. Listed, whatever it was.
    pub(crate) const fn with(self, slots: u64) -> Self {
        Self(self.0 | slots | Self::LISTED)
    }
}

impl fmt::Debug for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = if self.is_unlisted() { "unlisted" } else { "listed" };
        write!(f, "Bits({:#018x}, {listed})", self.slots())
    }
}

#[cfg(test)]
mod tests {
    use super::Bits;

    #[test]
    fn a_free_lists_a_page_and_keeps_the_other_slots() {
        let full = Bits::of(0);
        assert!(full.is_unlisted());
        let one = full.with(1 << 5);
        assert_eq!((one.slots(), one.is_unlisted()), (1 << 5, false));
        let two = one.and(1 << 62);
        assert_eq!(two, one.with(1 << 62));
        assert_eq!(two.slots(), 1 << 5 | 1 << 62);
        assert_eq!(Bits::of(two.word()), two);
        assert_eq!((Bits::listed(0).slots(), Bits::listed(0).is_unlisted()), (0, false));
        assert_eq!(alloc::format!("{:?}", Bits::listed(3)), "Bits(0x0000000000000003, listed)");
    }
}
