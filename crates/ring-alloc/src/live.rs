//! Defines [`LiveCount`], which holds a number of blocks and of their bytes in one word, so that
//! one addition counts both.
//!
//! A chunk has two sums of such counts: one of all allocations, and one of all booked frees. An
//! allocation writes the first sum and a local free the second, so neither waits for the other's
//! store. A rewind of the chunk sets both sums to zero. Until the rewind, the sums may wrap around,
//! because only their difference matters: the count of the live blocks and bytes.
#![forbid(unsafe_code)]

/// The number of bits that count bytes: 24, because a chunk has at most 1 MiB, and because x86-64
/// adds `1 << 24` and a size in one instruction.
const BYTES_BITS: u32 = 24;
const BYTES_MASK: u64 = (1 << BYTES_BITS) - 1;

/// `(blocks << 24) + bytes`: a count of blocks with their bytes, or a sum of such counts. Neither
/// field overflows for the live blocks of a chunk of at most 1 MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LiveCount(pub(crate) u64);

impl LiveCount {
    /// Returns the count of one block of `bytes` bytes.
    #[inline]
    pub(crate) const fn block(bytes: usize) -> Self {
        Self((1 << BYTES_BITS) + bytes as u64)
    }

    /// Returns the count of `bytes` bytes and no block, for a block that grows or shrinks by that
    /// number of bytes.
    #[inline]
    pub(crate) const fn resized(bytes: usize) -> Self {
        Self(bytes as u64)
    }

    pub(crate) const fn blocks(self) -> usize {
        (self.0 >> BYTES_BITS) as usize
    }

    pub(crate) const fn bytes(self) -> usize {
        (self.0 & BYTES_MASK) as usize
    }

    /// Returns the live blocks and bytes of a chunk with this foreign word, if the word is a
    /// countdown. Otherwise, returns `None`.
    pub(crate) const fn of_countdown(word: u64) -> Option<Self> {
        if word & (1 << 63) == 0 { None } else { Some(Self((3_u64 << 62).wrapping_sub(word))) }
    }

    /// Returns the live blocks and bytes, if `self` counts all allocations, and `back` and
    /// `unbooked` count all frees. The result is exact while no thread runs an operation. Otherwise
    /// the caller may have read the three counts at different moments, and a negative difference
    /// counts as zero.
    pub(crate) const fn minus(self, back: Self, unbooked: Self) -> Self {
        let left = self.0.wrapping_sub(back.0).wrapping_sub(unbooked.0);
        if (left as i64) < 0 { Self(0) } else { Self(left) }
    }
}

#[cfg(test)]
mod tests {
    use super::LiveCount;

    #[test]
    fn one_word_counts_blocks_and_bytes() {
        let sum = LiveCount::block(100).0 + LiveCount::block(28).0 + LiveCount::resized(2).0;
        let live = LiveCount(sum);
        assert_eq!((live.blocks(), live.bytes()), (2, 130));
        assert_eq!(live.minus(LiveCount::block(30), LiveCount(0)), LiveCount::block(100));
        assert_eq!(live.minus(LiveCount::block(30), LiveCount::block(100)), LiveCount(0));
        assert_eq!(live.minus(LiveCount(sum + 1), LiveCount(0)), LiveCount(0));
    }

    #[test]
    fn sums_that_wrapped_around_differ_by_the_live_blocks() {
        let back = LiveCount(u64::MAX - 5);
        let out = LiveCount(back.0.wrapping_add(LiveCount::block(77).0));
        assert!(out.0 < back.0);
        assert_eq!(out.minus(back, LiveCount(0)), LiveCount::block(77));
    }

    #[test]
    fn largest_chunk_filled_with_blocks_overflows_neither_half() {
        let blocks: u64 = 1 << 20;
        let live = LiveCount(LiveCount::block(1).0 * blocks);
        assert_eq!((live.blocks(), live.bytes()), (1 << 20, 1 << 20));
    }
}
