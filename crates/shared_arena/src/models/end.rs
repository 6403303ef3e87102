//! The end of an arena, while slots come home.

use loom::thread;

use super::{Model, check, check_exactly};

/// The page is full: the owner links it before it gives the slot back, since a look may free it right after. Then the owner ends, also
/// beside the drop.
#[test]
fn loom_the_arena_is_dropped_beside_a_home_free() {
    check(3, || {
        let model = Model::new(0);
        let thread = model.start();
        let (first, second) = (thread.claim(), thread.claim());
        // Something at hand, and the page of the others no longer the current one.
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
fn loom_the_arena_is_dropped_beside_a_free_into_the_hot_place() {
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
fn loom_the_arena_is_dropped_beside_frees_of_both_kinds() {
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

/// Each of three counts: the drop of the arena, a free that found it dropped, and one that did not.
#[test]
fn loom_the_arena_is_dropped_beside_two_foreign_frees() {
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

/// Two arenas are dropped at once, and another thread has a slot of each: neither stays.
#[test]
fn loom_two_arenas_are_dropped_at_once() {
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

/// Another thread drops two arenas beside the end of the thread that owns a slot of each. That thread is in the midst of giving one
/// back: it finds both in its bag, or the other thread looks for it.
#[test]
fn loom_two_arenas_are_dropped_beside_the_end_of_their_owner() {
    // One more takes minutes.
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

/// The owner of the slots drops the arena itself, beside a remote free: nobody has to look.
#[test]
fn loom_the_owner_drops_the_arena_beside_a_foreign_free() {
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

/// Two last handles of two arenas: each frees its arena by itself.
#[test]
fn loom_two_arenas_end_at_once() {
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

/// After the drop the last of two handles frees everything by itself.
#[test]
fn loom_two_last_handles_after_the_arena() {
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
