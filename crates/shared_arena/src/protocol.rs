//! Defines the steps of claims, frees and drops that need a record, or the state that all arenas of
//! a process share.
//!
//! The functions take the shared state (the *world*) and the record by reference. `thread` passes
//! the static world `WORLD`. Models and tests make their own worlds.

use core::ptr::NonNull;

use ephemera_prim::foreign::Inbox;
use ephemera_prim::record::Record;

use crate::account::ReservedBytes;
use crate::close;
use crate::error::Refused;
use crate::group::{Far, PageGroupPtr};
use crate::owner::ShardOwner;
use crate::parked::{self, LOOKS, Visitor};
use crate::shard::ShardPtr;
use crate::store::ArenaStore;
use crate::trim::{self, Fate};
use crate::world::{ArenaRecord, ArenaWorld, identity, record_of};

/// Claims a slot for the holder of `record` when the record's shard has no slot at hand.
///
/// # Safety
/// The caller holds `record`, and the record belongs to `world`.
pub(crate) unsafe fn claim_slow(
    world: &ArenaWorld,
    store: &ArenaStore,
    record: &Record<ArenaRecord>,
) -> Result<NonNull<u8>, Refused> {
    if !record.data().parked.is_empty() {
        parked::visit(world, record, Visitor::Holder, LOOKS);
    }
    // SAFETY: the caller holds the record.
    let make = || unsafe { store.make_shard(record.data().seat(), identity(record)) };
    let shard = make().or_else(|refused| {
        // Empty groups of exited threads can hold the bytes that the shard needs.
        scavenge(world, store, true);
        look_at_all(world, Some(record), refused);
        let mut shard = make();
        // Free one group at a time, because unbound groups can be reserved capacity.
        while shard.is_err() && store.release_one_unbound() {
            shard = make();
        }
        shard
    })?;
    // SAFETY: the caller holds the record (O1).
    let owner = unsafe { ShardOwner::new(store, shard) };
    if let Some(slot) = owner.serve() {
        return Ok(slot);
    }
    // Make empty groups of exited threads available before the global allocator is asked.
    scavenge(world, store, false);
    owner.serve_or_grow().or_else(|refused| {
        scavenge(world, store, true);
        look_at_all(world, Some(record), refused);
        owner.serve_patiently().map_or_else(|| owner.serve_or_grow(), Ok)
    })
}

/// Looks at all parked shards, unless a limit caused the refusal `refused`. A limit counts only the
/// memory of its own arena, so freeing parked memory would not help. `mine` is the record that this
/// thread holds, or `None`.
fn look_at_all(world: &ArenaWorld, mine: Option<&Record<ArenaRecord>>, refused: Refused) {
    if !refused.by_limit() {
        parked::look_at_all(world, mine);
    }
}

/// Frees memory after `refused`, the refusal of a page's counts. Frees the empty groups of the
/// shards that [`shrink`] trims, and parked groups unless a limit refused the counts. Then reserves
/// the bytes of the counts with [`trim::reserve_counts`]. Returns `None` if the limit still does
/// not allow these bytes.
///
/// # Safety
/// If `record` is `Some`, the caller holds that record.
pub(crate) unsafe fn make_room_for_counts<'s>(
    world: &ArenaWorld,
    store: &'s ArenaStore,
    record: Option<&Record<ArenaRecord>>,
    refused: Refused,
) -> Option<ReservedBytes<'s>> {
    // SAFETY: the caller holds the record, if there is one.
    unsafe { trim_shards(world, store, record) };
    look_at_all(world, record, refused);
    trim::reserve_counts(store, refused)
}

/// Unbinds the empty groups of each shard whose record no thread holds, so that any shard can bind
/// them. Unless `thorough` is set, stops at a trim that finds the store's gate shut, and skips
/// shards that probably have few empty groups.
///
/// Skips a shard under two conditions. The shard's record has had no new holder since `scavenge`
/// last trimmed the shard. Since then, booking has left few pages without a slot in use: fewer than
/// an eighth of the number of largest groups that the shard's pages would fill. Each of these pages
/// counts as an emptied group, because it may be the last page of a group that had a slot in use.
fn scavenge(world: &ArenaWorld, store: &ArenaStore, thorough: bool) {
    let pages_per_group = store.geometry.pages.max(1);
    for shard in store.shards() {
        let done = with_lease(world, shard, |record| {
            // SAFETY: this thread has the lease (O1).
            let owner = unsafe { ShardOwner::new(store, shard) };
            owner.book_inbox();
            let (quiet, entered) = (shard.quiet(), record.data().entered.get());
            let seen = quiet.entered.get() == entered;
            let enough = shard.pages().get().max(1).div_ceil(8 * pages_per_group);
            if !thorough && seen && quiet.booked.get() < enough {
                return true;
            }
            // If the gate stays shut, the shard does not count as trimmed.
            let trimmed = owner.trim(Fate::Unbind).is_some();
            if trimmed {
                quiet.entered.set(entered);
                quiet.booked.set(0);
            }
            trimmed
        });
        if !thorough && done == Some(false) {
            return;
        }
    }
}

/// Leases the record of `shard`, calls `visit` with the record, and returns the result. Returns
/// `None` without calling `visit` if this or another thread holds the record.
fn with_lease<R>(
    world: &ArenaWorld,
    shard: ShardPtr,
    visit: impl FnOnce(&Record<ArenaRecord>) -> R,
) -> Option<R> {
    let record = record_of(shard);
    if weakened!("arena_trim_without_lease") {
        return Some(visit(record));
    }
    let lease = record.try_lease()?;
    let result = visit(record);
    drop(lease);
    parked::visit_if_unheld(world, record, LOOKS);
    Some(result)
}

