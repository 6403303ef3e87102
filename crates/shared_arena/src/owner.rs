//! What the owner of a shard does when it has no slot at hand: its own pages, then what other threads gave back, then groups that
//! nobody has, then the heap.
//!
//! All of it belongs to methods of the arena, so the arena is alive and nobody looks through what it left.

use core::ptr::{self, NonNull};

use ephemera_prim::prefetch;
#[cfg(target_has_atomic = "64")]
use ephemera_prim::word::OwnerUsize;

use crate::bits::Bits;
use crate::error::Refused;
use crate::geometry::Geometry;
use crate::group::{self, GroupPtr, NearPtr};
use crate::shard::{Quiet, ShardPtr};
use crate::store::Store;
use crate::trim::Which;

/// Cache lines of the next page that are asked for when a page is begun: from there on the processor sees the pattern.
const AHEAD: usize = 4;

/// Slow paths between two looks for idle groups, at least.
const LOOK_EVERY: usize = 64;

/// The caller, as the owner of a shard of an arena that lives.
///
/// # Invariant
/// **O1** This thread may write the owner's words of the shard and of its groups: it holds the shard's record, or it is the
/// pool's one thread. The arena is not dropped as long as `'s`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner<'s> {
    pub(crate) store: &'s Store,
    pub(crate) shard: ShardPtr,
}

impl<'s> Owner<'s> {
    /// # Safety
    /// O1.
    pub(crate) unsafe fn new(store: &'s Store, shard: ShardPtr) -> Self {
        Self { store, shard }
    }

