//! Models of units with two groups. One more model checks which front the slow path chooses.

use loom::thread;

use super::{Model, Thread, check};

/// Other threads free slots of both groups of a unit while its owner frees a third slot. The unit
/// is not freed before both groups are booked.
#[test]
fn loom_a_unit_stays_until_both_groups_are_booked() {
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
        model.assert_nothing_held();
    });
}

/// The owner books remote frees to both groups while a third slot is live. Each freed slot is
/// reused at most once, and only after its last use.
#[test]
fn loom_slots_of_two_groups_are_reused() {
    check(|| {
        let model = Model::with_units_of(3);
        let thread = Thread::start(&model);
        let [first, stays, last] = [(); 3].map(|()| thread.allocate());
        let there = model.clone();
        let other = thread::spawn(move || {
            there.free_elsewhere(last);
            there.free_elsewhere(first);
        });
        // If no free was booked before these allocations, the first three slots fill another unit.
        // The fourth slot was freed before, or lies in a third unit.
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
        model.assert_nothing_held();
    });
}

/// The slow path does not replace a front that has free slots with an empty unit. In models, each
/// allocation takes the slow path.
#[test]
fn loom_a_front_with_free_slots_stays_the_front() {
    check(|| {
        let model = Model::with_units_of(2);
        let thread = Thread::start(&model);
        let [first, second, front] = [(); 3].map(|()| thread.allocate());
        // These two frees empty a unit, which the heap keeps.
        thread.free(first);
        thread.free(second);
        let next = thread.allocate();
        let unit_of = |addr: usize| addr & !(crate::geometry::unit_of(super::SLOT) - 1);
        assert_eq!(unit_of(next.0.addr().get()), unit_of(front.0.addr().get()));
        thread.free(front);
        thread.free(next);
        thread.exit();
        model.assert_nothing_held();
    });
}