/// Frees the empty groups of the caller's shard and of shards whose record no thread holds. Also
/// frees the groups that no shard has, and asks the other threads to trim in their next slow path.
/// Returns whether it freed a group.
///
/// # Safety
/// If `record` is `Some`, the caller holds that record.
pub(crate) unsafe fn shrink(
    world: &ArenaWorld,
    store: &ArenaStore,
    record: Option<&Record<ArenaRecord>>,
) -> bool {
    // A trim that fulfils this request also books the remote frees before it.
    store.epoch.raise();
    // SAFETY: the caller holds the record, if there is one.
    let count = unsafe { trim_shards(world, store, record) };
    count + store.release_unbound() != 0
}

/// Frees the empty groups of the caller's shard and of shards whose record no thread holds. Returns
/// the number of freed groups.
///
/// # Safety
/// If `record` is `Some`, the caller holds that record.
unsafe fn trim_shards(world: &ArenaWorld, store: &ArenaStore, record: Option<&Record<ArenaRecord>>) -> usize {
    let trim = |shard| {
        // SAFETY: `shard` belongs to `record`, which the caller holds, or to a record whose lease
        // this thread has by `with_lease` (O1).
        let owner = unsafe { ShardOwner::new(store, shard) };
        owner.trim(Fate::Release).unwrap_or(0)
    };
    let mut count = record.and_then(|record| store.shard(record.data().seat())).map_or(0, trim);
    for shard in store.shards() {
        count += with_lease(world, shard, |_| trim(shard)).unwrap_or(0);
    }
    count
}

/// Frees the slot with the bit `bit` in the page with the far part `far`. The page must belong to a
/// record that this thread does not hold, or the arena must be dropped.
///
/// Returns `Some(true)` if this call counted the last slot of the group. The caller must then call
/// [`parked::last_slot_counted`]. Returns `Some(false)` if this call counted another slot, and
/// shards wait for a look.
///
/// # Safety
/// The caller owns the slot, which was claimed from that page, and does not use it again. The page
/// is in `group`, which belongs to an arena of `world`.
#[inline]
pub(crate) unsafe fn free_remote(
    world: &ArenaWorld,
    group: PageGroupPtr,
    far: NonNull<Far>,
    bit: u64,
) -> Option<bool> {
    if group.record().observe().is_null() {
        let last = group.count_down(1);
        return (last || world.waits()).then_some(last);
    }
    // SAFETY: the caller owns the slot, so its page is live and its bit is not set in the foreign
    // word. If the call returns a word, `push_or_count` uses it below. If the call returns `None`,
    // nothing below touches the group or the store (E2, F4).
    if let Some(old) = unsafe { Inbox::give_back_until_closed(far, bit) } {
        // SAFETY: this free set `bit` in the word of `far`, which is in `group`, and found `old`
        // there.
        unsafe { push_or_count(group, far, bit, old, world) };
    }
    None
}

/// Finishes a remote free that found its page's word zero or closed: pushes the page, or counts
/// slots if the inbox is closed. The arguments are in the order in which [`free_remote`] has them
/// in registers.
///
/// # Safety
/// The page with the far part `far` is in `group`, which belongs to an arena of `world`. This
/// thread set `bit` in the foreign word of `far`, and found `old` there.
#[cold]
#[inline(never)]
unsafe fn push_or_count(group: PageGroupPtr, far: NonNull<Far>, bit: u64, old: u64, world: &ArenaWorld) {
    // SAFETY: the freed slot was claimed, so the group is bound. The slot is not booked or counted
    // yet, so the group is live.
    let shard = unsafe { ShardPtr::of(group) };
    // SAFETY: this thread set `bit` in the word of `far` and found `old` there. The inbox belongs
    // to the page's shard.
    let slots = unsafe { shard.inbox().push_or_count(far, bit, old) }.count_ones() as usize;
    if slots != 0 && group.count_down(slots) {
        // SAFETY: this thread counted the last slot of the group, and does not touch the group
        // again.
        unsafe { parked::last_slot_counted(world, group) };
    }
}

/// Drops the arena of `store`. Groups with live slots stay at least until their last slot is freed.
/// `mine` is the record that the caller holds, or `None`.
///
/// # Safety
/// The caller drops the arena: no thread uses it except through handles to its slots. If `mine` is
/// `Some`, the caller holds that record.
pub(crate) unsafe fn close(
    world: &ArenaWorld,
    store: NonNull<ArenaStore>,
    mine: Option<&Record<ArenaRecord>>,
) {
    #[cfg(test)]
    world.tally.stores.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
    // SAFETY: the store lives until `close_store` takes the closing thread's part off.
    let this = unsafe { store.as_ref() };
    let mut left = 0;
    for shard in this.shards() {
        // SAFETY: this thread drops the arena and closes each shard once. It is the shard's owner
        // or has the lease of its record.
        let close = || unsafe { close::close_shard(this, shard, false) };
        let closed = if mine.is_some_and(|mine| identity(mine) == shard.record()) {
            Some(close())
        } else {
            with_lease(world, shard, |_| close())
        };
        // SAFETY: this thread drops the arena, and parks or closes each shard once.
        left += closed.unwrap_or_else(|| unsafe { parked::park(world, store, shard) });
    }
    // SAFETY: all shards were closed, and `left` parts of the store remain after that. This thread
    // does not use the store again.
    world.freed(unsafe { close::close_store(store, left) });
    parked::look(world, mine);
}

#[cfg(all(test, not(ephemera_loom)))]
mod tests;
