//! The end of an arena, while slots come home.

use loom::thread;

use super::{Model, check};

/// The page is full: the owner links it before it gives the slot back, since the sweep may free it right after.
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
        closer.join().unwrap();
        drop(thread);
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
