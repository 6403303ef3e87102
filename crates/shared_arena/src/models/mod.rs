//! Loom models of threads that share an arena. Most models make their own store, shards, groups and
//! records, and all run the library's code.
//!
//! A model with an arena drops the arena, and ends without a call to `look_at_all`. All memory must
//! then be freed, so the model fails if a lost slot keeps its store. If a thread uses a group while
//! another thread may free it, or if two threads may use one slot at the same time, the witness of
//! that group or slot fails. `controls.toml` lists the orderings and steps that each model needs.

mod account;
mod counts;
mod end;
mod trims;

use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

use ephemera_prim::account::UNLIMITED;
use ephemera_prim::record::{Lease, Record, Registry};
use loom::sync::Arc;
use loom::thread;

use crate::geometry::ArenaGeometry;
use crate::group::{GroupsOf, PageGroupPtr};
use crate::parked;
use crate::protocol;
use crate::shard::{ShardPtr, used};
use crate::stats::Stats;
use crate::store::{ArenaSettings, ArenaStore};
use crate::world::{ArenaRecord, ArenaWorld, identity};

/// The type of the values. Pages have two slots, and groups have two pages.
type Value = u64;
const GEOMETRY: &ArenaGeometry = &GroupsOf::<Value>::GEOMETRY;
const _: () = assert!(GEOMETRY.slots == 2 && GEOMETRY.pages == 2, "models are small");

/// A world, and one of its arenas.
#[derive(Clone)]
struct Model {
    world: Arc<ArenaWorld>,
    store: Sent<ArenaStore>,
}

/// A pointer that a model sends to another thread.
struct Sent<T>(NonNull<T>);

impl<T> Clone for Sent<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Sent<T> {}

// SAFETY: a model sends only pointers that any thread may use, and loom reports violations.
unsafe impl<T> Send for Sent<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Sent<T> {}

type ClaimedSlot = Sent<Value>;

/// A thread that holds a record. The library binds a thread to its record with a thread-local
/// (`thread.rs`).
struct Thread<'w> {
    model: &'w Model,
    lease: Option<Lease<'w, ArenaRecord>>,
}

impl Model {
    fn new(capacity: usize) -> Self {
        let records = core::array::from_fn(|_| Record::new(ArenaRecord::new()));
        let registry = Registry::new(records, ArenaRecord::new);
        for (number, record) in registry.records().enumerate() {
            record.data().enter(|| number + 1);
        }
        let model = Self { world: Arc::new(ArenaWorld::new(registry)), store: Self::new_store() };
        model.store().reserve(capacity).unwrap();
        model
    }

    fn new_store() -> Sent<ArenaStore> {
        let settings = ArenaSettings { limit: UNLIMITED, trims: false };
        Sent(ArenaStore::create(*GEOMETRY, settings, false).unwrap())
    }

    fn store(&self) -> &ArenaStore {
        // SAFETY: a model does not use its store after the arena and all slots are gone.
        unsafe { self.store.0.as_ref() }
    }

    fn start(&self) -> Thread<'_> {
        let lease = self.world.registry.lease_any().unwrap();
        lease.record().data().enter(|| unreachable!("all records have their seats"));
        Thread { model: self, lease: Some(lease) }
    }

    /// Frees a slot like a thread whose record is NOWHERE or GONE.
    fn free_elsewhere(&self, slot: ClaimedSlot) {
        let nowhere = 0_u8;
        free(&self.world, (&raw const nowhere).cast(), slot);
    }

    fn shrink(&self) -> bool {
        // SAFETY: this call passes no record.
        unsafe { protocol::shrink(&self.world, self.store(), None) }
    }

    /// Drops the arena on a thread that does not hold a record.
    fn close(&self) {
        // SAFETY: the model drops the arena once, and does not claim a slot after that.
        unsafe { protocol::close(&self.world, self.store.0, None) };
    }

    /// Asserts that all stores are freed. The model has dropped their arenas and freed all slots.
    fn ended(&self) {
        assert_eq!(self.world.tally.stores.load(Relaxed), 0, "an arena was not freed");
    }

    fn close_and_end(&self) {
        self.close();
        self.ended();
    }
}

