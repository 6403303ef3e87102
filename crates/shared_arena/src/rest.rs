//! Pages that rest: an owner waits before it claims slots that other threads freed (see
//! `ephemera_prim::rest`). Decision 0028 has the measurements.

use ephemera_prim::account::UNLIMITED;
use ephemera_prim::rest::REST;

use crate::geometry::SPACING;
use crate::owner::ShardOwner;

/// The maximum distance of two slots, in bytes, at which pages rest. With a larger distance, a
/// group has one page of fewer slots.
const LARGEST_STRIDE: usize = REST / 8 / SPACING;

impl ShardOwner<'_> {
    /// Books remote frees, and decides whether pages rest from now on. Returns the number of slots
    /// that the remote frees freed.
    pub(crate) fn book_and_decide(self) -> usize {
        let freed = self.book_inbox();
        let rest = &self.shard.quiet().rest;
        rest.note_freed(freed);
        let (stride, slots) = (self.geometry().stride, self.geometry().slots);
        let is_unlimited = self.store.account().limit() == UNLIMITED;
        let may_rest = (is_unlimited || cfg!(ephemera_weaken = "limited_pages_rest"))
            && self.store.trims()
            && stride <= LARGEST_STRIDE;
        rest.decide(slots, if may_rest { REST / SPACING / stride } else { 0 });
        freed
    }

    /// Returns whether the owner claims from all of its pages before it books remote frees. If the
    /// shard has more pages than it needs for that, they do not rest, so that looks for idle groups
    /// free some of them.
    pub(crate) fn has_resting(self) -> bool {
        let goal = self.shard.quiet().rest.goal();
        goal != 0
            && self.shard.pages().get() <= goal + self.geometry().pages
            && !cfg!(ephemera_weaken = "resting_groups_are_idle")
    }

    /// Returns whether the next page should be a new one, so that the others rest longer.
    pub(crate) fn grows_for_rest(self) -> bool {
        let goal = self.shard.quiet().rest.goal();
        self.shard.pages().get() < goal || goal != 0 && cfg!(ephemera_weaken = "pages_have_no_bound")
    }
}
