//! What a ring holds.

use crate::geometry::room;
use crate::word::Word;

/// What of a ring is held and what is free. All sizes are bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The largest buffer that the ring serves with nothing held.
    pub capacity: usize,
    /// Buffers in use.
    pub held: usize,
    /// What they occupy, their guards and rounding included.
    pub held_bytes: usize,
    /// What is not occupied, guards included.
    pub free_bytes: usize,
    /// The largest buffer that would be served now, aligned to 16.
    pub largest_free: usize,
    /// Regions, free and taken: guards in the store.
    pub regions: usize,
    /// How far into the store buffers have ever reached, counted from its start: what a smaller ring would have done with. An
    /// extendable buffer reaches as far as it was written, or asked for when it was made, finalized or not.
    pub high_water: usize,
}

impl Stats {
    pub(crate) fn new(capacity: usize, high_water: usize) -> Self {
        Self { capacity, high_water, ..Self::default() }
    }

    /// Counts one region more; `run` is the free run that the walk is in.
    pub(crate) fn see(&mut self, word: Word, run: &mut usize) {
        let len = word.len();
        self.regions += 1;
        if word.is_taken() {
            self.held += 1;
            self.held_bytes += len;
            *run = 0;
        } else {
            self.free_bytes += len;
            *run += len;
            self.largest_free = self.largest_free.max(room(*run));
        }
    }
}
