//! Loom models of the pools' protocol, over the real heap, units and records, with a family and a registry of their own.
//!
//! Each ends with everything given back: a unit that is lost leaves bytes in the account, one that is given back twice, or touched
//! afterwards, trips its witness. Loom sees no raw memory, so each slot has a witness of its own here, which whoever has the slot
//! writes to. Which ordering each model breaks without is in `xtask/controls.toml`.

use core::alloc::Layout;
use core::ptr::NonNull;
use std::sync::Mutex;
use std_alloc::collections::BTreeMap;
use std_alloc::sync::Arc;

use ephemera_prim::record::{Lease, Record, Registry};
use loom::cell::UnsafeCell;
use loom::thread;

use super::Family;
use super::owner::{self, Owner};
use super::table::{Heaps, Shard, ThreadHeap};
use crate::account::Account;
use crate::geometry::unit_of;
use crate::heap;
use crate::unit::Reach;

/// What a slot holds. Two slots make a group, and a unit, where the model does not say otherwise.
const SLOT: Layout = Layout::new::<[u64; 512]>();

mod exits;
mod groups;

#[derive(Clone)]
struct Model(Arc<World>);

/// The memory of one run: tables outlive it, as they outlive the process elsewhere.
struct World {
    registry: Registry<Shard>,
    family: Family,
    slots: Mutex<BTreeMap<usize, Arc<UnsafeCell<u32>>>>,
}

/// A slot on its way to another thread.
struct Sent(NonNull<u8>);

// SAFETY: whoever has a `Sent` has the slot.
unsafe impl Send for Sent {}

// SAFETY: loom runs all threads of a model on one thread of the system, and reports accesses to its cells and atomics that the model
// does not order.
unsafe impl Send for World {}
// SAFETY: as above.
unsafe impl Sync for World {}

/// A thread that holds a record, as `here.rs` does it with thread-locals.
struct Thread<'w> {
    lease: Lease<'w, Shard>,
    heaps: Heaps<'w>,
    model: &'w Model,
}

impl<'w> Thread<'w> {
    fn start(model: &'w Model) -> Self {
        let lease = model.0.registry.lease_any().expect("memory");
        // SAFETY: leased; both outlive the thread.
        let heaps = unsafe { Heaps::find_or_make(lease.record(), &model.0.family) }.expect("memory");
        Self { lease, heaps, model }
    }

    fn allocate(&self) -> Sent {
        // SAFETY: leased; a family of one type has one heap.
        let slot = unsafe { owner::refill(self.heaps, 0, SLOT.size()) }.expect("memory");
        self.model.touch(slot);
        Sent(slot)
    }

    fn free(&self, slot: Sent) {
        // SAFETY: leased; a family of one type has one heap.
        self.model.free_as(unsafe { self.heaps.owner(0) }, slot);
    }

    fn trim(&self) {
        // SAFETY: leased.
        unsafe { self.heaps.trim() };
    }

    fn record(&self) -> &'w Record<Shard> {
        self.lease.record()
    }

    /// The end of a thread: give back what is empty, then the lease.
    fn exit(self) {
        owner::leave(self.record());
        owner::release(self.lease);
    }
}

impl Model {
    fn new() -> Self {
        Self::with_units_of(2)
    }

    fn with_units_of(slots: usize) -> Self {
        let records = core::array::from_fn(|_| Record::new(Shard::new()));
        let world = Arc::new_cyclic(|world: &std_alloc::sync::Weak<World>| {
            // SAFETY: within the place of the world; no reference is made.
            let registry = unsafe { &raw const (*world.as_ptr()).registry };
            World {
                registry: Registry::new(records, Shard::new),
                family: Family::of_model(SLOT, slots, registry),
                slots: Mutex::new(BTreeMap::new()),
            }
        });
        Self(world)
    }

    /// Whoever has the slot writes to it.
    fn touch(&self, slot: NonNull<u8>) {
        let cell = Arc::clone(
            self.0
                .slots
                .lock()
                .expect("nobody panics")
                .entry(slot.addr().get())
                .or_insert_with(|| Arc::new(UnsafeCell::new(0))),
        );
        // SAFETY: loom reports the race before this write.
        cell.with_mut(|count| unsafe { *count += 1 });
    }

    fn free_as(&self, owner: Owner<'_>, slot: Sent) {
        self.touch(slot.0);
        // SAFETY: whoever has a `Sent` has the slot.
        unsafe { heap::give(owner, slot.0, unit_of(SLOT), SLOT.size(), Reach::Slot) };
    }

