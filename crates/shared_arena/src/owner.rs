//! Defines the owner of a shard of a live arena, and how the owner books remote frees.
//!
//! `trim` and `refill` add the slow paths of an owner. Only methods of the arena create a
//! `ShardOwner`, so while a `ShardOwner` exists, the arena is live and none of its shards is
//! parked.

use ephemera_prim::word::OwnerUsize;

use crate::geometry::ArenaGeometry;
use crate::group::PageGroupPtr;
use crate::shard::ShardPtr;
use crate::store::ArenaStore;

/// The calling thread in its role as the owner of a shard of a live arena.
///
/// # Invariant
/// **O1** This thread may write the owner's words of the shard and of its groups: it holds the
/// shard's record, or it is the pool's only thread. The arena is not dropped during `'s`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShardOwner<'s> {
    pub(crate) store: &'s ArenaStore,
    pub(crate) shard: ShardPtr,
}

impl<'s> ShardOwner<'s> {
    /// # Safety
    /// `shard` is a shard of `store`. This thread holds the shard's record, or is the only thread
    /// of the pool. The arena of `store` is not dropped during `'s` (O1).
    pub(crate) unsafe fn new(store: &'s ArenaStore, shard: ShardPtr) -> Self {
        Self { store, shard }
    }

    pub(crate) fn geometry(self) -> &'s ArenaGeometry {
        &self.store.geometry
    }

    /// Drains the inbox: books the remote frees in it, and returns the number of slots that they
    /// freed.
    pub(crate) fn book_inbox(self) -> usize {
        let (mut pages, mut freed) = (0, 0);
        // SAFETY: this thread holds the record or is the pool's only thread, so no other thread
        // takes from this inbox (O1).
        let taken = unsafe { self.shard.inbox().take() };
        for (far, slots) in taken {
            let geometry = self.geometry();
            // SAFETY: `far` belongs to a page of this shard and derives from the page's group,
            // which is not freed before the page is booked (G1).
            let group = unsafe { PageGroupPtr::around(far, geometry.group) };
            let near = group.near(geometry, group.page_of_far(geometry, far));
            self.shard.book(near, slots);
            // Only a page without a slot in use can be the page that empties its group.
            pages += usize::from(near.bits().slots() == geometry.all());
            freed += slots.count_ones() as usize;
        }
        let booked: &OwnerUsize = &self.shard.quiet().booked;
        booked.set(booked.get().wrapping_add(pages));
        self.shard.quiet().rest.note_freed(freed);
        freed
    }
}