/// Frees a slot like the drop of an `ArenaBox`, on a thread whose record has the identity `here`.
fn free(world: &ArenaWorld, here: *const (), slot: ClaimedSlot) {
    // SAFETY: the caller has a slot of the group, so the group is live.
    let group = unsafe { PageGroupPtr::around(slot.0, GEOMETRY.group) };
    if group.record().get().cast_const() == here {
        // SAFETY: a slot of the group is in use, so the group is bound.
        let shard = unsafe { ShardPtr::of(group) };
        // SAFETY: the caller owns the slot, does not use it again, and holds the shard's record.
        unsafe { shard.put(GEOMETRY, group, slot.0.cast()) };
    } else {
        used(GEOMETRY, slot.0.cast());
        let position = GEOMETRY.position(slot.0.addr().get());
        // SAFETY: the caller owns the slot of this page, whose arena belongs to `world`, and does
        // not use the slot again.
        let last = unsafe {
            protocol::free_remote(world, group, group.far(GEOMETRY, position.page), 1 << position.slot)
        };
        if last == Some(true) {
            // SAFETY: `free_remote` counted the last slot of the group.
            unsafe { parked::last_slot_counted(world, group) };
        }
    }
}

/// Acts like `ephemera-prim` and `thread.rs` at thread exit.
impl Drop for Thread<'_> {
    fn drop(&mut self) {
        let record = self.record();
        self.lease = None;
        parked::visit_if_unheld(&self.model.world, record, usize::MAX);
    }
}

impl<'w> Thread<'w> {
    fn record(&self) -> &'w Record<ArenaRecord> {
        self.lease.as_ref().unwrap().record()
    }

    /// Drops the arena on this thread.
    fn close(&self) {
        // SAFETY: this thread holds the record. The model drops the arena once, and does not claim
        // a slot after that.
        unsafe { protocol::close(&self.model.world, self.model.store.0, Some(self.record())) };
    }

    fn claim(&self) -> ClaimedSlot {
        self.claim_from(self.model.store())
    }

    fn claim_from(&self, store: &ArenaStore) -> ClaimedSlot {
        let record = self.record();
        let slot = store.shard(record.data().seat()).and_then(|shard| shard.claim(GEOMETRY));
        let slot = slot.unwrap_or_else(|| {
            // SAFETY: this thread holds the record, which belongs to the model's world.
            unsafe { protocol::claim_slow(&self.model.world, store, record) }.unwrap()
        });
        Sent(slot.cast())
    }

    fn free(&self, slot: ClaimedSlot) {
        free(&self.model.world, identity(self.record()), slot);
    }

    fn shrink(&self) -> bool {
        // SAFETY: this thread holds the record.
        unsafe { protocol::shrink(&self.model.world, self.model.store(), Some(self.record())) }
    }
}

/// Explores `model` with at most `preemptions` preemptions, unless the environment sets a different
/// bound for loom.
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let asked = loom::model::Builder::new().preemption_bound;
    check_exactly(asked.unwrap_or(preemptions), model);
}

fn check_exactly(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 4_000;
    builder.check(model);
}

#[test]
fn loom_remote_free_beside_local_frees_loses_no_slot() {
    check(3, || {
        let model = Model::new(0);
        let thread = model.start();
        let (mine, yours) = (thread.claim(), thread.claim());
        let there = model.clone();
        let other = thread::spawn(move || there.free_elsewhere(yours));
        thread.free(mine);
        // If the other thread has already freed its slot, the second claim takes that slot.
        let (first, second) = (thread.claim(), thread.claim());
        thread.free(first);
        thread.free(second);
        other.join().unwrap();
        drop(thread);
        model.close_and_end();
    });
}

#[test]
fn loom_two_remote_frees_in_one_page_are_booked() {
    check(3, || {
        let model = Model::new(0);
        let thread = model.start();
        let others = [thread.claim(), thread.claim()].map(|slot| {
            let there = model.clone();
            thread::spawn(move || there.free_elsewhere(slot))
        });
        let again = thread.claim();
        thread.free(again);
        for other in others {
            other.join().unwrap();
        }
        assert!(thread.shrink(), "all pages are empty");
        drop(thread);
        model.close_and_end();
    });
}

