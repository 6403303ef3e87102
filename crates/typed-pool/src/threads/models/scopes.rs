//! Models of scopes: threads enter and leave a scope, and the scope ends. No model calls
//! `Thread::trim` before it checks that nothing is held.

use ephemera_prim::account::Account;
use ephemera_prim::record::Record;
use loom::thread;

use super::super::last_resort::trim_free_records;
use super::{Arc, Family, Heaps, Model, PoolRecord, SLOT, Sent, Thread, check, lease_end, statistics};

impl<'w> Thread<'w> {
    /// Enters the scope of a model: leases the first record that no thread holds.
    fn enter(model: &'w Model) -> Self {
        Self::start(model)
    }

    /// Leaves the scope. The scope's units stay, unless the thread drains remote frees from their
    /// heap.
    fn leave(self) {
        lease_end::leave_scope(self.into_lease());
    }
}

impl Model {
    fn scope_records(&self) -> impl Iterator<Item = &Record<PoolRecord>> {
        self.0.registry.records()
    }

    fn end_scope(&self) {
        self.scope_records().for_each(lease_end::end_scope);
    }

    fn unbooked(&self) -> usize {
        let tables = self.scope_records().filter_map(|record| Heaps::find(record, &self.0.family));
        tables.map(Heaps::unbooked).sum()
    }
}

impl Heaps<'_> {
    /// Returns the number of unbooked remote frees. The family of a model has one heap.
    pub(super) fn unbooked(self) -> usize {
        let mut sum = 0;
        self.first().heap.walk(|unit| sum += unit.unbooked());
        sum
    }
}

/// A thread leaves the scope during a remote free, and another thread enters the scope.
#[test]
fn loom_a_remote_free_while_a_scope_changes_its_thread_is_booked() {
    check(|| {
        let model = Model::of_scope(2, usize::MAX);
        let inside = Thread::enter(&model);
        let (first, second) = (inside.allocate(), inside.allocate());
        let there = model.clone();
        let other = thread::spawn(move || there.free_elsewhere(first));
        inside.free(second);
        inside.leave();
        let there = model.clone();
        thread::spawn(move || {
            let inside = Thread::enter(&there);
            let slot = inside.allocate();
            inside.free(slot);
            inside.leave();
        })
        .join()
        .unwrap();
        other.join().unwrap();
        assert_eq!(model.unbooked(), 0, "no thread is in the scope");
        model.end_scope();
        model.assert_nothing_held();
    });
}

/// A thread leaves the scope while two other threads push to two heaps of its record. Both threads
/// mark the record, and the drain sees both pushes.
#[test]
fn loom_pushes_to_two_heaps_while_a_thread_leaves_a_scope_are_booked() {
    check(|| {
        let model = Model::of_scope(2, usize::MAX);
        let second = Arc::new(Family::of_model(SLOT, 2, &raw const model.0.registry));
        let inside = Thread::enter(&model);
        // SAFETY: this thread holds the record; record and family outlive the table's use.
        let heaps = unsafe { Heaps::find_or_make(inside.record, &second) }.expect("memory");
        let slots = [inside.allocate(), Thread { heaps, ..inside }.allocate()];
        let others = slots.map(|slot| {
            let there = (model.clone(), Arc::clone(&second));
            thread::spawn(move || there.0.free_elsewhere(slot))
        });
        inside.leave();
        for other in others {
            other.join().unwrap();
        }
        assert_eq!((model.unbooked(), heaps.unbooked()), (0, 0), "no thread is in the scope");
        model.end_scope();
        assert_eq!(second.account().now().held, 0, "a unit was lost");
        model.assert_nothing_held();
    });
}

/// The last block of a scope is freed while the scope ends.
#[test]
fn loom_a_remote_free_at_the_end_of_a_scope_is_not_lost() {
    check(|| {
        let model = Model::of_scope(2, usize::MAX);
        let inside = Thread::enter(&model);
        let slot = inside.allocate();
        inside.leave();
        let there = model.clone();
        let other = thread::spawn(move || there.free_elsewhere(slot));
        model.end_scope();
        other.join().unwrap();
        model.assert_nothing_held();
    });
}

