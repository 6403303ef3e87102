//! Closes a dropped arena: frees its empty groups, marks the others, and sets their counts to the
//! numbers of slots still in use.
//!
//! No thread claims from a closed arena. The drop sets each group's `record` to null and, unless
//! the arena is a pool, closes the inbox of each shard. A free that finds null or a closed foreign
//! word subtracts its slot from the group's count. A free that finds the inbox closed subtracts all
//! slots in its page's foreign word. The thread that subtracts the last slot of a group usually
//! frees the group. The thread that subtracts the last share of the store frees the store.
//!
//! A group's count `out` starts at [`ALIVE`]. The closing thread later subtracts all of it but the
//! number of slots in use. Until then, the count does not reach zero, so a free may subtract its
//! slot earlier. Such a free runs on another thread, or within this module when the global
//! allocator drops a handle.

use core::ptr::{self, NonNull};

use crate::geometry::ArenaGeometry;
use crate::group::{ALIVE, PageGroup, PageGroupPtr};
use crate::rest;
use crate::shard::ShardPtr;
use crate::store::ArenaStore;

/// Closes a shard: frees each group without a slot in use, and sets the count of each other group
/// to the number of its slots in use. Returns the number of groups that it did not free.
///
/// If `queue` is set, these groups are queued for looks, and no thread frees them before the caller
/// releases the shard's turn. Otherwise, other threads can free them immediately.
///
/// # Safety
/// The caller drops the store's arena, and must call this once for each shard. Unless `queue` is
/// set, no thread performs a local free to this shard now or later: the caller is the shard's
/// owner, or has the lease of the shard's record.
pub(crate) unsafe fn close_shard(store: &ArenaStore, shard: ShardPtr, queue: bool) -> usize {
    let geometry = &store.geometry;
    rest::end(shard);
    if !store.single {
        // SAFETY: the caller drops the arena and closes each shard once.
        unsafe { close_inbox(geometry, shard) };
    }
    // All groups must be marked as dropped before any slot is counted. A free that saw the arena
    // live after the count could set a bit that no thread counts.
    let mut before: *mut PageGroup = ptr::null_mut();
    // SAFETY: the count of each group still includes `ALIVE`, so no thread frees a group (G1).
    for group in unsafe { PageGroupPtr::list(shard.groups().get()) } {
        group.prev().set(before);
        group.queued().set(usize::from(queue));
        if !weakened!("arena_told_after_the_count") {
            group.record().publish(ptr::null_mut());
        }
        before = group.as_ptr();
    }
    let mut left = 0;
    let first = shard.groups().get();
    if !queue {
        shard.groups().set(ptr::null_mut());
    }
    // SAFETY: the count of each group includes `ALIVE` until this loop takes it off (G1).
    for group in unsafe { PageGroupPtr::list(first) } {
        // SAFETY: the caller drops the arena, so it has the turn at this shard or is the pool's
        // only thread.
        unsafe { note_freed(geometry, shard, group) };
        let share = ALIVE - slots_out(geometry, group);
        let last = if store.single { group.count_down_alone(share) } else { group.count_down(share) };
        if !last {
            left += 1;
            continue;
        }
        if queue {
            unlink(shard, group);
        }
        // SAFETY: this store made the group, this thread counted its last slot, and no list has it.
        unsafe { store.release_group(group) };
    }
    if weakened!("arena_told_after_the_count") {
        // SAFETY: only a negative control runs this, and a use of a freed group may end its test.
        unsafe { PageGroupPtr::list(first) }.for_each(|group| group.record().publish(ptr::null_mut()));
    }
    left
}

