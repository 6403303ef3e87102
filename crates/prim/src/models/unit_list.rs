//! Models of the list of all units: the owner frees units while a walker reads the list, or while
//! another thread evicts units.

use core::mem::offset_of;

use loom::cell::UnsafeCell;
use loom::thread;

use super::explore_within;
use super::memory::ModelArc;
use crate::biased::{BiasedLock, LockState};
use crate::unit_list::{Listed, UnitList};
use crate::witness::Witness;
use crate::word::OwnerPtr;

struct ListedUnit {
    next: OwnerPtr<ListedUnit>,
    prev: OwnerPtr<ListedUnit>,
    witness: Witness,
    /// A stand-in for the unit's header. The owner writes it when it creates the unit.
    header: UnsafeCell<u32>,
}

impl ListedUnit {
    fn make(&self) {
        // SAFETY: loom reports any race before this write.
        self.header.with_mut(|header| unsafe { *header += 1 });
    }

    fn read(&self) {
        self.witness.touch();
        // SAFETY: loom reports any race before this read.
        self.header.with(|header| assert!(unsafe { *header } > 0, "a unit is read before it is made"));
    }
}

// SAFETY: a unit has a link at each of the two offsets, and only the list uses the links.
unsafe impl Listed for ListedUnit {
    const NEXT: usize = offset_of!(ListedUnit, next);
    const PREV: usize = offset_of!(ListedUnit, prev);
}

fn unit() -> ModelArc<ListedUnit> {
    ModelArc::new(ListedUnit {
        next: OwnerPtr::null(),
        prev: OwnerPtr::null(),
        witness: Witness::new(),
        header: UnsafeCell::new(1),
    })
}

/// Removes a unit, as its owner. Frees the unit unless a walker protects it.
fn free(list: &UnitList<ListedUnit>, unit: &ModelArc<ListedUnit>) {
    // SAFETY: the unit is on the list, which this thread owns.
    if unsafe { list.remove(unit.pointer()) } {
        unit.get().witness.end();
    }
}

/// The owner frees two units and adds one, while another thread reads every unit that it finds.
#[test]
fn loom_unit_list_walks_beside_an_owner_that_frees() {
    explore_within(3, || {
        let list = ModelArc::new(UnitList::<ListedUnit>::new());
        let units = [unit(), unit(), unit()];
        for unit in &units[..2] {
            // SAFETY: the unit is new, and this thread owns the list.
            unsafe { list.get().add(unit.pointer()) };
        }
        let (theirs, kept) = (list.clone(), units.clone());
        let walker = thread::spawn(move || {
            // SAFETY: `walk` passes only live units.
            theirs.get().walk(|unit| unsafe { unit.as_ref() }.read());
            drop(kept);
        });
        free(list.get(), &units[1]);
        // SAFETY: the unit is new, and this thread owns the list.
        unsafe { list.get().add(units[2].pointer()) };
        free(list.get(), &units[0]);
        walker.join().unwrap();
    });
}

/// The owner removes the newest unit, so the head then names an older unit whose publication a
/// walker may not have seen. Loom lets a relaxed store continue the release sequence of its thread,
/// as in C++11, so the model does not show the race that the second publication prevents.
#[test]
fn loom_unit_list_publishes_the_unit_below_a_removed_head() {
    explore_within(3, || {
        let list = ModelArc::new(UnitList::<ListedUnit>::new());
        let units = [unit(), unit()];
        let (theirs, kept) = (list.clone(), units.clone());
        let walker = thread::spawn(move || {
            // SAFETY: `walk` passes only live units.
            theirs.get().walk(|unit| unsafe { unit.as_ref() }.read());
            drop(kept);
        });
        for unit in &units {
            unit.get().make();
            // SAFETY: the unit is new, and this thread owns the list.
            unsafe { list.get().add(unit.pointer()) };
        }
        // SAFETY: the unit is on the list, which this thread owns.
        unsafe { list.get().remove(units[1].pointer()) };
        walker.join().unwrap();
    });
}