/// A thread that reads statistics holds the scope's record for a moment while another thread ends
/// the scope. One of the two threads frees the empty unit.
#[test]
fn loom_a_scope_that_ends_during_statistics_leaves_nothing() {
    check(|| {
        let model = Model::of_scope(2, usize::MAX);
        let inside = Thread::enter(&model);
        let slot = inside.allocate();
        inside.free(slot);
        inside.leave();
        let there = model.clone();
        let reader = thread::spawn(move || {
            statistics::stats_of(&there.0.family, |_| false);
        });
        model.end_scope();
        reader.join().unwrap();
        model.assert_nothing_held();
    });
}

/// A thread leaves the scope with an empty unit, while another thread trims all threads. One of the
/// two threads frees the unit.
#[test]
fn loom_a_trim_of_all_threads_reaches_a_scope_that_a_thread_leaves() {
    check(|| {
        let model = Model::of_scope(2, usize::MAX);
        let inside = Thread::enter(&model);
        let slot = inside.allocate();
        inside.free(slot);
        let there = model.clone();
        let trimming = thread::spawn(move || {
            there.0.family.epoch.raise();
            trim_free_records(&there.0.family);
        });
        inside.leave();
        trimming.join().unwrap();
        model.assert_nothing_held();
    });
}

/// The next scope adopts a unit that an escaped block pins, while another thread frees the second
/// of the unit's three blocks.
#[test]
fn loom_the_next_scope_adopts_a_unit_during_a_remote_free() {
    check(|| {
        let model = Model::of_scope(3, usize::MAX);
        let inside = Thread::enter(&model);
        let [first, second, third] = [(); 3].map(|()| inside.allocate());
        inside.leave();
        model.end_scope();
        model.free_elsewhere(first);
        let there = model.clone();
        let other = thread::spawn(move || there.free_elsewhere(second));
        let next = Thread::enter(&model);
        let slots: [Sent; 2] = [next.allocate(), next.allocate()];
        assert_ne!(slots[0].0, slots[1].0);
        assert!(slots.iter().all(|slot| slot.0 != third.0), "a live slot was handed out");
        for slot in slots {
            next.free(slot);
        }
        next.leave();
        model.end_scope();
        other.join().unwrap();
        model.free_elsewhere(third);
        model.assert_nothing_held();
    });
}

/// Two threads enter a scope, both from an outer scope, whose ledger must not change. One unit is
/// within the limit, but two units exceed it.
#[test]
fn loom_two_threads_that_reach_a_limit_together_mark_the_scope() {
    check(|| {
        let outer = Model::of_scope(2, usize::MAX);
        let around = Thread::enter(&outer);
        let model = Model::of_scope(2, 0);
        let unit = {
            let probe = Thread::enter(&model);
            let slot = probe.allocate();
            let unit = model.held();
            probe.free(slot);
            probe.leave();
            model.end_scope();
            unit
        };
        model.0.ledger.begin(unit + unit / 2);
        let (there, further) = (model.clone(), outer.clone());
        let other = thread::spawn(move || {
            let around = Thread::enter(&further);
            let inside = Thread::enter(&there);
            let slot = inside.allocate();
            inside.leave();
            around.leave();
            slot
        });
        let inside = Thread::enter(&model);
        let slot = inside.allocate();
        inside.leave();
        around.leave();
        let slots = [slot, other.join().unwrap()];
        // A thread that enters after the other one has left finds a free slot.
        let together = model.held() == 2 * unit;
        assert_eq!(model.0.ledger.is_over(), together);
        assert_eq!(model.0.ledger.held(), model.held());
        assert_eq!(model.0.ledger.peak(), model.held());
        assert_eq!(outer.0.ledger.peak(), 0);
        for slot in slots {
            model.free_elsewhere(slot);
        }
        model.end_scope();
        model.assert_nothing_held();
        assert_eq!(model.0.ledger.held(), 0);
    });
}

/// The last block of a unit is freed while the next scope begins.
#[test]
fn loom_a_free_of_an_earlier_scope_changes_no_figure_of_the_next_one() {
    check(|| {
        let model = Model::of_scope(2, usize::MAX);
        let inside = Thread::enter(&model);
        let slot = inside.allocate();
        inside.leave();
        model.end_scope();
        assert_eq!(model.0.ledger.held(), model.held());
        let there = model.clone();
        let other = thread::spawn(move || there.free_elsewhere(slot));
        model.0.ledger.begin(usize::MAX);
        assert_eq!(model.0.ledger.held(), 0);
        other.join().unwrap();
        assert_eq!(model.0.ledger.held(), 0);
        model.assert_nothing_held();
    });
}
