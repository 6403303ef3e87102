//! Defines the slow path of a claim. The owner of a shard looks for a slot in its own pages, then
//! among remote frees, then in groups that no shard has. Last, it asks the global allocator for a
//! group. An owner whose pages rest can add a group before it looks among the remote frees.

use core::ptr::{self, NonNull};

use ephemera_prim::gate::Gate;
use ephemera_prim::prefetch;
use ephemera_prim::word::OwnerUsize;

use crate::bits::Bits;
use crate::error::Refused;
use crate::group::{NearPtr, PageGroupPtr};
use crate::owner::ShardOwner;
use crate::shard::QuietFields;
use crate::store::enter_patiently;
use crate::trim::Which;

/// The number of cache lines of the next page that a claim prefetches. After these lines, the
/// processor recognises the pattern and prefetches on its own.
const AHEAD: usize = 4;

/// The minimum number of slow paths between two looks for idle groups.
const LOOK_EVERY: usize = 64;

impl ShardOwner<'_> {
    /// Claims a slot from the shard's pages, remote frees, or groups that no shard has. Allocates a
    /// group only to let pages rest. Returns `None` if it finds no slot.
    pub(crate) fn serve(self) -> Option<NonNull<u8>> {
        self.obey();
        loop {
            if let Some(slot) = self.shard.claim(self.geometry()) {
                return Some(slot);
            }
            if !(self.next_page()
                || self.grow_for_rest()
                || self.book_and_decide() != 0
                || self.bind_unbound())
            {
                return None;
            }
        }
    }

    /// Acts like [`Self::serve`], but waits longer for the store's gate if it needs a group that no
    /// shard has. A thread calls this before a refusal.
    pub(crate) fn serve_patiently(self) -> Option<NonNull<u8>> {
        self.serve().or_else(|| {
            self.store.pop_unbound(enter_patiently, |group| self.bind(group))?;
            self.serve()
        })
    }

    /// Claims a slot. If [`Self::serve`] finds none, allocates a group first.
    pub(crate) fn serve_or_grow(self) -> Result<NonNull<u8>, Refused> {
        loop {
            if let Some(slot) = self.serve() {
                return Ok(slot);
            }
            self.grow()?;
        }
    }

    /// Decides whether pages still rest, if a decision is due. Then trims if another thread asked
    /// for a trim, or looks for idle groups if a look is due.
    fn obey(self) {
        if self.shard.quiet().rest.note_visit() {
            self.book_and_decide();
        }
        let quiet = self.shard.quiet();
        // This compares with a copy, because the trim itself updates `epoch`. If the gate is shut,
        // the trim leaves `epoch` unchanged, so the next slow path tries again.
        if self.store.epoch.turned(&OwnerUsize::new(quiet.epoch.get())) {
            self.trim_in_passing(Which::Empty);
        } else if self.store.trims
            && !self.has_resting()
            && served(quiet) >= self.shard.pages().get().max(LOOK_EVERY)
            && self.trim_in_passing(Which::Idle).is_some()
        {
            // If the gate was shut, the look stays due, so the next slow path tries again.
            quiet.served.set(0);
        }
    }

    /// Refills `bits` from the current page. If there is none or it is full, first makes the first
    /// page of the list the current page. Returns `false` if the list is empty too.
    fn next_page(self) -> bool {
        let shard = self.shard;
        // SAFETY: the current page belongs to a group of this shard, so the group is live (G1).
        if let Some(near) = unsafe { NearPtr::from_raw(shard.current().get()) } {
            let slots = near.bits().slots();
            if slots != 0 {
                near.local().set(Bits::listed(0).word());
                shard.bits().set(slots);
                return true;
            }
            // The page is full. A word of zero marks the page as unlisted.
            near.local().set(0);
            shard.current().set(ptr::null_mut());
        }
        let Some((group, near)) = self.first_page() else { return false };
        group.touch();
        shard.avail().set(near.next().get());
        let slots = near.bits().slots();
        near.local().set(Bits::listed(0).word());
        shard.current().set(near.as_ptr());
        shard.base().set(group.base(self.geometry(), near).as_ptr());
        // O2 holds again after this write.
        shard.bits().set(slots);
        if weakened!("arena_idle_by_pages_taken") {
            shard.quiet().served.add(1);
        }
        if group.idle().get() != 0 {
            group.idle().set(0);
        }
        self.look_ahead();
        true
    }

    /// Returns the first page of the list, from which the owner claims next, and its group. Returns
    /// `None` if the list is empty.
    ///
    /// If a look found the page's group empty and no pages rest, the owner drains the inbox first.
    /// The drain puts refilled pages at the front of the list, so idle groups stay idle while
    /// remote frees refill the other groups. Without the drain, the owner would rotate through all
    /// its pages, and each look would find every group used.
    fn first_page(self) -> Option<(PageGroupPtr, NearPtr)> {
        let (group, near) = self.listed_page()?;
        if group.idle().get() == 0 || self.has_resting() || weakened!("arena_idle_page_before_inbox") {
            return Some((group, near));
        }
        if self.book_inbox() < self.geometry().slots.div_ceil(2) {
            // The slots from the inbox would soon run out, so the owner takes the idle group into
            // use.
            group.idle().set(0);
        }
        self.listed_page()
    }

    /// Returns the first page of the list and its group, or `None` if the list is empty.
    fn listed_page(self) -> Option<(PageGroupPtr, NearPtr)> {
        // SAFETY: pages on the list belong to groups of this shard, so the groups are live (G1).
        let near = unsafe { NearPtr::from_raw(self.shard.avail().get()) }?;
        Some((PageGroupPtr::of_near(self.geometry(), near), near))
    }

    /// Binds or allocates a group if the shard needs more pages so that others rest. Returns
    /// whether it did.
    fn grow_for_rest(self) -> bool {
        self.grows_for_rest() && (self.bind_unbound() || self.grow().is_ok())
    }

    /// Prefetches the near part and the first cache lines of the next page on the list.
    fn look_ahead(self) {
        let Some((group, near)) = self.listed_page() else { return };
        prefetch::for_write(near.as_ptr().cast());
        let base = group.base(self.geometry(), near).as_ptr();
        for line in 0..AHEAD {
            prefetch::for_write(base.wrapping_add(line * 64));
        }
    }

    /// Binds a group that no shard has. Returns `false` if there is none or the gate stays shut.
    fn bind_unbound(self) -> bool {
        // Outside the gate, this look at the list may be out of date.
        !self.store.unbound.get().is_null()
            && self.store.pop_unbound(Gate::enter, |group| self.bind(group)).is_some()
    }

    /// Binds a group of free slots to this shard.
    fn bind(self, group: PageGroupPtr) {
        let shard = self.shard;
        group.touch();
        group.shard().set(shard.as_ptr().cast());
        group.record().set(shard.record().cast_mut());
        group.idle().set(0);
        self.list_pages(group);
        shard.pages().add(group.pages());
        group.next().set(shard.groups().get());
        shard.groups().publish(group.as_ptr());
    }

    /// Allocates and binds a group with as many pages as the shard has, but at least one and at
    /// most the type's maximum. If the limit or the global allocator refuses that group, tries a
    /// group of one page.
    pub(crate) fn grow(self) -> Result<(), Refused> {
        let pages = self.shard.pages().get().clamp(1, self.geometry().pages.max(1));
        let group = self.store.make_group(pages).or_else(|refused| match pages {
            1 => Err(refused),
            _ => self.store.make_group(1),
        })?;
        self.bind(group);
        Ok(())
    }
}

/// Counts a slow path, and returns the number of slow paths since the last look for idle groups. In
/// a steady state, a thread takes slow paths, possibly without ever taking a page from the list. A
/// count of the pages taken would then never trigger a look.
fn served(quiet: &QuietFields) -> usize {
    if weakened!("arena_idle_by_pages_taken") {
        return quiet.served.get();
    }
    quiet.served.add(1)
}
