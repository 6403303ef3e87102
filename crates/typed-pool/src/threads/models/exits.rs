//! Units of ended threads: their countdowns, and the next holder of their record. No thread cleans up at the end.

use loom::thread;

use super::{Model, Sent, Thread, check, owner};

/// Starts a thread, fills a unit of three slots, and ends the thread.
fn left_behind(model: &Model) -> [Sent; 3] {
    let thread = Thread::start(model);
    let slots = [(); 3].map(|()| thread.allocate());
    thread.exit();
    slots
}

/// The slots of a unit, of two groups, are freed by two threads. Whichever free completes the countdown gives the unit back.
#[test]
fn loom_an_abandoned_unit_is_completed_by_two_threads() {
    check(|| {
        let model = Model::with_units_of(3);
        let [first, second, third] = left_behind(&model);
        let there = model.clone();
        let other = thread::spawn(move || there.free_elsewhere(second));
        model.free_elsewhere(first);
        model.free_elsewhere(third);
        other.join().unwrap();
        model.all_is_back();
    });
}

/// The thread exits beside two frees of slots of the same group.
#[test]
fn loom_an_exit_beside_two_frees_leaves_nothing() {
    check(|| {
        let model = Model::with_units_of(3);
        let thread = Thread::start(&model);
        let [first, second, third] = [(); 3].map(|()| thread.allocate());
        let others = [first, second].map(|slot| {
            let there = model.clone();
            thread::spawn(move || there.free_elsewhere(slot))
        });
        thread.free(third);
        thread.exit();
        for other in others {
            other.join().unwrap();
        }
        model.all_is_back();
    });
}

/// The next holder of the record adopts an abandoned unit while another thread completes its countdown.
#[test]
fn loom_an_abandoned_unit_is_adopted_beside_its_completion() {
    check(|| {
        let model = Model::with_units_of(3);
        let [first, second, third] = left_behind(&model);
        model.free_elsewhere(first);
        let there = model.clone();
        let other = thread::spawn(move || there.free_elsewhere(second));
        let next = Thread::start(&model);
        let slots = [next.allocate(), next.allocate()];
        assert_ne!(slots[0].0, slots[1].0);
        assert!(slots.iter().all(|slot| slot.0 != third.0), "a live slot was handed out");
        for slot in slots {
            next.free(slot);
        }
        next.free(third);
        next.exit();
        other.join().unwrap();
        model.all_is_back();
    });
}

/// The next holder frees slots of an abandoned unit that it has not adopted: the countdown counts them.
#[test]
fn loom_the_next_holder_frees_slots_of_an_abandoned_unit() {
    check(|| {
        let model = Model::with_units_of(3);
        let [first, second, third] = left_behind(&model);
        model.free_elsewhere(first);
        let there = model.clone();
        let other = thread::spawn(move || there.free_elsewhere(third));
        let next = Thread::start(&model);
        next.free(second);
        next.exit();
        other.join().unwrap();
        model.all_is_back();
    });
}

/// Statistics stand on a unit while its owner exits: one of the two gives it back.
#[test]
fn loom_statistics_beside_an_exit_leave_nothing() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let slot = thread.allocate();
        let there = model.clone();
        let reader = thread::spawn(move || {
            let stats = owner::stats_of(&there.0.family, core::ptr::null());
            assert!(stats.slots_live <= 2 && stats.units <= 1);
        });
        thread.free(slot);
        thread.exit();
        reader.join().unwrap();
        model.all_is_back();
    });
}
