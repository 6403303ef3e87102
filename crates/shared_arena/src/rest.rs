//! Pages that rest: an owner waits before it claims slots that other threads freed (see
//! `ephemera_prim::rest`). Decision 0028 has the measurements.
//!
//! A program may have many arenas, so the pages of at most [`AT_ONCE`] shards of a process rest at
//! the same time. Each of these shards reserves `REST` bytes in `RESTING`, until its pages rest no
//! longer, its owner trims it, or its arena is dropped. Four shards whose owners sleep can thus
//! keep the pages of all other shards from resting.

#[cfg(not(ephemera_loom))]
use ephemera_prim::account::SharedBytes;
use ephemera_prim::rest::{REST, RestChange};

use crate::geometry::SPACING;
use crate::owner::ShardOwner;
use crate::shard::ShardPtr;

/// The maximum stride, in bytes, at which pages rest. A group of a larger stride has only one page,
/// usually with fewer than 63 slots.
const LARGEST_STRIDE: usize = REST / 8 / SPACING;

/// The minimum total size, in bytes, of a shard's pages at which they rest. The lines of fewer
/// pages stay in the caches of both cores, so it is faster to reuse the pages immediately.
const LEAST: usize = 32 << 10;

/// The number of pages at which a shard stops growing to let pages rest, even if its pages take
/// fewer than `REST` bytes. Without this bound, a shard of small slots would need thousands of
/// pages, whose bits and handle counts take more than `REST` bytes.
const MOST_PAGES: usize = 512;

/// The maximum number of shards of a process whose pages rest at the same time.
const AT_ONCE: usize = 4;

/// The bytes that shards reserve while their pages rest.
#[cfg(not(ephemera_loom))]
static RESTING: SharedBytes = SharedBytes::new(AT_ONCE * REST);

impl ShardOwner<'_> {
    /// Books remote frees, and decides whether pages rest from now on. Returns the number of booked
    /// slots.
    pub(crate) fn book_and_decide(self) -> usize {
        let freed = self.book_inbox();
        let rest = &self.shard.quiet().rest;
        let (stride, slots) = (self.geometry().stride, self.geometry().slots);
        let may_rest = (!self.store.account.bytes.is_limited() || weakened!("limited_pages_rest"))
            && self.store.trims
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

    /// Returns whether the shard's pages rest, that is, whether the owner claims from all of its
    /// pages before it books remote frees. Pages do not rest while the shard has more pages than
    /// resting needs, for example after a burst. A look for idle groups can then free the surplus.
    pub(crate) fn has_resting(self) -> bool {
        let goal = self.goal();
        goal != 0
            && self.shard.pages().get() <= goal + self.geometry().pages
            && !weakened!("resting_groups_are_idle")
    }

    /// Returns whether the shard has fewer pages than resting needs. If so, the next page should be
    /// a new one.
    pub(crate) fn grows_for_rest(self) -> bool {
        self.shard.pages().get() < self.goal()
    }

    /// Returns the number of pages to which the shard grows, or 0 if its pages do not rest.
    fn goal(self) -> usize {
        let goal = self.shard.quiet().rest.goal();
        if weakened!("pages_have_no_bound") { goal << 10 } else { goal }
    }
}

/// Ends the rest of a shard's pages. Only the shard's owner or the thread that drops the arena may
/// call this. During the drop, no `ShardOwner` exists (O1), so the owner does not use the shard's
/// `Rest`.
pub(crate) fn end(shard: ShardPtr) {
    if shard.quiet().rest.end() {
        release();
    }
}

/// Reserves bytes for a shard whose pages are about to rest, and returns `true`. Returns `false`
/// without reserving bytes if the pages of [`AT_ONCE`] other shards rest already, and always in
/// models.
fn reserve() -> bool {
    #[cfg(not(ephemera_loom))]
    return RESTING.reserve(REST).is_ok() || weakened!("all_shards_rest");
    // Pages of models do not rest.
    #[cfg(ephemera_loom)]
    false
}

/// Releases the bytes of a shard whose pages rest no longer.
fn release() {
    #[cfg(not(ephemera_loom))]
    RESTING.release(REST);
}