/// The owner frees the newest unit, then creates and adds another one at the same address.
#[test]
fn loom_unit_list_reads_a_unit_at_a_reused_address_as_it_was_made() {
    explore_within(3, || {
        let list = ModelArc::new(UnitList::<ListedUnit>::new());
        let unit = unit();
        unit.get().make();
        // SAFETY: the unit is new, and this thread owns the list.
        unsafe { list.get().add(unit.pointer()) };
        let (theirs, kept) = (list.clone(), unit.clone());
        let walker = thread::spawn(move || {
            // SAFETY: `walk` passes only live units.
            theirs.get().walk(|unit| unsafe { unit.as_ref() }.read());
            drop(kept);
        });
        // SAFETY: the unit is on the list, which this thread owns.
        if unsafe { list.get().remove(unit.pointer()) } {
            unit.get().make();
            // SAFETY: the unit was created again, and this thread owns the list.
            unsafe { list.get().add(unit.pointer()) };
        }
        walker.join().unwrap();
    });
}

/// A list with the lock for threads that evict its units.
struct EvictedList {
    list: UnitList<ListedUnit>,
    lock: BiasedLock,
}

impl EvictedList {
    /// Creates a list of these units, of which the last is the newest.
    fn new(units: &[ModelArc<ListedUnit>]) -> ModelArc<Self> {
        let list = UnitList::new();
        for unit in units {
            // SAFETY: the unit is new, and this thread owns the list.
            unsafe { list.add(unit.pointer()) };
        }
        ModelArc::new(Self { list, lock: BiasedLock::new() })
    }

    /// Frees a unit, as its owner, unless the owner is not alone.
    fn free(&self, unit: &ModelArc<ListedUnit>) {
        let pass = self.lock.enter();
        if pass.state() == LockState::Alone {
            free(&self.list, unit);
        }
    }

    /// Evicts and frees units, on a thread other than the owner. Returns for each unit whether it
    /// was evicted.
    fn evict<const N: usize>(&self, units: [&ModelArc<ListedUnit>; N]) -> [bool; N] {
        let Some(_guard) = self.lock.try_lock() else { return [false; N] };
        // SAFETY: while this thread has the lock, the owner only adds units.
        let Some(evictor) = (unsafe { self.list.evict() }) else { return [false; N] };
        units.map(|unit| {
            // SAFETY: the unit was on the list when this thread started.
            let evicted = unsafe { evictor.remove(unit.pointer()) };
            if evicted {
                unit.get().witness.end();
            }
            evicted
        })
    }

    /// Returns the number of units, after all other threads have ended.
    fn len(&self) -> usize {
        let mut len = 0;
        let all = self.list.walk(|unit| {
            // SAFETY: `walk` passes only live units.
            unsafe { unit.as_ref() }.read();
            len += 1;
        });
        assert!(all, "no other thread walks the list");
        len
    }
}

#[test]
fn loom_unit_is_added_while_another_thread_evicts_older_ones() {
    explore_within(3, || {
        let units = [unit(), unit(), unit()];
        let list = EvictedList::new(&units[..2]);
        let (theirs, kept) = (list.clone(), units.clone());
        let evicts = thread::spawn(move || theirs.get().evict([&kept[1], &kept[0]]));
        // SAFETY: the unit is new, and this thread owns the list.
        unsafe { list.get().list.add(units[2].pointer()) };
        let evicted = evicts.join().unwrap();
        assert!(evicted[0] <= evicted[1], "only the newest unit stays");
        assert_eq!(list.get().len(), evicted.into_iter().filter(|evicted| !evicted).count() + 1);
    });
}

#[test]
fn loom_neighbours_are_freed_by_the_owner_and_by_another_thread() {
    explore_within(3, || {
        let units = [unit(), unit(), unit(), unit()];
        let list = EvictedList::new(&units);
        let (theirs, kept) = (list.clone(), units.clone());
        let evicts = thread::spawn(move || theirs.get().evict([&kept[1]]));
        list.get().free(&units[2]);
        list.get().free(&units[0]);
        evicts.join().unwrap();
        list.get().len();
    });
}

#[test]
fn loom_unit_is_evicted_beside_a_walk() {
    explore_within(3, || {
        let units = [unit(), unit(), unit()];
        let list = EvictedList::new(&units);
        let (theirs, kept) = (list.clone(), units.clone());
        let walker = thread::spawn(move || {
            // SAFETY: `walk` passes only live units.
            theirs.get().list.walk(|unit| unsafe { unit.as_ref() }.read());
            drop(kept);
        });
        list.get().evict([&units[1], &units[0]]);
        walker.join().unwrap();
    });
}
