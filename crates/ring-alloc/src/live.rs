//! Blocks and bytes alive in a chunk, in one word, so that one addition counts both.
#![forbid(unsafe_code)]

use core::fmt;

const BYTES_BITS: u32 = 40;
const BYTES_MASK: u64 = (1 << BYTES_BITS) - 1;

/// `blocks << 40 | bytes`: a count of blocks with their bytes. A chunk of at most 1 MiB overflows neither half.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Live(u64);

impl Live {
    pub(crate) const NONE: Self = Self(0);

    /// One block of this many bytes.
    #[inline]
    pub(crate) const fn block(bytes: usize) -> Self {
        Self(1 << BYTES_BITS | bytes as u64)
    }

    /// Bytes that a block gained or lost, the block staying one.
    #[inline]
    pub(crate) const fn bytes_only(bytes: usize) -> Self {
        Self(bytes as u64)
    }

    #[inline]
    pub(crate) const fn from_word(word: u64) -> Self {
        Self(word)
    }

    #[inline]
    pub(crate) const fn word(self) -> u64 {
        self.0
    }

    pub(crate) const fn blocks(self) -> usize {
        (self.0 >> BYTES_BITS) as usize
    }

    pub(crate) const fn bytes(self) -> usize {
        (self.0 & BYTES_MASK) as usize
    }

    /// What is alive when `given` was given back and is not booked yet. Both were read at different moments when
    /// other threads are at work, hence never below zero.
    pub(crate) const fn less(self, given: Self) -> Self {
        Self(self.0.saturating_sub(given.0))
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Live({} blocks, {} bytes)", self.blocks(), self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::Live;

    #[test]
    fn one_word_counts_blocks_and_bytes() {
        let sum = Live::block(100).word() + Live::block(28).word() + Live::bytes_only(2).word();
        let live = Live::from_word(sum);
        assert_eq!((live.blocks(), live.bytes()), (2, 130));
        assert_eq!(live.less(Live::block(130)).blocks(), 1);
        assert_eq!(Live::from_word(sum - 2 * (1 << 40) - 130), Live::NONE);
    }

    #[test]
    fn a_full_chunk_of_the_largest_size_overflows_neither_half() {
        let blocks: u64 = 1 << 20;
        let live = Live::from_word(Live::block(1).word() * blocks);
        assert_eq!((live.blocks(), live.bytes()), (1 << 20, 1 << 20));
    }
}
