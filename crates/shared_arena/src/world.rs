//! What the arenas of all threads share, and what a thread and a free do there.
//!
//! Takes its world and its record by reference, so that models can make their own.

use core::ptr::{self, NonNull};

use ephemera_prim::foreign::Inbox;
use ephemera_prim::record::{Record, Registry};
use ephemera_prim::word::OwnerUsize;

use crate::close;
use crate::error::Refused;
use crate::group::{Far, GroupPtr};
use crate::owner::Owner;
use crate::parked::{self, LOOKS, Parked, Parting, Visitor};
use crate::shard::ShardPtr;
use crate::store::{Seat, Store};
use crate::trim::Fate;

/// What hangs on a thread's record: where its shards are in all stores.
#[derive(Debug)]
pub(crate) struct Place {
    segment: OwnerUsize,
    at: OwnerUsize,
    /// How often the record was entered.
    entered: OwnerUsize,
    /// What dropped arenas left for the holder.
    pub(crate) parting: Parting,
}

impl Place {
    ephemera_prim::const_unless_loom! {
        /// A record that nobody entered yet sits nowhere.
        pub(crate) fn new() -> Self {
            Self {
                segment: OwnerUsize::new(0),
                at: OwnerUsize::new(0),
                entered: OwnerUsize::new(0),
                parting: Parting::new(),
            }
        }
    }

    #[inline]
    pub(crate) fn seat(&self) -> Seat {
        Seat { segment: self.segment.get(), at: self.at.get() }
    }

    /// A thread took this record. It gets a seat the first time.
    pub(crate) fn enter(&self, next: impl FnOnce() -> usize) {
        if self.seat() == Seat::NOBODYS {
            let seat = Seat::numbered(next());
            self.segment.set(seat.segment);
            self.at.set(seat.at);
        }
        self.entered.set(self.entered.get().wrapping_add(1));
    }
}

/// What all arenas share.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) registry: Registry<Place>,
    pub(crate) parked: Parked,
}

impl World {
    ephemera_prim::const_unless_loom! {
        pub(crate) fn new(registry: Registry<Place>) -> Self {
            Self { registry, parked: Parked::new() }
        }
    }
}

impl World {
    /// Counts stores that were freed, for tests. Returns how many.
    pub(crate) fn freed(&self, freed: bool) -> usize {
        #[cfg(test)]
        self.parked.tally.stores.fetch_sub(usize::from(freed), core::sync::atomic::Ordering::Relaxed);
        usize::from(freed)
    }

    /// Counts groups that were looked at, for tests.
    pub(crate) fn looked(&self) {
        #[cfg(test)]
        self.parked.tally.looks.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
    }
}

/// The identity that groups of a record carry.
#[inline]
pub(crate) fn identity(record: &Record<Place>) -> *const () {
    ptr::from_ref(record).cast()
}

/// A slot for the holder of `record`, when it has none at hand.
///
/// # Safety
/// The caller holds `record`, which is one of this world's.
pub(crate) unsafe fn claim_slow(
    world: &World,
    store: &Store,
    record: &Record<Place>,
) -> Result<NonNull<u8>, Refused> {
    if !record.shard().parting.is_empty() {
        parked::visit(world, record, Visitor::Holder, LOOKS);
    }
    // SAFETY: the caller holds the record.
    let make = || unsafe { store.make_shard(record.shard().seat(), identity(record)) };
    let shard = make().or_else(|refused| {
        // What ended threads left is in the way of a shard as of anything else.
        scavenge(world, store, true);
        store.release_unbound();
        look_at_all(world, Some(record), refused);
        make()
    })?;
    // SAFETY: O1: the caller holds the record.
    let owner = unsafe { Owner::new(store, shard) };
    if let Some(slot) = owner.serve() {
        return Ok(slot);
    }
    // What ended threads left, before the heap is asked.
    scavenge(world, store, false);
    owner.serve_or_grow().or_else(|refused| {
        scavenge(world, store, true);
        look_at_all(world, Some(record), refused);
        owner.serve_patiently().map_or_else(|| owner.serve_or_grow(), Ok)
    })
}

/// Looks at all that is parked, where it was the heap that refused: none of it counts for another arena's limit.
fn look_at_all(world: &World, mine: Option<&Record<Place>>, refused: Refused) {
    if !refused.by_limit() {
        parked::look_at_all(world, mine);
    }
}

/// Makes room after a refusal of something else than a slot: gives back what is empty, as far as this thread can reach it.
///
/// # Safety
/// The caller holds `record`, if there is one.
pub(crate) unsafe fn make_room(
    world: &World,
    store: &Store,
    record: Option<&Record<Place>>,
    refused: Refused,
) {
    // SAFETY: the caller's.
    unsafe { give_back_empty(world, store, record) };
    look_at_all(world, record, refused);
}

/// Goes through shards whose record no thread holds and frees their empty groups for any shard to take.
/// In passing it leaves out those in which hardly anything can have changed since the last time.
fn scavenge(world: &World, store: &Store, thorough: bool) {
    for shard in store.shards() {
        with_lease(world, shard, |record| {
            // SAFETY: O1: this thread has the lease.
            let owner = unsafe { Owner::new(store, shard) };
            owner.settle();
            let (quiet, entered) = (shard.quiet(), record.shard().entered.get());
            let seen = quiet.entered.get() == entered;
            if !thorough && seen && quiet.booked.get() * 8 < shard.pages().get().max(1) {
                return;
            }
            quiet.entered.set(entered);
            quiet.booked.set(0);
            owner.trim(Fate::Unbind);
        });
    }
}