    pub(crate) fn geometry(self) -> &'s Geometry {
        self.store.geometry()
    }

    /// A slot, without asking the heap.
    pub(crate) fn serve(self) -> Option<NonNull<u8>> {
        self.obey();
        loop {
            if let Some(slot) = self.shard.claim(self.geometry()) {
                return Some(slot);
            }
            if !(self.next_page() || self.settle() != 0 || self.bind_unbound()) {
                return None;
            }
        }
    }

    /// The same before a refusal: waits for who stands in front of the groups that nobody has.
    #[cfg(all(feature = "std", target_has_atomic = "64"))]
    pub(crate) fn serve_patiently(self) -> Option<NonNull<u8>> {
        self.serve().or_else(|| {
            self.store.pop_unbound(Store::enter_patiently, |group| self.bind(group))?;
            self.serve()
        })
    }

    /// A slot, if need be from the heap.
    pub(crate) fn serve_or_grow(self) -> Result<NonNull<u8>, Refused> {
        loop {
            if let Some(slot) = self.serve() {
                return Ok(slot);
            }
            self.grow()?;
        }
    }

    /// Trims if somebody asked for it, or if it is time to look for what is idle.
    fn obey(self) {
        let quiet = self.shard.quiet();
        let obeyed = quiet.epoch.get();
        if self.store.epoch().turned(&quiet.epoch) {
            if self.trim_in_passing(Which::Empty).is_none() {
                // Not yet: the next slow path tries again.
                quiet.epoch.set(obeyed);
            }
        } else if self.store.trims() && served(quiet) >= self.shard.pages().get().max(LOOK_EVERY) {
            quiet.served.set(0);
            self.trim_in_passing(Which::Idle);
        }
    }

    /// Makes a page with free slots the current one: the same again, or the first of the list.
    fn next_page(self) -> bool {
        let shard = self.shard;
        // SAFETY: G1: the current page is this shard's.
        if let Some(near) = unsafe { NearPtr::from_raw(shard.current().get()) } {
            let slots = near.bits().slots();
            if slots != 0 {
                near.local().set(Bits::listed(0).word());
                shard.bits().set(slots);
                return true;
            }
            // Full, and on no list from here.
            near.local().set(0);
            shard.current().set(ptr::null_mut());
        }
        // SAFETY: G1: pages on the list are this shard's.
        let Some(near) = (unsafe { NearPtr::from_raw(shard.avail().get()) }) else { return false };
        let group = near.group(self.geometry());
        group.touch();
        shard.avail().set(near.next().get());
        let slots = near.bits().slots();
        near.local().set(Bits::listed(0).word());
        shard.current().set(near.as_ptr());
        let page = group.page_of_near(self.geometry(), near);
        shard.base().set(group.base(self.geometry(), page).as_ptr());
        // O2 holds again from here.
        shard.bits().set(slots);
        if cfg!(ephemera_weaken = "arena_idle_by_pages_taken") {
            shard.quiet().served.add(1);
        }
        if group.idle().get() != 0 {
            group.idle().set(0);
        }
        self.look_ahead();
        true
    }

    /// Asks for the lines that the next page will be claimed from.
    fn look_ahead(self) {
        // SAFETY: G1: pages on the list are this shard's.
        let Some(near) = (unsafe { NearPtr::from_raw(self.shard.avail().get()) }) else { return };
        prefetch::for_write(near.as_ptr().cast());
        let group = near.group(self.geometry());
        let base = group.base(self.geometry(), group.page_of_near(self.geometry(), near)).as_ptr();
        for line in 0..AHEAD {
            prefetch::for_write(base.wrapping_add(line * 64));
        }
    }

    /// Books what other threads gave back, and returns of how many pages.
    #[cfg(target_has_atomic = "64")]
    pub(crate) fn settle(self) -> usize {
        let mut pages = 0;
        // SAFETY: this thread holds the record (O1).
        let taken = unsafe { self.shard.inbox().take() };
        for (far, slots) in taken {
            let geometry = self.geometry();
            // SAFETY: G1: a page in the inbox is this shard's, and its group is not freed before it is booked.
            let group = unsafe { GroupPtr::around(far, geometry.group) };
            self.shard.book(group.near(geometry, group.page_of_far(geometry, far)), slots);
            pages += 1;
        }
        let booked: &OwnerUsize = &self.shard.quiet().booked;
        booked.set(booked.get().wrapping_add(pages));
        pages
    }

    /// Without 64-bit atomics there are only types for one thread.
    #[cfg(not(target_has_atomic = "64"))]
    pub(crate) fn settle(self) -> usize {
        0
    }

    /// Takes a group that nobody has.
    fn bind_unbound(self) -> bool {
        self.store.has_unbound() && self.store.pop_unbound(Store::enter, |group| self.bind(group)).is_some()
    }

    /// Makes a group of free slots this shard's.
    fn bind(self, group: GroupPtr) {
        let shard = self.shard;
        group.touch();
        group.shard().set(shard.as_ptr());
        group.record().set(shard.record().cast_mut());
        group.idle().set(0);
        // The first page is claimed from first.
        for page in (0..group.pages()).rev() {
            let near = group.near(self.geometry(), page);
            near.next().set(shard.avail().get());
            shard.avail().set(near.as_ptr());
        }
        shard.pages().add(group.pages());
        group.next().set(shard.groups().get());
        shard.groups().publish(group.as_ptr());
    }

    /// A group from the heap: as many pages as the shard has, up to what a group can have; or a single one, where so much is refused.
    pub(crate) fn grow(self) -> Result<(), Refused> {
        let pages = self.shard.pages().get().clamp(1, self.geometry().pages.max(1));
        let group = self.store.make_group(pages).or_else(|refused| match pages {
            0 | 1 => Err(refused),
            _ => self.store.make_group(1),
        })?;
        self.bind(group);
        Ok(())
    }
}

/// Counts a slow path, and returns how many there were since the last look. A steady state comes here again and again, though it may
/// never take a page from the list.
fn served(quiet: &Quiet) -> usize {
    if cfg!(ephemera_weaken = "arena_idle_by_pages_taken") {
        return quiet.served.get();
    }
    quiet.served.add(1)
}

/// What a group of `pages` pages asks of the heap.
pub(crate) fn bytes_of(geometry: &Geometry, pages: usize) -> usize {
    group::layout(geometry, pages).map_or(usize::MAX, |layout| layout.size())
}
