//! Units of two groups, and what the slow path does with fronts.

use loom::thread;

use super::{Model, Thread, check};

/// Slots of two groups of one unit come from abroad while its owner frees the third: whichever group is booked first, the unit lives
/// until the other one is.
#[test]
fn loom_two_groups_of_one_unit() {
    check(|| {
        let model = Model::with_units_of(3);
        let thread = Thread::start(&model);
        let [first, mine, last] = [(); 3].map(|()| thread.allocate());
        let others = [first, last].map(|slot| {
            let there = model.clone();
            thread::spawn(move || there.free_elsewhere(slot))
        });
        thread.free(mine);
        thread.trim();
        for other in others {
            other.join().unwrap();
        }
        thread.exit();
        model.all_is_back();
    });
}

/// Slots of two groups come home while a third slot stays; they are handed out again, each to one user, behind its last one.
#[test]
fn loom_slots_of_two_groups_are_handed_out_again() {
    check(|| {
        let model = Model::with_units_of(3);
        let thread = Thread::start(&model);
        let [first, stays, last] = [(); 3].map(|()| thread.allocate());
        let there = model.clone();
        let other = thread::spawn(move || {
            there.free_elsewhere(last);
            there.free_elsewhere(first);
        });
        // Three fill another unit, if none came home before them; the fourth is one that did, or there is a third unit.
        let again = [(); 4].map(|()| thread.allocate());
        for (number, slot) in again.iter().enumerate() {
            assert!(again[..number].iter().all(|other| other.0 != slot.0));
        }
        for slot in again {
            thread.free(slot);
        }
        model.touch(stays.0);
        thread.free(stays);
        other.join().unwrap();
        thread.exit();
        model.all_is_back();
    });
}

/// The slow path, which models take for each allocation, does not give up a front that has free slots for a unit that is empty.
#[test]
fn loom_a_front_with_free_slots_stays() {
    check(|| {
        let model = Model::with_units_of(2);
        let thread = Thread::start(&model);
        let [first, second, front] = [(); 3].map(|()| thread.allocate());
        // Their unit is empty, and kept.
        thread.free(first);
        thread.free(second);
        let next = thread.allocate();
        let unit_of = |addr: usize| addr & !(crate::geometry::unit_of(super::SLOT) - 1);
        assert_eq!(unit_of(next.0.addr().get()), unit_of(front.0.addr().get()));
        thread.free(front);
        thread.free(next);
        thread.exit();
        model.all_is_back();
    });
}
