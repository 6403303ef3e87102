//! Units that rest: a heap waits before it reuses a unit that another thread emptied (see
//! `ephemera_prim::rest`).
//!
//! While the units of a heap rest, the heap grows to [`REST`] bytes. It also uses all of its empty
//! units before it books remote frees to find a free slot. At most one heap of a family on each
//! thread rests at a time: a heap in which other threads have recently emptied several units (see
//! `threads::visit`). Decision 0026 has the measurements.

use ephemera_prim::rest::REST;

use super::{PoolEnv, UnitHeap};

impl UnitHeap {
    /// Returns whether the next front should be a new unit, so that the empty ones rest longer.
    #[inline]
    pub(super) fn grows_for_rest<E: PoolEnv>(&self, env: E) -> bool {
        self.kept.has_resting()
            && self.units_len.get() < self.units_for_rest()
            && self.next_chunk(env).1 == 1
            && env.may_rest()
    }

    /// Returns the number of units, with and without live slots, to which the heap grows in order
    /// to let its units rest.
    #[inline]
    pub(super) fn units_for_rest(&self) -> usize {
        if weakened!("growth_has_no_bound") { usize::MAX } else { REST / self.spec.unit }
    }
}
