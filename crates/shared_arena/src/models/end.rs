//! Models of an arena's drop while other threads free slots.

use loom::thread;

use crate::parked;

use super::{Model, check, check_exactly};

/// The owner frees slots of a full page and then exits, while another thread drops the arena. The
/// owner adds the page to its list before it sets the first slot's bit: once the bit is set,
/// another thread's look can free the group.
#[test]
fn loom_drop_beside_local_frees_loses_no_slot() {
    check(3, || {
        let model = Model::new(0);
        let thread = model.start();
        let (first, second) = (thread.claim(), thread.claim());
        // Fill the hot slot, and make another page the current one.
        let third = thread.claim();
        thread.free(third);
        let there = model.clone();
        let closer = thread::spawn(move || there.close());
        thread.free(first);
        thread.free(second);
        drop(thread);
        closer.join().unwrap();
        model.ended();
    });
}

#[test]
fn loom_drop_beside_a_free_into_the_hot_slot_loses_no_slot() {
    check(3, || {
        let model = Model::new(0);
        let thread = model.start();
        let slot = thread.claim();
        let there = model.clone();
        let closer = thread::spawn(move || there.close());
        thread.free(slot);
        closer.join().unwrap();
        drop(thread);
        model.ended();
    });
}

#[test]
fn loom_drop_beside_local_and_remote_frees_loses_no_slot() {
    check(2, || {
        let model = Model::new(0);
        let thread = model.start();
        let (first, second, hot) = (thread.claim(), thread.claim(), thread.claim());
        thread.free(hot);
        let there = model.clone();
        let closer = thread::spawn(move || there.close());
        let there = model.clone();
        let foreign = thread::spawn(move || there.free_elsewhere(first));
        thread.free(second);
        closer.join().unwrap();
        foreign.join().unwrap();
        drop(thread);
        model.ended();
    });
}

/// Each of the two slots is counted once, by the drop or by a free, whether or not the slot's own
/// free found the arena dropped.
#[test]
fn loom_drop_beside_two_remote_frees_loses_no_slot() {
    check(2, || {
        let model = Model::new(0);
        let thread = model.start();
        let slots = [thread.claim(), thread.claim()];
        drop(thread);
        let others = slots.map(|slot| {
            let there = model.clone();
            thread::spawn(move || there.free_elsewhere(slot))
        });
        model.close();
        for other in others {
            other.join().unwrap();
        }
        model.ended();
    });
}

/// Two threads drop one arena each, while a third thread frees a slot of each arena. Both arenas
/// are freed.
#[test]
fn loom_two_concurrent_drops_free_both_arenas() {
    check(2, || {
        let model = Model::new(0);
        let other = Model { world: model.world.clone(), store: Model::new_store() };
        let (first, second) = (model.start(), other.start());
        let slots = [first.claim(), second.claim()];
        drop((first, second));
        let there = other.clone();
        let closer = thread::spawn(move || there.close());
        let there = model.clone();
        let frees = thread::spawn(move || slots.into_iter().for_each(|slot| there.free_elsewhere(slot)));
        model.close();
        closer.join().unwrap();
        frees.join().unwrap();
        model.ended();
    });
}

/// Another thread drops two arenas while the owner of a slot in each arena frees both slots and
/// exits. Either the owner finds both shards in the bag of its record, or the other thread looks on
/// the owner's behalf.
#[test]
fn loom_two_drops_beside_the_owners_exit_free_both_arenas() {
    // With a third preemption, the model takes minutes.
    check_exactly(2, || {
        let model = Model::new(0);
        let other = Model { world: model.world.clone(), store: Model::new_store() };
        let thread = model.start();
        let first = thread.claim();
        let second = thread.claim_from(other.store());
        let there = model.clone();
        let closer = thread::spawn(move || {
            there.close();
            other.close();
        });
        thread.free(first);
        thread.free(second);
        drop(thread);
        closer.join().unwrap();
        model.ended();
    });
}

/// The owner of the slots drops the arena itself, so no look is needed.
#[test]
fn loom_drop_by_the_owner_beside_a_remote_free_frees_the_arena() {
    check(3, || {
        let model = Model::new(0);
        let thread = model.start();
        let (mine, yours) = (thread.claim(), thread.claim());
        let there = model.clone();
        let foreign = thread::spawn(move || there.free_elsewhere(yours));
        thread.close();
        thread.free(mine);
        foreign.join().unwrap();
        model.ended();
    });
}

/// Two dropped arenas each have one live slot. Two threads free these slots at the same time, and
/// each free frees its arena.
#[test]
fn loom_last_handles_of_two_arenas_free_both() {
    check(3, || {
        let model = Model::new(0);
        let other = Model { world: model.world.clone(), store: Model::new_store() };
        let (first, second) = (model.start(), other.start());
        let slots = [first.claim(), second.claim()];
        drop((first, second));
        model.close();
        other.close();
        let others = slots.map(|slot| {
            let there = model.clone();
            thread::spawn(move || there.free_elsewhere(slot))
        });
        for other in others {
            other.join().unwrap();
        }
        model.ended();
    });
}

/// The last of two handles frees the arena itself.
#[test]
fn loom_the_last_of_two_handles_frees_the_dropped_arena() {
    check(3, || {
        let model = Model::new(0);
        let thread = model.start();
        let slots = [thread.claim(), thread.claim()];
        drop(thread);
        model.close();
        let others = slots.map(|slot| {
            let there = model.clone();
            thread::spawn(move || there.free_elsewhere(slot))
        });
        for other in others {
            other.join().unwrap();
        }
        model.ended();
    });
}

/// Two threads look at the parked shard of a third thread at the same time. The look that finds the
/// bag of the record in use does not take the record from later looks.
#[test]
fn loom_a_record_with_a_parked_shard_stays_in_reach_of_looks() {
    check(3, || {
        let model = Model::new(0);
        let thread = model.start();
        let slot = thread.claim();
        model.close();
        let there = model.clone();
        let other = thread::spawn(move || parked::look_at_all(&there.world, None));
        parked::look(&model.world, None);
        other.join().unwrap();
        let data = thread.record().data();
        assert!(data.parked.is_empty() || !model.world.record_bag.is_empty(), "no look finds the record");
        thread.free(slot);
        drop(thread);
        model.ended();
    });
}