/// Calls `visit` while this thread has the lease of a shard's record, if no thread holds it.
fn with_lease<R>(world: &World, shard: ShardPtr, visit: impl FnOnce(&Record<Place>) -> R) -> Option<R> {
    let record = parked::record_of(shard);
    if cfg!(ephemera_weaken = "arena_trim_without_lease") {
        return Some(visit(record));
    }
    let lease = record.try_lease()?;
    let result = visit(record);
    drop(lease);
    parked::look_behind_the_owner(world, record, LOOKS);
    Some(result)
}

/// Gives back what is empty: in the caller's shard, if it holds a record, in those that no thread holds, and what nobody has. Asks
/// the other threads to do the same when they next need a page. Returns whether anything was given back.
///
/// # Safety
/// The caller holds `record`, if there is one.
pub(crate) unsafe fn shrink(world: &World, store: &Store, record: Option<&Record<Place>>) -> bool {
    store.epoch().raise();
    // SAFETY: the caller's.
    unsafe { give_back_empty(world, store, record) != 0 }
}

/// Gives back what is empty, as [`shrink`] does, and returns how many groups.
///
/// # Safety
/// The caller holds `record`, if there is one.
unsafe fn give_back_empty(world: &World, store: &Store, record: Option<&Record<Place>>) -> usize {
    let trim = |shard| {
        // SAFETY: O1: the caller holds the record, or this thread has its lease.
        let owner = unsafe { Owner::new(store, shard) };
        owner.trim(Fate::Release)
    };
    let mut count = record.and_then(|record| store.shard(record.shard().seat())).map_or(0, trim);
    for shard in store.shards() {
        count += with_lease(world, shard, |_| trim(shard)).unwrap_or(0);
    }
    count + store.release_unbound()
}

/// Gives back a slot of a page that the caller is not the owner of, or whose arena was dropped: the slot with this bit. Afterwards the
/// caller goes on with [`gone`], if this returns something: with whether the slot was the last one of its group.
///
/// # Safety
/// The slot was claimed from the page with this far part in `group`, which is of an arena of this world, and the caller gives it up.
#[inline]
pub(crate) unsafe fn give_back(world: &World, group: GroupPtr, far: NonNull<Far>, bit: u64) -> Option<bool> {
    if group.record().follow().is_null() {
        let last = group.count_down(1);
        return (last || world.parked.waits()).then_some(last);
    }
    // SAFETY: the slot's bit is not set in its page's words, and the caller gives it up. Unless this returns something, nothing that
    // comes after touches the group or the store (E2, F4).
    if let Some(old) = unsafe { Inbox::give_back_until_closed(far, bit) } {
        // SAFETY: what the line above found.
        unsafe { push_or_count(group, far, bit, old, world) };
    }
    None
}

/// The second half of a remote free that found its page's word at zero, or the inbox closed. The arguments come in the order in which the
/// first half has them in registers.
///
/// # Safety
/// As [`Inbox::push_or_count`] says of the page and its inbox.
#[cold]
#[inline(never)]
unsafe fn push_or_count(group: GroupPtr, far: NonNull<Far>, bit: u64, old: u64, world: &World) {
    // SAFETY: a slot of the group is not booked or counted yet, so the group is bound.
    let shard = unsafe { group.shard_of() };
    // SAFETY: the caller's.
    let slots = unsafe { shard.inbox().push_or_count(far, bit, old) }.count_ones() as usize;
    if slots != 0 && group.count_down(slots) {
        // SAFETY: these were the last slots.
        unsafe { gone(world, group, true) };
    }
}

/// What follows a free that counted its slot. With `last`, it was the last one of the group.
///
/// # Safety
/// As [`parked::came_home`], with `last`.
pub(crate) unsafe fn gone(world: &World, group: GroupPtr, last: bool) {
    if last {
        // SAFETY: the caller's.
        unsafe { parked::came_home(world, group) };
    }
}

/// Drops the arena of a store. What of it has slots out goes with them.
///
/// # Safety
/// The caller drops the arena: nobody else uses it, apart from handles to its slots. It holds `mine`, if there is one.
pub(crate) unsafe fn close(world: &World, store: NonNull<Store>, mine: Option<&Record<Place>>) {
    #[cfg(test)]
    world.parked.tally.stores.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
    // SAFETY: alive until `close_store`.
    let this = unsafe { store.as_ref() };
    let mut left = 0;
    for shard in this.shards() {
        // SAFETY: this thread drops the arena, and is the shard's owner or has the lease of its record.
        let close = || unsafe { close::close_shard(this, shard, false) };
        let settled = if mine.is_some_and(|mine| identity(mine) == shard.record()) {
            Some(close())
        } else {
            with_lease(world, shard, |_| close())
        };
        // SAFETY: this thread drops the arena.
        left += settled.unwrap_or_else(|| unsafe { parked::park(world, store, shard) });
    }
    // SAFETY: all shards were closed, and what they left is in the sum.
    world.freed(unsafe { close::close_store(store, left) });
    parked::look(world, mine);
}
