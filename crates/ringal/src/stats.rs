//! The statistics of a ring.

use core::fmt;

use ephemera_prim::summary;

use crate::geometry::room;
use crate::word::Word;

/// The statistics of a ring. All sizes are in bytes.
///
/// # Examples
///
/// ```
/// use ringal::RingAl;
///
/// let mut ring = RingAl::new(4 << 10);
/// let buffer = ring.fixed(1_000).expect("an empty ring has room");
/// let stats = ring.stats();
/// assert_eq!(stats.buffers_live, 1);
/// assert!(stats.bytes_live >= 1_000 && stats.largest_free < stats.capacity);
/// assert!(stats.to_string().starts_with("4.1 KiB held, "));
/// drop(buffer);
/// assert_eq!(ring.stats().largest_free, ring.capacity());
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The size of the largest buffer that the ring can serve when no buffer is live.
    pub capacity: usize,
    /// The footprint: the number of bytes that the store takes from the heap, including its header.
    /// Zero for a ring in memory that the caller provides.
    pub bytes_held: usize,
    /// The number of bytes that live buffers occupy, including their guards and rounding.
    pub bytes_live: usize,
    /// The number of live buffers.
    pub buffers_live: usize,
    /// The number of bytes in free regions, including their guards.
    pub bytes_free: usize,
    /// The size of the largest buffer, aligned to 16, that the ring could serve now. If it is 0,
    /// the ring may not even have room for an empty buffer.
    pub largest_free: usize,
    /// The number of regions, free and taken.
    pub regions: usize,
    /// The highest offset, from the start of the regions, that any buffer has reached. This is a
    /// guide to the size that a ring needs, but not a guarantee. A ring of this size may place the
    /// same buffers differently and refuse one of them.
    ///
    /// An extendable buffer counts up to the end of the written or requested bytes, whether it is
    /// finalized or dropped. A buffer that moved also counts at its earlier positions, as far as it
    /// was written there. A buffer that was forgotten with `mem::forget` does not count at its last
    /// position.
    pub high_water: usize,
}

/// Displays `bytes_held` and `bytes_live`.
impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        summary::write(f, self.bytes_held, self.bytes_live, usize::MAX)
    }
}

impl Stats {
    /// Counts a region. `run` is the length of the free run that ends where the region ends.
    pub(crate) fn see(&mut self, word: Word, run: usize) {
        self.regions += 1;
        if word.is_taken() {
            self.buffers_live += 1;
            self.bytes_live += word.len();
        } else {
            self.bytes_free += word.len();
            self.largest_free = self.largest_free.max(room(run));
        }
    }
}