/// Closes a shard's inbox, and notes the remote frees in it. Later remote frees find the inbox or
/// their page's foreign word closed, and count slots themselves.
///
/// # Safety
/// The caller drops the arena of the shard's store, and must call this once for each shard.
unsafe fn close_inbox(geometry: &ArenaGeometry, shard: ShardPtr) {
    // SAFETY: the caller drops the arena and closes each inbox once, so no thread takes from this
    // inbox now or later. Every remote free goes through `give_back_until_closed`.
    for (far, slots) in unsafe { shard.inbox().close() } {
        // SAFETY: `far` derives from its group. The slots in the inbox are not counted, so the
        // group is not freed (G1).
        let group = unsafe { PageGroupPtr::around(far, geometry.group) };
        let noted = group.noted(geometry, group.page_of_far(geometry, far));
        noted.set(noted.get() | slots);
    }
}

/// Notes the slots of a group that are free in the owner's words and not noted yet. Returns the
/// number of these slots.
///
/// # Safety
/// The arena's drop has begun. The caller has the turn at the group's shard, or is the pool's only
/// thread.
pub(crate) unsafe fn note_freed(geometry: &ArenaGeometry, shard: ShardPtr, group: PageGroupPtr) -> usize {
    let note_page = |page| {
        let local = group.near(geometry, page);
        let free = local.local().observe() | shard.front_slots(geometry, group, page);
        let noted = group.noted(geometry, page);
        let new = free & geometry.all() & !noted.get();
        if weakened!("arena_note_into_local") {
            local.local().publish(local.local().observe() | new);
        }
        noted.set(noted.get() | new);
        new.count_ones() as usize
    };
    (0..group.pages()).map(note_page).sum()
}

/// Returns the number of slots of a group that are not noted as free.
fn slots_out(geometry: &ArenaGeometry, group: PageGroupPtr) -> usize {
    let out = |page| (geometry.all() & !group.noted(geometry, page).get()).count_ones() as usize;
    (0..group.pages()).map(out).sum()
}

/// Takes a queued group off the list of its shard. The caller must have the turn at that shard.
pub(crate) fn unlink(shard: ShardPtr, group: PageGroupPtr) {
    let (prev, next) = (group.prev().get(), group.next().get());
    // SAFETY: the caller has the turn, and only the turn-holder frees queued groups (G1).
    match unsafe { PageGroupPtr::from_raw(prev) } {
        Some(prev) => prev.next().set(next),
        None => shard.groups().set(next),
    }
    // SAFETY: the caller has the turn, and only the turn-holder frees queued groups (G1).
    if let Some(next) = unsafe { PageGroupPtr::from_raw(next) } {
        next.prev().set(prev);
    }
    if shard.cursor().get() == group.as_ptr() {
        shard.cursor().set(next);
    }
}

/// Frees the groups that no shard has, and takes the closing thread's part off the store's count.
/// Returns whether that freed the store.
///
/// # Safety
/// All shards are closed, and `left` is the sum of the parts of the store that closing them left.
/// The caller does not use the store again.
pub(crate) unsafe fn close_store(store: NonNull<ArenaStore>, left: usize) -> bool {
    // SAFETY: the count of parts still includes the closing thread's own, so the store is live.
    let this = unsafe { store.as_ref() };
    // SAFETY: this store made these groups, which are empty. No thread uses the list again.
    unsafe { this.release_list(this.unbound.get()) };
    // SAFETY: this takes off the closing thread's part, and the caller does not use the store
    // again.
    unsafe { ArenaStore::take_off_parts(store, ALIVE - left) }
}

/// Frees a group that is not queued, after its arena was dropped. Returns whether that freed the
/// store too.
///
/// # Safety
/// The group's arena was dropped, the group is not queued, and the caller counted its last slot.
#[cold]
#[inline(never)]
pub(crate) unsafe fn release(group: PageGroupPtr) -> bool {
    // SAFETY: a slot of the group was claimed, so the group is bound.
    let store = ArenaStore::of(unsafe { ShardPtr::of(group) });
    // SAFETY: the store is live, because this group is a part of it.
    let this = unsafe { store.as_ref() };
    // SAFETY: this store made the group, this thread counted its last slot, and no list has it.
    unsafe { this.release_group(group) };
    // SAFETY: the group was a part of the store, and this thread has just freed it.
    unsafe { ArenaStore::take_off_parts(store, 1) }
}
