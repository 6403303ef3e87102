//! Loom models of the protocol between threads. Except in `unused`, each model runs the real heaps,
//! units and records, with its own family and registry.
//!
//! Each of these models ends with a check that all memory is freed. A lost unit leaves bytes on the
//! account. A unit that is freed twice, or used after it was freed, trips its witness. Loom does
//! not see accesses to raw memory, so a model gives each slot a witness, which the owner of the
//! slot writes. `xtask/controls.toml` lists the orderings that each model needs.

use core::alloc::Layout;
use core::ptr::NonNull;
use std::sync::Mutex;
use std_alloc::collections::BTreeMap;
use std_alloc::sync::Arc;

use ephemera_prim::account::Account;
use ephemera_prim::record::{Lease, Record, Registry};
use loom::cell::UnsafeCell;
use loom::thread;

use super::ledger::Ledger;
use super::owner::HeapOwner;
use super::state::{Family, PoolRecord, ThreadHeap};
use super::table::Heaps;
use super::{lease_end, remote, statistics, visit};
use crate::geometry::unit_of;
use crate::heap;
use crate::local_frees::Reach;

/// The layout of a slot. Groups have two slots; units do too, unless a model sets another number.
const SLOT: Layout = Layout::new::<[u64; 512]>();

mod bundles;
mod exits;
mod groups;
mod purge;
mod scopes;
mod unused;

#[derive(Clone)]
struct Model(Arc<PoolWorld>);

/// The state of one run of a model. Tables outlive this state, because they are never freed.
struct PoolWorld {
    registry: Registry<PoolRecord>,
    family: Family,
    ledger: Ledger,
    slots: Mutex<BTreeMap<usize, Arc<UnsafeCell<u32>>>>,
}

/// A slot, or the address of a record, that is passed to another thread.
struct Sent(NonNull<u8>);

// SAFETY: a `Sent` has exclusive access to its slot, or names a record, which is `Sync`.
unsafe impl Send for Sent {}

// SAFETY: loom runs all threads of a model on one OS thread, and reports unordered accesses.
unsafe impl Send for PoolWorld {}
// SAFETY: loom runs all threads of a model on one OS thread, and reports unordered accesses.
unsafe impl Sync for PoolWorld {}

/// A thread of a model, with its record and its heaps.
struct Thread<'w> {
    record: &'w Record<PoolRecord>,
    heaps: Heaps<'w>,
    model: &'w Model,
}

impl<'w> Thread<'w> {
    fn start(model: &'w Model) -> Self {
        let lease = model.0.registry.lease_any().expect("memory");
        // SAFETY: this thread holds the record; record and family outlive the thread.
        let heaps = unsafe { Heaps::find_or_make(lease.record(), &model.0.family) }.expect("memory");
        Self { record: lease.bind(), heaps, model }
    }

    fn allocate(&self) -> Sent {
        // SAFETY: this thread holds the record; a family of one type has one heap.
        let slot = unsafe { visit::refill(self.heaps, 0, SLOT.size()) }.expect("memory");
        self.model.touch(slot);
        Sent(slot)
    }

    fn free(&self, slot: Sent) {
        // SAFETY: this thread holds the record; a family of one type has one heap.
        self.model.free_as(unsafe { self.heaps.owner(0) }, slot);
    }

    fn trim(&self) {
        // SAFETY: this thread holds the record.
        unsafe { self.heaps.trim() };
    }

    fn into_lease(self) -> Lease<'w, PoolRecord> {
        // SAFETY: `start` bound the record, which the thread does not use any more.
        unsafe { self.record.bound() }
    }

    /// Ends the thread: frees empty units, then releases the lease.
    fn exit(self) {
        lease_end::trim_record(self.record);
        lease_end::release(self.into_lease());
    }
}

impl Model {
    fn new() -> Self {
        Self::with_units_of(2)
    }

    fn with_units_of(slots: usize) -> Self {
        Self::with_records(slots, |_| PoolRecord::new())
    }

    /// Creates a model in which all records belong to one scope.
    fn of_scope(slots: usize, limit: usize) -> Self {
        // SAFETY: the ledger outlives the records, which are in the same world.
        let model = Self::with_records(slots, |ledger| unsafe { PoolRecord::of_scope(ledger) });
        model.0.ledger.begin(limit);
        model
    }