#[test]
fn loom_shrink_beside_remote_frees_to_an_exited_thread_frees_the_page_once() {
    check(3, || {
        let model = Model::new(0);
        let thread = model.start();
        let (first, second) = (thread.claim(), thread.claim());
        drop(thread);
        let there = model.clone();
        let other = thread::spawn(move || {
            there.free_elsewhere(first);
            there.free_elsewhere(second);
        });
        let early = model.shrink();
        other.join().unwrap();
        assert!(early != model.shrink(), "the page is freed once");
        model.close_and_end();
    });
}

#[test]
fn loom_shrink_does_not_trim_beside_the_owner() {
    check(2, || {
        let model = Model::new(0);
        let thread = model.start();
        let slot = thread.claim();
        let there = model.clone();
        let other = thread::spawn(move || there.shrink());
        thread.free(slot);
        let slot = thread.claim();
        thread.free(slot);
        drop(thread);
        other.join().unwrap();
        model.close_and_end();
    });
}

#[test]
fn loom_owner_exit_beside_a_remote_free_and_a_new_holder_loses_no_slot() {
    check(2, || {
        let model = Model::new(0);
        let thread = model.start();
        let (kept, sent) = (thread.claim(), thread.claim());
        let there = model.clone();
        let other = thread::spawn(move || there.free_elsewhere(sent));
        let there = model.clone();
        let next = thread::spawn(move || {
            let thread = there.start();
            let slot = thread.claim();
            thread.free(kept);
            thread.free(slot);
        });
        drop(thread);
        other.join().unwrap();
        next.join().unwrap();
        model.close_and_end();
    });
}

#[test]
fn loom_an_unowned_group_is_bound_once() {
    check(2, || {
        let model = Model::new(2);
        let there = model.clone();
        let other = thread::spawn(move || {
            let thread = there.start();
            let slot = thread.claim();
            thread.free(slot);
        });
        let thread = model.start();
        let slot = thread.claim();
        thread.free(slot);
        drop(thread);
        other.join().unwrap();
        model.close_and_end();
    });
}

#[test]
fn loom_statistics_read_no_freed_group() {
    check(2, || {
        let model = Model::new(0);
        let thread = model.start();
        let slot = thread.claim();
        thread.free(slot);
        let there = model.clone();
        let reader = thread::spawn(move || {
            let statistics = Stats::of(there.store(), 8);
            assert!(statistics.unread || statistics.slots <= 2);
        });
        thread.shrink();
        let slot = thread.claim();
        thread.free(slot);
        reader.join().unwrap();
        drop(thread);
        model.close_and_end();
    });
}

#[test]
fn loom_statistics_read_only_published_shards() {
    check(2, || {
        let model = Model::new(0);
        let there = model.clone();
        let reader = thread::spawn(move || {
            let statistics = Stats::of(there.store(), 8);
            assert!(statistics.unread || statistics.slots <= 2);
        });
        let thread = model.start();
        let slot = thread.claim();
        thread.free(slot);
        reader.join().unwrap();
        drop(thread);
        model.close_and_end();
    });
}

/// Two threads make the counts of two slots in one page. Only one array is kept, and both threads
/// see its initialised elements.
#[test]
fn loom_two_first_counted_handles_share_one_array() {
    check(3, || {
        let model = Model::new(0);
        let thread = model.start();
        let slots = [thread.claim(), thread.claim()];
        let start = |model: &Model, slot: ClaimedSlot| {
            // SAFETY: the slot is in use, so its group is live.
            let group = unsafe { PageGroupPtr::around(slot.0, GEOMETRY.group) };
            let position = GEOMETRY.position(slot.0.addr().get());
            let count = group.make_counts(&model.store().account, GEOMETRY, position).unwrap();
            count.start();
            assert!(count.drop_strong() && count.drop_weak());
        };
        let there = model.clone();
        let other = thread::spawn(move || start(&there, slots[1]));
        start(&model, slots[0]);
        other.join().unwrap();
        slots.into_iter().for_each(|slot| thread.free(slot));
        drop(thread);
        model.close_and_end();
    });
}
