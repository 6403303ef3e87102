//! Units that rest: a heap waits before it reuses a unit that another thread emptied.
//!
//! The other thread has just read the slots, so their cache lines are in the caches of its core.
//! The first store of the owner's core to such a line waits until the other core gives the line up.
//! Once both cores have evicted the line to the cache that they share, the store takes a fraction
//! of that time.
//!
//! So a heap takes all of its empty units before it books remote frees again, and before it takes a
//! queued unit, whose slots another thread may be freeing. One booking then finds many empty units.
//! It finds the last one that was emptied first, and the heap takes the empty unit that it found
//! last. So units are reused in the order in which they were emptied:
//!
//! ```text
//!   emptied by another thread    A  B  C  D
//!   booked                       D  C  B  A
//!   taken                        A  B  C  D
//! ```
//!
//! A heap grows until the units rest long enough. At most one heap of a thread and family does so
//! at a time: one from which other threads emptied units lately (`threads::visit`). Decision 0026
//! has the measurements.

use super::{PoolEnv, UnitHeap};

/// The bytes of units to which a heap grows so that its units rest: the second-level caches of two
/// cores. Models do not grow.
const REST: usize = if cfg!(ephemera_loom) { 0 } else { 2 << 20 };

impl UnitHeap {
    /// Returns whether units of this heap rest.
    pub(crate) fn has_resting(&self) -> bool {
        self.kept.has_resting()
    }

    /// Returns the number of units that other threads emptied since the last call.
    pub(crate) fn take_emptied(&self) -> u16 {
        self.kept.take_emptied()
    }

    /// Returns whether the next front should be a new unit, so that the empty ones rest longer.
    #[inline]
    pub(super) fn grows_for_rest<E: PoolEnv>(&self, env: E) -> bool {
        self.kept.has_resting()
            && self.units_len.get() < self.units_for_rest()
            && self.next_chunk().1 == 1
            && env.may_rest()
    }

    /// Returns the number of units, including those with live slots, to which the heap grows.
    #[inline]
    pub(super) fn units_for_rest(&self) -> usize {
        if cfg!(ephemera_weaken = "growth_has_no_bound") { usize::MAX } else { REST / self.spec.unit }
    }
}
