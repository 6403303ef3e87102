//! The end of an arena: its groups learn of it, and each counts the slots that are out.
//!
//! From here on nobody claims. A group's `record` becomes null, and the inbox of its shard is closed. Frees that find either count
//! their slots down. The thread that counts the last slot of a group frees the group, and with the last group the store.
//!
//! `out` begins with [`ALIVE`], and the closing thread takes off all but the slots that are out. So it does not matter which frees
//! count before it does, on other threads or within this function: a heap that drops a handle while it takes a group back.

use core::ptr::{self, NonNull};

use crate::geometry::Geometry;
use crate::group::{ALIVE, Group, GroupPtr};
use crate::shard::ShardPtr;
use crate::store::Store;

/// Closes a shard: frees its groups of which no slot is out, has the others counted, and returns how many these are.
///
/// With `queue`, these others are queued for looks, and stay until the caller lets the shard's turn go. Else each may be gone at once.
///
/// # Safety
/// The store's arena is being dropped by the caller, once for each shard. Unless `queue` is set, nobody is in the midst of a local free
/// to this shard, nor will be: the caller is its owner, or has the lease of its record.
pub(crate) unsafe fn close_shard(store: &Store, shard: ShardPtr, queue: bool) -> usize {
    let geometry = store.geometry();
    if !store.single() {
        // SAFETY: the caller's.
        unsafe { close_inbox(geometry, shard) };
    }
    // Before anything is counted: a free that finds the arena alive afterwards sets a bit that nobody counts.
    let mut before: *mut Group = ptr::null_mut();
    each_group(shard.groups().get(), |group| {
        group.prev().set(before);
        group.queued().set(usize::from(queue));
        if !cfg!(ephemera_weaken = "arena_told_after_the_count") {
            group.record().publish(ptr::null_mut());
        }
        before = group.as_ptr();
    });
    let mut left = 0;
    let first = shard.groups().get();
    if !queue {
        shard.groups().set(ptr::null_mut());
    }
    each_group(first, |group| {
        // SAFETY: the caller has the turn at this shard.
        unsafe { note_home(geometry, shard, group) };
        if !settle(store, group, ALIVE - slots_out(geometry, group)) {
            left += 1;
            return;
        }
        if queue {
            unlink(shard, group);
        }
        // SAFETY: no slot is out, and the group is on no list: this thread counted the last one.
        unsafe { group.release(store) };
    });
    if cfg!(ephemera_weaken = "arena_told_after_the_count") {
        each_group(first, |group| group.record().publish(ptr::null_mut()));
    }
    left
}

/// Takes the closing thread's share off a group's count, and returns whether no slot is out.
fn settle(store: &Store, group: GroupPtr, share: usize) -> bool {
    #[cfg(all(feature = "std", target_has_atomic = "64"))]
    if !store.single() {
        return group.count_down(share);
    }
    let _ = store;
    group.count_down_alone(share)
}

/// Calls `visit` for each group of a list, which may free it.
fn each_group(mut rest: *mut Group, mut visit: impl FnMut(GroupPtr)) {
    // SAFETY: G1: a group on the list lives until it was visited: it counts `ALIVE`.
    while let Some(group) = unsafe { GroupPtr::from_raw(rest) } {
        rest = group.next().get();
        visit(group);
    }
}

/// Notes what other threads gave back to a shard, and has them count from here.
///
/// # Safety
/// As [`close_shard`].
#[cfg(target_has_atomic = "64")]
unsafe fn close_inbox(geometry: &Geometry, shard: ShardPtr) {
    // SAFETY: the caller drops the arena: no holder takes from its inboxes, and each is closed once.
    for (far, slots) in unsafe { shard.inbox().close() } {
        // SAFETY: G1: what was in the inbox is not counted, so its group is not freed.
        let group = unsafe { GroupPtr::around(far, geometry.group) };
        let noted = group.noted(geometry, group.page_of_far(geometry, far));
        noted.set(noted.get() | slots);
    }
}

/// # Safety
/// None: without 64-bit atomics there are no other threads.
#[cfg(not(target_has_atomic = "64"))]
unsafe fn close_inbox(_: &Geometry, _: ShardPtr) {}

/// Notes the slots of a group that its owner took back since the last look, and returns how many.
///
/// # Safety
/// The arena was or is being dropped; the caller has the turn at the group's shard, or alone goes through it.
pub(crate) unsafe fn note_home(geometry: &Geometry, shard: ShardPtr, group: GroupPtr) -> usize {
    let note_page = |page| {
        let local = group.near(geometry, page);
        let home = local.local().observe() | shard.front_slots(geometry, group, page);
        let noted = group.noted(geometry, page);
        let new = home & geometry.all() & !noted.get();
        if cfg!(ephemera_weaken = "arena_note_into_local") {
            local.local().publish(local.local().observe() | new);
        }
        noted.set(noted.get() | new);
        new.count_ones() as usize
    };
    (0..group.pages()).map(note_page).sum()
}

/// Slots of a group that are not noted as home.
fn slots_out(geometry: &Geometry, group: GroupPtr) -> usize {
    let out = |page| (geometry.all() & !group.noted(geometry, page).get()).count_ones() as usize;
    (0..group.pages()).map(out).sum()
}

/// Takes a queued group off the list of its shard. The caller has the turn there.
pub(crate) fn unlink(shard: ShardPtr, group: GroupPtr) {
    let (prev, next) = (group.prev().get(), group.next().get());
    // SAFETY: G1: queued groups are freed by the holder of the turn alone.
    match unsafe { GroupPtr::from_raw(prev) } {
        Some(prev) => prev.next().set(next),
        None => shard.groups().set(next),
    }
    // SAFETY: as above.
    if let Some(next) = unsafe { GroupPtr::from_raw(next) } {
        next.prev().set(prev);
    }
    #[cfg(all(feature = "std", target_has_atomic = "64"))]
    if shard.cursor().get() == group.as_ptr() {
        shard.cursor().set(next);
    }
}

/// Ends the part of the closing thread, and returns whether the store was freed.
///
/// # Safety
/// All shards were closed; `left` is the sum of what is left of them. The store is not used by the caller any more.
pub(crate) unsafe fn close_store(store: NonNull<Store>, left: usize) -> bool {
    // SAFETY: alive, as this thread's part is left.
    unsafe { store.as_ref() }.release_unbound_at_end();
    // SAFETY: this is the closing thread's part.
    unsafe { Store::part(store, ALIVE - left) }
}

/// Frees a group of a dropped arena that is not queued, and returns whether it took its store with it.
///
/// # Safety
/// The caller counted the last slot of the group.
#[cold]
#[inline(never)]
pub(crate) unsafe fn release(group: GroupPtr) -> bool {
    // SAFETY: groups point at their store, which lives as long as they.
    let store = unsafe { NonNull::new_unchecked(group.store()) };
    // SAFETY: the store lives, as this group is a part of it.
    let this = unsafe { store.as_ref() };
    // SAFETY: this thread counted the last slot, and no list has the group.
    unsafe { group.release(this) };
    // SAFETY: the group that was just freed.
    unsafe { Store::part(store, 1) }
}