    /// Frees as a thread does that has no record: NOWHERE, or GONE.
    fn free_elsewhere(&self, slot: Sent) {
        let nowhere = ThreadHeap::nowhere();
        // SAFETY: the heap of a thread that owns nothing.
        self.free_as(unsafe { Heaps::new(&raw const nowhere).owner(0) }, slot);
    }

    /// Frees as a box does that does not know its pool.
    fn free_erased(&self, own: *const Record<Shard>, slot: Sent) {
        self.touch(slot.0);
        // SAFETY: whoever has a `Sent` has the slot.
        unsafe { owner::give_erased(own, slot.0, SLOT) };
    }

    fn held(&self) -> usize {
        self.0.family.account().now().held
    }

    /// Nothing is held, and no thread cleans up before this looks.
    fn all_is_back(&self) {
        assert_eq!(self.held(), 0, "a unit was lost");
        let stats = owner::stats_of(&self.0.family, core::ptr::null());
        assert_eq!((stats.slots_live, stats.units, stats.unread_heaps), (0, 0, 0));
    }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    builder.check(model);
}

/// The holder frees one slot of a unit and another thread the other one.
#[test]
fn loom_a_foreign_free_beside_the_owners() {
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
        model.all_is_back();
    });
}

/// Both slots of a unit come from abroad, and share a foreign word: the second is added to the first, or the first is booked already.
#[test]
fn loom_two_foreign_frees_in_one_unit() {
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
        model.all_is_back();
    });
}

/// Two slots that came from abroad are handed out again, each to one user, behind its last one.
#[test]
fn loom_slots_are_handed_out_again_behind_their_last_use() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        // A third one in another unit: the front, where nothing is free.
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
        model.all_is_back();
    });
}

/// One slot stays: the unit is not drained, and what came home around it is used.
#[test]
fn loom_a_slot_that_stays_keeps_its_unit() {
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
        model.all_is_back();
    });
}

/// The owner ends while two others free: whoever comes last, nothing is lost.
#[test]
fn loom_the_owner_ends_while_others_free() {
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
        model.all_is_back();
    });
}

/// Nobody cleans up behind an owner that ended before its slot came home: the one who brings it home does.
#[test]
fn loom_a_push_to_a_free_record_is_looked_at() {
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
        let stats = owner::stats_of(&model.0.family, core::ptr::null());
        assert_eq!(stats.slots_live, 0);
        // Each looked, or saw that the other one was looking: then one unit's news may wait for the next who takes the record.
        model.all_is_back();
    });
}

/// As above with one thread: its look is not in anybody's way.
#[test]
fn loom_the_last_free_of_an_ended_thread_gives_its_unit_back() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let slot = thread.allocate();
        let record = thread.record();
        thread.exit();
        let there = model.clone();
        thread::spawn(move || there.free_elsewhere(slot)).join().unwrap();
        let heaps = Heaps::find(record, &model.0.family).expect("a table");
        let mut stats = crate::Stats::default();
        heaps.gather(&mut stats, false);
        // Booked, and the unit given back.
        assert_eq!((stats.units, heaps.unbooked(), model.held()), (0, 0, 0));
        model.all_is_back();
    });
}

/// A record changes hands while a slot of it is on its way home.
#[test]
fn loom_a_new_thread_goes_on_where_one_ended() {
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
        model.all_is_back();
    });
}

/// A box that does not know its pool is dropped by the owner, by nobody in particular, and while the owner ends.
#[test]
fn loom_erased_boxes_find_their_owner() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let (mine, yours) = (thread.allocate(), thread.allocate());
        let there = model.clone();
        let other = thread::spawn(move || there.free_erased(core::ptr::null(), yours));
        model.free_erased(thread.record(), mine);
        thread.exit();
        other.join().unwrap();
        model.all_is_back();
    });
}

/// Statistics walk along the units while their owner gives one back.
#[test]
fn loom_statistics_walk_beside_the_owner() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let slot = thread.allocate();
        let (there, record) = (model.clone(), Sent(NonNull::from(thread.record()).cast()));
        let reader = thread::spawn(move || {
            let record = record;
            // SAFETY: the model has the record until the reader is joined.
            let heaps = Heaps::find(unsafe { record.0.cast::<Record<Shard>>().as_ref() }, &there.0.family);
            let mut stats = crate::Stats::default();
            heaps.expect("a table").gather(&mut stats, false);
            assert!(stats.slots_live <= 2 && stats.units <= 1);
        });
        thread.free(slot);
        thread.trim();
        reader.join().unwrap();
        thread.exit();
        model.all_is_back();
    });
}
