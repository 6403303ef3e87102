//! Models of thread exit: countdowns, and the next holder of a record. No model calls
//! `Thread::trim` before it checks that nothing is held.

use loom::thread;

use super::{Model, Sent, Thread, check, statistics};

/// Starts a thread, fills a unit of three slots, and ends the thread.
fn left_behind(model: &Model) -> [Sent; 3] {
    let thread = Thread::start(model);
    let slots = [(); 3].map(|()| thread.allocate());
    thread.exit();
    slots
}

/// Two threads free the slots of a unit with two groups. The free that completes the last countdown
/// frees the unit.
#[test]
fn loom_two_threads_complete_an_abandoned_unit() {
    check(|| {
        let model = Model::with_units_of(3);
        let [first, second, third] = left_behind(&model);
        let there = model.clone();
        let other = thread::spawn(move || there.free_elsewhere(second));
        model.free_elsewhere(first);
        model.free_elsewhere(third);
        other.join().unwrap();
        model.assert_nothing_held();
    });
}

/// A thread exits during two remote frees to the same group.
#[test]
fn loom_thread_exit_during_two_remote_frees_leaves_nothing() {
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
        model.assert_nothing_held();
    });
}

/// The next holder of the record adopts an abandoned unit while another thread completes a
/// countdown of the unit.
#[test]
fn loom_an_abandoned_unit_is_adopted_while_a_countdown_completes() {
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
        model.assert_nothing_held();
    });
}

/// The next holder frees a slot of an abandoned unit that it has not adopted. The countdown counts
/// this free.
#[test]
fn loom_a_countdown_counts_the_frees_of_the_next_holder() {
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
        model.assert_nothing_held();
    });
}

/// A walk for statistics protects a unit while the unit's owner exits. One of the two threads frees
/// the unit.
#[test]
fn loom_statistics_during_thread_exit_leave_nothing() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let slot = thread.allocate();
        let there = model.clone();
        let reader = thread::spawn(move || {
            let stats = statistics::stats_of(&there.0.family, |_| false);
            assert!(stats.slots_live <= 2 && stats.units <= 1);
        });
        thread.free(slot);
        thread.exit();
        reader.join().unwrap();
        model.assert_nothing_held();
    });
}