    fn with_records(slots: usize, record: impl Fn(*const Ledger) -> PoolRecord) -> Self {
        let world = Arc::new_cyclic(|world: &std_alloc::sync::Weak<PoolWorld>| {
            // SAFETY: the field is inside the new world's allocation; `&raw` makes no reference.
            let registry = unsafe { &raw const (*world.as_ptr()).registry };
            // SAFETY: the field is inside the new world's allocation; `&raw` makes no reference.
            let ledger = unsafe { &raw const (*world.as_ptr()).ledger };
            let records = core::array::from_fn(|_| Record::new(record(ledger)));
            PoolWorld {
                registry: Registry::new(records, PoolRecord::new),
                family: Family::of_model(SLOT, slots, registry),
                ledger: Ledger::new(false),
                slots: Mutex::new(BTreeMap::new()),
            }
        });
        Self(world)
    }

    /// Writes the slot's witness.
    fn touch(&self, slot: NonNull<u8>) {
        let cell = Arc::clone(
            self.0
                .slots
                .lock()
                .expect("no thread panics")
                .entry(slot.addr().get())
                .or_insert_with(|| Arc::new(UnsafeCell::new(0))),
        );
        // SAFETY: loom reports a race before this write.
        cell.with_mut(|count| unsafe { *count += 1 });
    }

    fn free_as(&self, owner: HeapOwner<'_>, slot: Sent) {
        self.touch(slot.0);
        // SAFETY: a `Sent` has exclusive access to its slot, and frees it here.
        unsafe { heap::give(owner, slot.0, unit_of(SLOT), SLOT.size(), Reach::Slot) };
    }

    /// Frees a slot on a thread without a record, in the state NOWHERE or GONE.
    fn free_elsewhere(&self, slot: Sent) {
        let nowhere = ThreadHeap::nowhere();
        // SAFETY: `nowhere` is a heap for threads that own nothing, and has no unit.
        self.free_as(unsafe { Heaps::new(&raw const nowhere).owner(0) }, slot);
    }

    /// Frees a slot as the drop of a box of `AnyPool` does.
    fn free_erased(&self, own: *const Record<PoolRecord>, slot: Sent) {
        self.touch(slot.0);
        // SAFETY: a `Sent` owns its slot, and frees it here. `own` is null or this thread's record.
        unsafe { remote::give_erased(own, slot.0, SLOT) };
    }

    fn held(&self) -> usize {
        self.0.family.account().now().held
    }

    /// Checks that no memory is held. Does not trim before the check.
    fn assert_nothing_held(&self) {
        assert_eq!(self.held(), 0, "a unit was lost");
        let stats = statistics::stats_of(&self.0.family, |_| false);
        assert_eq!((stats.slots_live, stats.units, stats.unread_heaps), (0, 0, 0));
    }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    builder.max_branches = 2_000; // The default of 1,000 is too small for the longest models.
    builder.check(model);
}

/// The holder frees one slot of a unit, and another thread frees the other slot.
#[test]
fn loom_a_remote_and_a_local_free_in_one_unit_are_both_booked() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let (mine, yours) = (thread.allocate(), thread.allocate());
        let there = model.clone();
        let other = thread::spawn(move || there.free_elsewhere(yours));
        thread.free(mine);
        thread.trim();
        other.join().unwrap();
        thread.exit();
        model.assert_nothing_held();
    });
}

/// Two threads each free one of the two slots of a unit, through one foreign word. The second bit
/// joins the first in the word, unless the owner has already booked the first.
#[test]
fn loom_two_remote_frees_in_one_unit_are_both_booked() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let others = [thread.allocate(), thread.allocate()].map(|slot| {
            let there = model.clone();
            thread::spawn(move || there.free_elsewhere(slot))
        });
        thread.trim();
        for other in others {
            other.join().unwrap();
        }
        thread.exit();
        model.assert_nothing_held();
    });
}

/// Other threads free two slots. Each slot is reused at most once, and only after the freeing
/// thread's last use of it.
#[test]
fn loom_freed_slots_are_reused_after_their_last_use() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        // These slots fill their unit, so the next two are the same slots, or lie in another unit.
        let (first, second) = (thread.allocate(), thread.allocate());
        let others = [first, second].map(|slot| {
            let there = model.clone();
            thread::spawn(move || there.free_elsewhere(slot))
        });
        let again = [thread.allocate(), thread.allocate()];
        assert_ne!(again[0].0, again[1].0);
        for slot in again {
            thread.free(slot);
        }
        for other in others {
            other.join().unwrap();
        }
        thread.exit();
        model.assert_nothing_held();
    });
}

