//! The end of a store: its arena was dropped, and its last slots come home.
//!
//! From here on nobody claims. Each group that has slots out counts them; frees that find the arena dropped count down, and whoever
//! counts the last slot frees the group, and with the last group the store.
//!
//! What frees that were in the midst of it when the arena was dropped do not count is found in the words of the pages, whose bits are
//! only ever set: by whoever has the store for himself, since he drops the arena, or has the turn of `parked` (P1). He notes
//! them beside the owners' words (P2).

use core::ptr::{self, NonNull};

use ephemera_prim::sync::Ordering;

use crate::geometry::Geometry;
use crate::group::{Group, GroupPtr};
use crate::shard::ShardPtr;
use crate::store::Store;

/// Frees the groups of which no slot is out, and counts those of the others. `false` if none is left, and the store was freed.
///
/// # Safety
/// The store is alive and its arena is being dropped by the caller.
pub(crate) unsafe fn gather(store: NonNull<Store>) -> bool {
    // SAFETY: alive, by the caller; the reference is not used after `dissolve`.
    let this = unsafe { store.as_ref() };
    let mut left = 0;
    for shard in this.shards() {
        // SAFETY: this thread alone goes through the store.
        unsafe { take_inbox(this, shard, |_, _| ()) };
        left += free_home(this, shard);
    }
    this.release_unbound_at_end();
    this.left.set(left);
    if left == 0 {
        // SAFETY: no shard has a group any more. Their slots came home with the last touch of those who had them (E2, F4).
        unsafe { Store::dissolve(store) };
    }
    left != 0
}

/// Notes what other threads gave back to a shard, and calls `came` with each group and how many slots of it.
///
/// # Safety
/// The store's arena is dropped or being dropped, and the caller is the only one to go through the store.
#[cfg(target_has_atomic = "64")]
pub(crate) unsafe fn take_inbox(store: &Store, shard: ShardPtr, mut came: impl FnMut(GroupPtr, usize)) {
    let geometry = store.geometry();
    // SAFETY: the caller's; no holder drains the inboxes of an arena that was dropped (P1).
    for (far, slots) in unsafe { shard.inbox().take() } {
        // SAFETY: G1: what was in the inbox is not noted, so its group is not freed.
        let group = unsafe { GroupPtr::around(far, geometry.group) };
        let page = group.page_of_far(geometry, far);
        if cfg!(ephemera_weaken = "arena_gather_into_local") {
            let near = group.near(geometry, page);
            near.local().publish(near.local().observe() | slots);
            continue;
        }
        let noted = group.noted(geometry, page);
        noted.set(noted.get() | slots);
        came(group, slots.count_ones() as usize);
    }
}

/// # Safety
/// None: without 64-bit atomics there are no other threads.
#[cfg(not(target_has_atomic = "64"))]
pub(crate) unsafe fn take_inbox(_: &Store, _: ShardPtr, _: impl FnMut(GroupPtr, usize)) {}

/// Notes the slots of a group that its owner took back since somebody last looked, and returns how many.
///
/// # Safety
/// As [`take_inbox`]; the group is of this shard.
pub(crate) unsafe fn note_home(geometry: &Geometry, shard: ShardPtr, group: GroupPtr) -> usize {
    let note_page = |page| {
        let home = group.near(geometry, page).local().observe() | shard.front_slots(geometry, group, page);
        let noted = group.noted(geometry, page);
        let new = home & geometry.all() & !noted.get();
        noted.set(noted.get() | new);
        new.count_ones() as usize
    };
    (0..group.pages()).map(note_page).sum()
}

/// Frees the groups of a shard that are wholly home, counts the slots out of the others, and returns how many these are.
fn free_home(store: &Store, shard: ShardPtr) -> usize {
    let geometry = store.geometry();
    let mut left = 0;
    let mut before: Option<GroupPtr> = None;
    let mut rest: *mut Group = shard.groups().get();
    // SAFETY: G1: groups on the list are alive.
    while let Some(group) = unsafe { GroupPtr::from_raw(rest) } {
        rest = group.next().get();
        // SAFETY: the caller of `gather` has the store for himself.
        unsafe { note_home(geometry, shard, group) };
        let out = slots_out(geometry, group);
        if out != 0 {
            group.out().store(out, Ordering::Relaxed);
            left += 1;
            before = Some(group);
            continue;
        }
        match before {
            Some(before) => before.next().set(rest),
            None => shard.groups().set(rest),
        }
        // SAFETY: wholly home and off the list: each slot's last user has touched the group for the last time, and each word was
        // observed after that.
        unsafe { group.release(store) };
    }
    left
}

/// Slots of a group that are not noted as home.
fn slots_out(geometry: &Geometry, group: GroupPtr) -> usize {
    let out = |page| (geometry.all() & !group.noted(geometry, page).get()).count_ones() as usize;
    (0..group.pages()).map(out).sum()
}

/// Tells the handles that are out that the arena is gone: none of their groups is anybody's from here, and frees count. Each group
/// gets a count of `more` beyond its slots.
///
/// # Safety
/// The store is alive, was gathered, and its arena is being dropped by the caller. Unless one thread has all of it, `more` is not zero:
/// no group may go before this is done.
pub(crate) unsafe fn disown(store: NonNull<Store>, more: usize) {
    // SAFETY: alive, by the caller.
    let store = unsafe { store.as_ref() };
    store.walk(|_, group| {
        let out = group.out().load(Ordering::Relaxed);
        group.out().store(out + more, Ordering::Relaxed);
        group.record().publish(ptr::null_mut());
    });
}

/// A slot of a pool that was dropped comes home. With the last one of a group this is freed, and with the last group the store.
///
/// # Safety
/// `group` is of a pool that was dropped, the caller is its one thread and gives up a slot of it.
#[cold]
#[inline(never)]
pub(crate) unsafe fn count_down(group: GroupPtr) {
    let out = group.out().load(Ordering::Relaxed) - 1;
    group.out().store(out, Ordering::Relaxed);
    if out == 0 {
        // SAFETY: that was the last slot, and nobody else has a pointer to the group: the pool that had it on a list is gone.
        unsafe { release(group) };
    }
}

/// Frees a group of a dropped arena, and with the last one its store. Whether it was the last one.
///
/// # Safety
/// All its slots are home, nobody else has a pointer to it, and nobody else does this with a group of the same store at the same time.
pub(crate) unsafe fn release(group: GroupPtr) -> bool {
    // SAFETY: groups point at their store.
    let store = unsafe { NonNull::new_unchecked(group.store()) };
    // SAFETY: alive: it has a group. Not used after `dissolve`.
    let this = unsafe { store.as_ref() };
    // SAFETY: the caller's; lists of the store are not gone through any more.
    unsafe { group.release(this) };
    let last = this.left.sub(1) == 0;
    if last {
        // SAFETY: no group is left.
        unsafe { Store::dissolve(store) };
    }
    last
}
