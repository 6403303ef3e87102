//! What the arenas of all threads share, and what a thread and a free do there.
//!
//! Takes its world and its record by reference, so that models can make their own.

use core::ptr::{self, NonNull};

use ephemera_prim::park::{Effort, Lot, Park};
use ephemera_prim::record::{Record, Registry};
use ephemera_prim::sync::{AtomicPtr, Ordering};
use ephemera_prim::word::OwnerUsize;

use crate::close;
use crate::error::Refused;
use crate::group::{Far, GroupPtr};
use crate::owner::Owner;
use crate::shard::ShardPtr;
use crate::store::{Seat, Store};
use crate::trim::{Fate, Which};

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
    pub(crate) lot: Lot<Store>,
}

impl World {
    ephemera_prim::const_unless_loom! {
        pub(crate) fn new(registry: Registry<Place>) -> Self {
            Self { registry, lot: Lot::new() }
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
    let shard = make().or_else(|_| {
        // What ended threads left is in the way of a shard as of anything else.
        scavenge(store, true);
        store.release_unbound();
        world.lot.sweep(Effort::Full);
        make()
    })?;
    // SAFETY: O1: the caller holds the record.
    let owner = unsafe { Owner::new(store, shard) };
    if let Some(slot) = owner.serve() {
        return Ok(slot);
    }
    // What ended threads left, before the heap is asked.
    scavenge(store, false);
    owner.serve_or_grow().or_else(|_| {
        scavenge(store, true);
        world.lot.sweep(Effort::Full);
        owner.serve_or_grow()
    })
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
            owner.trim(Which::Empty, Fate::Unbind);
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
    let trim = |shard| {
        // SAFETY: O1: the caller holds the record, or this thread has its lease.
        let owner = unsafe { Owner::new(store, shard) };
        owner.trim(Which::Empty, Fate::Release)
    };
    let mut count = record.and_then(|record| store.shard(record.shard().seat())).map_or(0, trim);
    for shard in store.shards() {
        count += with_lease(shard, |_| trim(shard)).unwrap_or(0);
    }
    count += store.release_unbound();
    count != 0
}

/// Gives back a slot of a page that the caller is not the owner of, or whose arena was dropped: the slot with this bit.
///
/// # Safety
/// The slot was claimed from the page with this far part in `group`, which is of an arena of this world, and the caller gives it up.
pub(crate) unsafe fn give_back(world: &World, group: GroupPtr, far: NonNull<Far>, bit: u64) {
    // What comes after the slot was given back touches neither the group nor the store (P4, F4): it is read before.
    let closed = group.record().follow().is_null();
    let last = closed && {
        // SAFETY: the store lives: a slot of it is out. A reference to the word alone.
        let outstanding = unsafe { &(*group.store()).outstanding };
        outstanding.fetch_sub(1, Ordering::Relaxed) == 1
    };
    // SAFETY: a slot of the group is out, so it is bound.
    let shard = unsafe { group.shard_of() };
    // SAFETY: the slot's bit is not set in its page's words, and the caller gives it up; the page's inbox is its shard's.
    unsafe { shard.inbox().give_back_bits(far, bit) };
    if closed {
        world.lot.sweep(if last { Effort::Full } else { Effort::Passing });
    }
}

/// Drops the arena of a store: frees all of it if no slot is out, else parks it.
///
/// # Safety
/// The caller drops the arena: nobody else uses it, apart from handles to its slots.
pub(crate) unsafe fn close(world: &World, store: NonNull<Store>) {
    // SAFETY: this thread drops the arena, and has not parked it.
    let Some(out) = (unsafe { close::gather(store) }) else {
        world.lot.sweep(Effort::Passing);
        return;
    };
    // SAFETY: slots are out and it is not parked yet, so the store lives; the arena is being dropped.
    unsafe { close::disown(store, out) };
    // SAFETY: alive, closed, and the lot's from here.
    unsafe { world.lot.park(store) };
    world.lot.sweep(Effort::Full);
}

// SAFETY: the address of one field; `sweep` says whether it freed the store, which is untyped memory and fit for any thread.
unsafe impl Park for Store {
    unsafe fn link(pool: NonNull<Self>) -> NonNull<AtomicPtr<Self>> {
        // SAFETY: the caller's pool is alive; no reference is made.
        let field = unsafe { &raw mut (*pool.as_ptr()).link };
        // SAFETY: a field of what a non-null pointer points at.
        unsafe { NonNull::new_unchecked(field) }
    }

    unsafe fn sweep(pool: NonNull<Self>) -> bool {
        // SAFETY: the caller is behind the gate of the lot.
        unsafe { close::gather(pool) }.is_none()
    }
}