/// One slot of a unit stays live, so the trim does not free the unit. Another thread frees the
/// other slot, which the owner may reuse.
#[test]
fn loom_a_live_slot_keeps_its_unit() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let (stays, goes) = (thread.allocate(), thread.allocate());
        let there = model.clone();
        let other = thread::spawn(move || there.free_elsewhere(goes));
        let next = thread.allocate();
        thread.free(next);
        thread.trim();
        model.touch(stays.0);
        other.join().unwrap();
        thread.free(stays);
        thread.exit();
        model.assert_nothing_held();
    });
}

/// The owner exits while two other threads free slots. No order of these steps loses a free.
#[test]
fn loom_remote_frees_during_thread_exit_are_not_lost() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let (first, second) = (thread.allocate(), thread.allocate());
        let others = [first, second].map(|slot| {
            let there = model.clone();
            thread::spawn(move || there.free_elsewhere(slot))
        });
        thread.exit();
        for other in others {
            other.join().unwrap();
        }
        model.assert_nothing_held();
    });
}

/// After thread exit, freeing threads drain the inbox, because the record has no holder.
#[test]
fn loom_a_push_to_a_record_without_a_holder_is_drained() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let slots = [thread.allocate(), thread.allocate()];
        thread.exit();
        let others = slots.map(|slot| {
            let there = model.clone();
            thread::spawn(move || there.free_elsewhere(slot))
        });
        for other in others {
            other.join().unwrap();
        }
        // Each of the two threads drained the inbox, or left the drain to the other thread.
        model.assert_nothing_held();
    });
}

/// A thread frees the only live slot and finds that the record has no holder.
#[test]
fn loom_the_last_free_after_thread_exit_frees_the_unit() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let slot = thread.allocate();
        let record = thread.record;
        thread.exit();
        let there = model.clone();
        thread::spawn(move || there.free_elsewhere(slot)).join().unwrap();
        let heaps = Heaps::find(record, &model.0.family).expect("a table");
        let mut stats = crate::Stats::default();
        heaps.gather(&mut stats, false);
        // The freeing thread booked the free and freed the unit.
        assert_eq!((stats.units, heaps.unbooked(), model.held()), (0, 0, 0));
        model.assert_nothing_held();
    });
}

/// A record gets a new holder during a remote free of one of its slots.
#[test]
fn loom_a_new_thread_takes_over_the_record_of_an_ended_one() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let (kept, sent) = (thread.allocate(), thread.allocate());
        let there = model.clone();
        let next = thread::spawn(move || {
            let thread = Thread::start(&there);
            let slot = thread.allocate();
            thread.free(kept);
            thread.free(slot);
            thread.exit();
        });
        let there = model.clone();
        let other = thread::spawn(move || there.free_elsewhere(sent));
        thread.exit();
        next.join().unwrap();
        other.join().unwrap();
        model.assert_nothing_held();
    });
}

/// A thread without a record drops a box of `AnyPool` while the owner drops another one and exits.
#[test]
fn loom_erased_boxes_find_their_owner() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let (mine, yours) = (thread.allocate(), thread.allocate());
        let there = model.clone();
        let other = thread::spawn(move || there.free_erased(core::ptr::null(), yours));
        model.free_erased(thread.record, mine);
        thread.exit();
        other.join().unwrap();
        model.assert_nothing_held();
    });
}

/// A thread walks the units for statistics while their owner frees one.
#[test]
fn loom_statistics_walk_while_the_owner_frees_a_unit() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let slot = thread.allocate();
        let (there, record) = (model.clone(), Sent(NonNull::from(thread.record).cast()));
        let reader = thread::spawn(move || {
            let record = record;
            // SAFETY: the model keeps the record until the reader is joined.
            let heaps =
                Heaps::find(unsafe { record.0.cast::<Record<PoolRecord>>().as_ref() }, &there.0.family);
            let mut stats = crate::Stats::default();
            heaps.expect("a table").gather(&mut stats, false);
            assert!(stats.slots_live <= 2 && stats.units <= 1);
        });
        thread.free(slot);
        thread.trim();
        reader.join().unwrap();
        thread.exit();
        model.assert_nothing_held();
    });
}
