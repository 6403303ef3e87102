//! Pages that rest: an owner waits before it claims slots that other threads freed (see
//! `ephemera_prim::rest`). Decision 0028 has the measurements.
//!
//! A program may have many arenas, so at most [`AT_ONCE`] shards of a process rest at the same
//! time. Each of them holds `REST` bytes of one account until its pages rest no longer, its owner
//! trims it, or its arena is dropped.

#[cfg(not(ephemera_loom))]
use ephemera_prim::account::SharedBytes;
use ephemera_prim::account::UNLIMITED;
use ephemera_prim::rest::{REST, RestChange};

use crate::geometry::SPACING;
use crate::owner::ShardOwner;
use crate::shard::ShardPtr;

/// The maximum distance of two slots, in bytes, at which pages rest. With a larger distance, a
/// group has one page of fewer slots.
const LARGEST_STRIDE: usize = REST / 8 / SPACING;

/// The minimum size in bytes of the pages of a shard that rests. A hand-over that needs fewer pages
/// is faster if it reuses them at once.
const LEAST: usize = 32 << 10;

/// The maximum number of pages to which a shard grows, so that the bits of small slots and the
/// counts of handles do not take more memory than the slots.
const MOST_PAGES: usize = 512;

/// The number of shards of a process that may rest at the same time.
const AT_ONCE: usize = 4;

/// The bytes of the shards that rest.
#[cfg(not(ephemera_loom))]
static RESTING: SharedBytes = SharedBytes::new(AT_ONCE * REST);

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
            && stride <= LARGEST_STRIDE
            && self.shard.pages().get() * SPACING * stride >= LEAST;
        let goal = if may_rest { (REST / SPACING / stride).min(MOST_PAGES) } else { 0 };
        match rest.decide(slots, goal) {
            RestChange::Starts if !reserve() => {
                rest.end();
            }
            RestChange::Ends => release(),
            _ => {}
        }
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

/// Ends the rest of a shard's pages. Its owner calls this, or the thread that drops its arena.
pub(crate) fn end(shard: ShardPtr) {
    if shard.quiet().rest.end() {
        release();
    }
}

/// Reserves bytes for a shard that is about to rest. Returns `false` if too many others rest.
fn reserve() -> bool {
    #[cfg(not(ephemera_loom))]
    return RESTING.reserve(REST).is_ok() || cfg!(ephemera_weaken = "all_shards_rest");
    // The shards of models do not rest.
    #[cfg(ephemera_loom)]
    false
}

/// Releases the bytes of a shard that rests no longer.
fn release() {
    #[cfg(not(ephemera_loom))]
    RESTING.release(REST);
}
