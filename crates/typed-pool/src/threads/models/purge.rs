//! Models of a thread that purges units while their owner wakes up. Loom does not see the memory of
//! slots, so accesses to witnesses in the unit's claim and foreign words represent accesses to the
//! slots. The purge also writes zeros, which destroy the links of free slots.

use ephemera_prim::idle::IdleBy;
use loom::thread;

use super::{Heaps, Model, NonNull, PoolRecord, Record, Sent, Thread, check};
use crate::heap::PoolEnv;
use crate::threads::idle_owner::purge_units;

impl Model {
    /// Purges units of this record's heap, like a thread that finds the owner idle.
    fn purge(&self, record: Sent) {
        // SAFETY: a model keeps its records until all of its threads are joined.
        let record = unsafe { record.0.cast::<Record<PoolRecord>>().as_ref() };
        let heaps = Heaps::find(record, &self.0.family).expect("a table");
        purge_units(heaps.first(), IdleBy::Time);
    }

    /// Starts a thread that frees a slot of this owner and then purges units of the owner's heap.
    fn free_and_purge(&self, slot: Sent, owner: &Thread<'_>) -> thread::JoinHandle<()> {
        let (there, record) = (self.clone(), owner.record_to_send());
        thread::spawn(move || {
            there.free_elsewhere(slot);
            there.purge(record);
        })
    }
}

impl Thread<'_> {
    /// Returns the size in bytes of a unit of three slots.
    fn unit_bytes(&self) -> usize {
        self.heaps.first().heap.spec().layout(3).size()
    }

    fn book_mail(&self) {
        // SAFETY: this thread holds the record; a family of one type has one heap.
        unsafe { self.heaps.owner(0) }.book_mail();
    }

    fn record_to_send(&self) -> Sent {
        Sent(NonNull::from(self.record).cast())
    }
}

/// Another thread frees the last live slot of a unit in the queue and purges the unit, while the
/// owner makes this unit the front.
#[test]
fn loom_a_unit_is_purged_while_its_owner_takes_it_from_the_queue() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let [queued, last, front] = [(); 3].map(|()| thread.allocate());
        thread.free(queued);
        let other = model.free_and_purge(last, &thread);
        let again = [(); 2].map(|()| thread.allocate());
        other.join().unwrap();
        for slot in again {
            thread.free(slot);
        }
        thread.free(front);
        thread.exit();
        model.assert_nothing_held();
    });
}

/// The owner frees one slot of a unit and ends, while another thread frees the other slot and
/// purges the unit.
#[test]
fn loom_a_unit_is_purged_after_its_owners_last_use_of_it() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let [mine, last, front] = [(); 3].map(|()| thread.allocate());
        let other = model.free_and_purge(last, &thread);
        thread.free(mine);
        thread.free(front);
        thread.exit();
        other.join().unwrap();
        model.assert_nothing_held();
    });
}

/// Two threads free slots of different groups of one unit, and one of them then purges the unit.
/// The purging thread may see the other thread's free before that thread has pushed the group.
#[test]
fn loom_a_unit_is_purged_after_the_last_use_by_other_threads() {
    check(|| {
        let model = Model::with_units_of(3);
        let thread = Thread::start(&model);
        let [first, mine, last, front] = [(); 4].map(|()| thread.allocate());
        thread.free(mine);
        let there = model.clone();
        let one = thread::spawn(move || there.free_elsewhere(first));
        let other = model.free_and_purge(last, &thread);
        one.join().unwrap();
        other.join().unwrap();
        thread.free(front);
        thread.exit();
        model.assert_nothing_held();
    });
}

/// The owner ends while another thread frees slots of both groups of a unit and purges the unit. An
/// owner that books only one group may abandon the unit.
#[test]
fn loom_a_unit_is_purged_while_its_thread_exits() {
    check(|| {
        let model = Model::with_units_of(3);
        let thread = Thread::start(&model);
        let [first, mine, last, front] = [(); 4].map(|()| thread.allocate());
        thread.free(front);
        thread.free(mine);
        model.free_elsewhere(first);
        let other = model.free_and_purge(last, &thread);
        thread.exit();
        other.join().unwrap();
        model.assert_nothing_held();
    });
}

/// The owner allocates from a purged unit before it books the remote frees. The unit must not lose
/// a slot.
#[test]
fn loom_a_purged_unit_serves_all_of_its_slots() {
    check(|| {
        let model = Model::with_units_of(3);
        let thread = Thread::start(&model);
        let [first, second, last, front] = [(); 4].map(|()| thread.allocate());
        thread.free(first);
        thread.free(second);
        model.free_elsewhere(last);
        model.purge(thread.record_to_send());
        // The first two slots come from the front, and the other three from the purged unit.
        let again = [(); 5].map(|()| thread.allocate());
        assert_eq!(model.held(), 2 * thread.unit_bytes());
        for slot in again {
            thread.free(slot);
        }
        thread.free(front);
        thread.exit();
        model.assert_nothing_held();
    });
}

/// The owner books one group of a unit while another thread counts the remote frees of all groups.
/// A slot of the unit stays live, so the unit is not purged.
#[test]
fn loom_a_unit_with_a_live_slot_is_not_purged_while_its_owner_books() {
    check(|| {
        let model = Model::with_units_of(3);
        let thread = Thread::start(&model);
        let [first, stays, last, front] = [(); 4].map(|()| thread.allocate());
        // SAFETY: the slot belongs to this thread.
        unsafe { stays.0.cast::<u64>().write(7) };
        let record = thread.record_to_send();
        model.free_elsewhere(last);
        let there = model.clone();
        let one = thread::spawn(move || there.free_elsewhere(first));
        let there = model.clone();
        let other = thread::spawn(move || there.purge(record));
        thread.book_mail();
        one.join().unwrap();
        other.join().unwrap();
        // SAFETY: the slot belongs to this thread, which wrote this word.
        assert_eq!(unsafe { stays.0.cast::<u64>().read() }, 7, "a live slot was purged");
        thread.free(stays);
        thread.free(front);
        thread.exit();
        model.assert_nothing_held();
    });
}
