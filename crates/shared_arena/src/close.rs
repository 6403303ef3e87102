//! The end of a store: its arena was dropped, and its last slots come home.
//!
//! From here on nobody claims: bits are only ever set. Whoever goes through the store has it for itself, since the arena is being
//! dropped, or is behind the gate of the lot (P1). It gathers what waits in the inboxes beside the owners' words (P2) and frees
//! the groups that are wholly home.

use core::ptr::{self, NonNull};

use ephemera_prim::sync::Ordering;

use crate::geometry::Geometry;
use crate::group::{Group, GroupPtr};
use crate::shard::ShardPtr;
use crate::store::Store;

/// Gathers, frees what is wholly home, and with the last group the store. Returns how many slots are still out; `None` if the store
/// was freed.
///
/// # Safety
/// The store's arena is dropped or being dropped, and the caller is the only one to go through the store: the dropper before it parks, or
/// whoever is behind the gate of the lot.
pub(crate) unsafe fn gather(store: NonNull<Store>) -> Option<usize> {
    // SAFETY: alive, by the caller; the reference is not used after `dissolve`.
    let this = unsafe { store.as_ref() };
    let mut out = 0;
    for shard in this.shards() {
        gather_inbox(this, shard);
        out += free_home(this, shard);
    }
    this.release_unbound_at_end();
    if out == 0 {
        // SAFETY: no shard has a group any more. Their slots came home with the last touch of those who had them (P4, F4).
        unsafe { Store::dissolve(store) };
        return None;
    }
    Some(out)
}

/// Takes what other threads gave back to a shard.
#[cfg(target_has_atomic = "64")]
fn gather_inbox(store: &Store, shard: ShardPtr) {
    let geometry = store.geometry();
    // SAFETY: this thread alone goes through the store, and no holder drains the inboxes of an arena that was dropped (P1).
    for (far, slots) in unsafe { shard.inbox().take() } {
        // SAFETY: G1: what was in the inbox was not gathered, so its group is not freed.
        let group = unsafe { GroupPtr::around(far, geometry.group) };
        let page = group.page_of_far(geometry, far);
        if cfg!(ephemera_weaken = "arena_gather_into_local") {
            let near = group.near(geometry, page);
            near.local().publish(near.local().observe() | slots);
            continue;
        }
        let gathered = group.gathered(geometry, page);
        gathered.set(gathered.get() | slots);
    }
}

#[cfg(not(target_has_atomic = "64"))]
fn gather_inbox(_: &Store, _: ShardPtr) {}

/// Frees the groups of a shard that are wholly home, and returns how many slots of the others are out.
fn free_home(store: &Store, shard: ShardPtr) -> usize {
    let mut out = 0;
    let mut before: Option<GroupPtr> = None;
    let mut rest: *mut Group = shard.groups().get();
    // SAFETY: G1: groups on the list are alive.
    while let Some(group) = unsafe { GroupPtr::from_raw(rest) } {
        rest = group.next().get();
        let slots_out = slots_out(store.geometry(), shard, group);
        if slots_out != 0 {
            out += slots_out;
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
    out
}

/// Slots of a group that somebody still has.
fn slots_out(geometry: &Geometry, shard: ShardPtr, group: GroupPtr) -> usize {
    let out = |page| {
        let local = group.near(geometry, page).local().observe();
        let home = local | group.gathered(geometry, page).get() | shard.front_slots(geometry, group, page);
        (geometry.all() & !home).count_ones() as usize
    };
    (0..group.pages()).map(out).sum()
}

/// Tells the handles that are out that the arena is gone: none of their groups is anybody's from here.
///
/// # Safety
/// The store is alive, its arena is being dropped by the caller, and `out` slots are out.
pub(crate) unsafe fn disown(store: NonNull<Store>, out: usize) {
    // SAFETY: alive, by the caller.
    let store = unsafe { store.as_ref() };
    store.outstanding.store(out, Ordering::Relaxed);
    store.walk(|_, group| group.record().publish(ptr::null_mut()));
}

/// A slot of a pool that was dropped comes home. With the last one all of it is freed.
///
/// # Safety
/// `group` is of a pool that was dropped, the caller is its one thread and gives up a slot of it.
#[cold]
#[inline(never)]
pub(crate) unsafe fn count_down(group: GroupPtr) {
    let store = group.store();
    // SAFETY: the store lives: a slot of it is out. A reference to the word alone.
    let outstanding = unsafe { &(*store).outstanding };
    let left = outstanding.load(Ordering::Relaxed) - 1;
    outstanding.store(left, Ordering::Relaxed);
    if left != 0 {
        return;
    }
    // SAFETY: groups point at their store.
    let store = unsafe { NonNull::new_unchecked(store) };
    // SAFETY: alive; not used after `dissolve`.
    let this = unsafe { store.as_ref() };
    for shard in this.shards() {
        // SAFETY: that was the last slot, and nobody else has a pointer to them.
        unsafe { this.release_list(shard.groups().get()) };
    }
    // SAFETY: no group is left.
    unsafe { Store::dissolve(store) };
}
