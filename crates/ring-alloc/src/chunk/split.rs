//! A split chunk: its blocks are in sections, each with a header of its own.
//!
//! ```text
//!  base (aligned to the chunk's size)
//!  | chunk's header | header | blocks ... | header | blocks ......... | header | blocks ...
//!                   ^section 0            ^section 1, a multiple of the section's size
//! ```
//!
//! A free finds the chunk's header by masking the block's address, as in any chunk. There `taken`
//! and `back` are 0, so no free is booked in it. The slow path finds the section instead. A section
//! is a small chunk in all other respects.

use ephemera_prim::word::OwnerU64;

use super::{ChunkPtr, HEADER};
use crate::geometry::{Geometry, SECTIONS};
use crate::live::LiveCount;

impl ChunkPtr {
    /// Returns whether this is a split chunk: `first` holds the size of its sections, and `end` is
    /// 0.
    #[inline]
    pub(crate) fn is_split(self) -> bool {
        self.end() == 0 && self.first() != 0
    }

    /// Returns the sections of a split chunk.
    pub(crate) fn sections(self) -> impl Iterator<Item = Self> {
        let size = self.first();
        (0..SECTIONS).map(move |i| self.section_of(self.addr() + i * size))
    }

    /// Returns the section of a split chunk in which `addr` is.
    pub(crate) fn section_of(self, addr: usize) -> Self {
        let start = (addr & !(self.first() - 1)).max(self.addr() + HEADER);
        Self(self.at(start).cast())
    }

    /// Returns the split chunk of a section.
    pub(crate) fn split_chunk<G: Geometry>(self) -> Self {
        Self(self.at(self.addr() & !(G::SMALL_CHUNK - 1)).cast())
    }

    /// Returns the live blocks and bytes of a split chunk.
    pub(super) fn live_in_sections(self) -> LiveCount {
        let live = self.sections().fold(0, |sum, section| sum + section.live_now().word());
        LiveCount::from_word(live)
    }

    /// Books a freed block of a chunk that is not the front. Returns `false`, and books nothing, if
    /// it may be the last one, or if the chunk is split.
    ///
    /// No other thread looks at the sums. This compares them by order, so that the sums of a split
    /// chunk, which are 0, stop each free. If the sums have wrapped around, this may return `false`
    /// for a block that is not the last one.
    #[inline]
    #[must_use]
    pub(crate) fn book_unless_last(self, given: LiveCount) -> bool {
        self.contents().touch();
        let back = self.back().get().wrapping_add(given.word());
        if back >= self.taken().get() {
            return false;
        }
        OwnerU64::set(self.back(), back);
        true
    }
}
