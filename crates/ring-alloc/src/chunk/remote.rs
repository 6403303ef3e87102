//! Defines [`RemoteCounts`], through which other threads tell the owner of a divided chunk how many
//! bytes of each section they freed.
//!
//! The foreign word counts remote frees for the chunk as a whole. A remote free in a divided chunk
//! first counts its bytes by section here, and then adds to the foreign word. After the owner has
//! booked a foreign word, it collects these counts. The owner may also collect the count of a free
//! that it has not booked yet. It may then reuse the bytes while the block still counts as live, so
//! the chunk does not run empty before that free is booked.
#![forbid(unsafe_code)]

use core::ops::Range;

use ephemera_prim::ordering;
use ephemera_prim::sync::{AtomicU64, Ordering};

use super::counts::{FreedCounts, SECTIONS, parts};
use crate::geometry::Geometry;

// ORDERING: Release. Pairs with the Acquire in `RemoteCounts::collect`. Publishes: this thread's
// last accesses to the bytes.
ordering!(count_order = Release, Relaxed if "remote_count_relaxed");
// ORDERING: Acquire. Pairs with the Release in `RemoteCounts::add`: the owner uses the bytes again
// after the last accesses of the threads that freed them.
ordering!(collect_order = Acquire, Relaxed if "remote_collect_relaxed");

/// The number of freed granules of each section that the owner has not collected, in one byte each.
/// A byte does not overflow, because a section has at most 128 granules.
#[derive(Debug)]
pub(super) struct RemoteCounts([AtomicU64; SECTIONS / 8]);

impl RemoteCounts {
    pub(super) fn new() -> Self {
        Self(core::array::from_fn(|_| AtomicU64::new(0)))
    }

    /// Counts bytes, between two addresses in the chunk, that the calling thread frees.
    pub(super) fn add<G: Geometry>(&self, addresses: Range<usize>) {
        for (section, granules) in parts::<G>(addresses) {
            // ORDERING: `count_order`. Pairs with `collect`.
            self.0[section / 8].fetch_add((granules as u64) << (section % 8 * 8), count_order());
        }
    }

    /// Moves the counts to `freed`. Only the owner may call this.
    pub(super) fn collect(&self, freed: &FreedCounts) {
        for (word, eight) in self.0.iter().zip(0..) {
            if word.load(Ordering::Relaxed) != 0 {
                // ORDERING: `collect_order`. Pairs with `add`.
                freed.add_to_eight(eight, word.swap(0, collect_order()).to_le_bytes());
            }
        }
    }

    /// Sets the counts to zero. Only the owner may call this, while no block is live.
    pub(super) fn reset(&self) {
        self.0.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }
}
