//! Trims a shard: finds its empty groups, and frees or unbinds them. Only the owner trims a shard,
//! and only while the arena is live.
//!
//! One pass over the shard's groups takes the empty groups, or only the idle ones, off the shard's
//! list, and rebuilds the list of pages with free slots. The pass runs inside the store's gate.
//! While the arena is live, only a trim looks for empty groups; a free never does.

use core::ptr;

use ephemera_prim::gate::{Gate, Pass};

use crate::account::ReservedBytes;
use crate::bits::Bits;
use crate::counts::Count;
use crate::error::Refused;
use crate::group::{PageGroup, PageGroupPtr};
use crate::owner::ShardOwner;
use crate::rest;
use crate::store::{ArenaStore, enter_patiently};

/// The groups that a trim takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// All empty groups.
    Empty,
    /// Empty groups that the last look also found empty, and that have not been used since.
    Idle,
}

/// Says whether a trim frees the groups that it takes, or leaves them for any shard to bind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Frees the groups.
    Release,
    /// Leaves the groups for any shard to bind.
    Unbind,
}

impl ShardOwner<'_> {
    /// Drains the inbox, takes the empty groups off this shard, and frees or unbinds them as `fate`
    /// says. Returns the number of these groups, or `None` if another thread holds the gate for too
    /// long.
    pub(crate) fn trim(self, fate: Fate) -> Option<usize> {
        self.trim_inside_gate(enter_patiently, Which::Empty, fate)
    }

    /// Sorts the pages with free slots, so that the next claims take slots of partly used groups
    /// first. Also frees idle groups. If the gate stays shut, only drains the inbox.
    pub(crate) fn prefer_used_pages(self) {
        self.trim_inside_gate(enter_patiently, Which::Idle, Fate::Release);
    }

    /// Trims during a claim: frees the groups that `which` selects, and returns their number.
    /// Returns `None` if the gate is shut. Does not wait for the gate, because the next slow path
    /// tries again.
    pub(crate) fn trim_in_passing(self, which: Which) -> Option<usize> {
        self.trim_inside_gate(Gate::try_enter, which, Fate::Release)
    }

    fn trim_inside_gate(
        self,
        enter: fn(&Gate) -> Option<Pass<'_>>,
        which: Which,
        fate: Fate,
    ) -> Option<usize> {
        let (shard, geometry) = (self.shard, self.geometry());
        let (epoch, obeyed) = (&shard.quiet().epoch, shard.quiet().epoch.get());
        if which == Which::Empty {
            // This trim fulfils the requests to trim that the thread sees here, and sees the remote
            // frees before them. It can miss frees that precede a later request.
            self.store.epoch.turned(epoch);
        }
        self.book_inbox();
        let weak = weakened!("arena_trim_beside_a_walk");
        let pass = if weak { None } else { enter(&self.store.gate) };
        if pass.is_none() && !weak {
            // The pass over the groups did not run, so the requests to trim stay pending.
            epoch.set(obeyed);
            return None;
        }
        if which == Which::Empty {
            if weakened!("arena_trim_fulfils_later_requests") {
                self.store.epoch.turned(epoch);
            }
            rest::end(shard);
        }
        shard.flush_front(geometry);
        shard.current().set(ptr::null_mut());
        shard.avail().set(ptr::null_mut());

        let (mut gone, mut count): (*mut PageGroup, usize) = (ptr::null_mut(), 0);
        let mut before: Option<PageGroupPtr> = None;
        // SAFETY: this thread owns the shard, and only the owner takes groups off this list, so the
        // groups on it are live (G1).
        for group in unsafe { PageGroupPtr::list(shard.groups().get()) } {
            let free =
                (0..group.pages()).all(|page| group.near(geometry, page).bits().slots() == geometry.all());
            let goes = free && (which == Which::Empty || group.idle().get() != 0);
            group.idle().set(usize::from(free));
            if goes {
                let link = before.as_ref().map_or(shard.groups(), PageGroupPtr::next);
                link.set(group.next().get());
                shard.pages().sub(group.pages());
                group.next().set(gone);
                gone = group.as_ptr();
                count += 1;
                continue;
            }
            before = Some(group);
            if free {
                self.list_pages(group);
            }
        }
        // These pages are added last, so the owner claims from empty groups last, and empty groups
        // tend to stay empty.
        // SAFETY: only the owner takes groups off this list, so the groups on it are live (G1).
        for group in unsafe { PageGroupPtr::list(shard.groups().get()) } {
            if group.idle().get() == 0 {
                self.list_pages(group);
            }
        }
        if fate == Fate::Release {
            drop(pass);
            // SAFETY: the groups of this store are empty, all their remote frees are booked, and no
            // list has them, so no other thread has a pointer to them.
            unsafe { self.store.release_list(gone) };
        } else {
            // SAFETY: the groups are on no list that another thread can reach, so no other thread
            // frees them (G1).
            for group in unsafe { PageGroupPtr::list(gone) } {
                self.store.push_unbound(group);
            }
        }
        Some(count)
    }

    /// Adds each page of a group that has free slots to the front of the list, and marks each other
    /// page as unlisted. The pages must be on no list.
    pub(crate) fn list_pages(self, group: PageGroupPtr) {
        // The first page is added last, so that the owner claims from it first.
        for page in (0..group.pages()).rev() {
            let near = group.near(self.geometry(), page);
            let slots = near.bits().slots();
            if slots == 0 {
                near.local().set(0);
                continue;
            }
            near.local().set(Bits::listed(slots).word());
            self.shard.list(near);
        }
    }
}

/// Reserves the bytes for a page's counts, whose allocation failed with `refused`. The caller has
/// already freed the empty groups of shards. Returns `None` if the limit does not allow the bytes.
///
/// Frees groups that no shard has: only as many as the limit requires if the limit refused the
/// counts, and all of them otherwise.
pub(crate) fn reserve_counts(store: &ArenaStore, refused: Refused) -> Option<ReservedBytes<'_>> {
    if !refused.by_limit() {
        store.release_unbound();
    }
    let bytes = store.geometry.slots * size_of::<Count>();
    loop {
        match store.account.reserve(bytes) {
            Ok(reserved) => return (!weakened!("counts_keep_no_room")).then_some(reserved),
            Err(_) if store.release_one_unbound() => {}
            Err(_) => return None,
        }
    }
}
