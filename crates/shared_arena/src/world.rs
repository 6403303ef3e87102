//! What the arenas of all threads share, and what a thread and a free do there.
//!
//! Takes its world and its record by reference, so that models can make their own.

use core::ptr::{self, NonNull};

use ephemera_prim::record::{Record, Registry};
use ephemera_prim::word::OwnerUsize;

use crate::close;
use crate::error::Refused;
use crate::group::{Far, GroupPtr};
use crate::owner::Owner;
use crate::parked::{LOOKS, Parked};
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
}

impl Place {
    ephemera_prim::const_unless_loom! {
        /// A record that nobody entered yet sits nowhere.
        pub(crate) fn new() -> Self {
            Self { segment: OwnerUsize::new(0), at: OwnerUsize::new(0), entered: OwnerUsize::new(0) }
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
    // SAFETY: the caller holds the record.
    let make = || unsafe { store.make_shard(record.shard().seat(), identity(record)) };
    let shard = make().or_else(|refused| {
        // What ended threads left is in the way of a shard as of anything else.
        scavenge(store, true);
        store.release_unbound();
        look_all(world, refused);
        make()
    })?;
    // SAFETY: O1: the caller holds the record.
    let owner = unsafe { Owner::new(store, shard) };
    if let Some(slot) = owner.serve() {
        return Ok(slot);
    }
    // What ended threads left, before the heap is asked.
    scavenge(store, false);
    owner.serve_or_grow().or_else(|refused| {
        scavenge(store, true);
        look_all(world, refused);
        owner.serve_patiently().map_or_else(|| owner.serve_or_grow(), Ok)
    })
}

/// Looks through all arenas that were dropped, where it was the heap that refused: none of them counts for another's limit.
fn look_all(world: &World, refused: Refused) {
    if !refused.by_limit() {
        world.parked.look(usize::MAX);
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
    unsafe { give_back_empty(store, record) };
    look_all(world, refused);
}

/// Goes through shards whose record no thread holds and frees their empty groups for any shard to take.
/// In passing it leaves out those in which hardly anything can have changed since the last time.
fn scavenge(store: &Store, thorough: bool) {
    for shard in store.shards() {
        with_lease(shard, |record| {
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
fn with_lease<R>(shard: ShardPtr, visit: impl FnOnce(&Record<Place>) -> R) -> Option<R> {
    let record = shard.record().cast::<Record<Place>>();
    // SAFETY: shards of an arena carry the address of their record, and records are never freed (L3).
    let record = unsafe { &*record };
    if cfg!(ephemera_weaken = "arena_trim_without_lease") {
        return Some(visit(record));
    }
    let lease = record.try_lease()?;
    let result = visit(record);
    drop(lease);
    Some(result)
}

/// Gives back what is empty: in the caller's shard, if it holds a record, in those that no thread holds, and what nobody has. Asks
/// the other threads to do the same when they next need a page. Returns whether anything was given back.
///
/// # Safety
/// The caller holds `record`, if there is one.
pub(crate) unsafe fn shrink(store: &Store, record: Option<&Record<Place>>) -> bool {
    store.epoch().raise();
    // SAFETY: the caller's.
    unsafe { give_back_empty(store, record) != 0 }
}

/// Gives back what is empty, as [`shrink`] does, and returns how many groups.
///
/// # Safety
/// The caller holds `record`, if there is one.
unsafe fn give_back_empty(store: &Store, record: Option<&Record<Place>>) -> usize {
    let trim = |shard| {
        // SAFETY: O1: the caller holds the record, or this thread has its lease.
        let owner = unsafe { Owner::new(store, shard) };
        owner.trim(Fate::Release)
    };
    let mut count = record.and_then(|record| store.shard(record.shard().seat())).map_or(0, trim);
    for shard in store.shards() {
        count += with_lease(shard, |_| trim(shard)).unwrap_or(0);
    }
    count + store.release_unbound()
}

/// Gives back a slot of a page that the caller is not the owner of, or whose arena was dropped: the slot with this bit.
///
/// # Safety
/// The slot was claimed from the page with this far part in `group`, which is of an arena of this world, and the caller gives it up.
pub(crate) unsafe fn give_back(world: &World, group: GroupPtr, far: NonNull<Far>, bit: u64) {
    if group.record().follow().is_null() {
        if group.count_down(1) {
            // SAFETY: that was the last slot of a group whose arena was dropped.
            unsafe { world.parked.came_home(group) };
        }
        return;
    }
    // SAFETY: a slot of the group is out, so it is bound.
    let shard = unsafe { group.shard_of() };
    // SAFETY: the slot's bit is not set in its page's words, and the caller gives it up; the page's inbox is its shard's. What comes
    // after touches neither the group nor the store (E2, F4).
    unsafe { shard.inbox().give_back_bits(far, bit) };
}

/// Drops the arena of a store: frees all of it if no slot is out, else parks it.
///
/// # Safety
/// The caller drops the arena: nobody else uses it, apart from handles to its slots.
pub(crate) unsafe fn close(world: &World, store: NonNull<Store>) {
    // SAFETY: this thread drops the arena.
    if unsafe { close::gather(store) } {
        // SAFETY: groups are left, so the store lives; it was gathered, and its arena is being dropped.
        unsafe { world.parked.park(store) };
    } else {
        world.parked.look(LOOKS);
    }
}
