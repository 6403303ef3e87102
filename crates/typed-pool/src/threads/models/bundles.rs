//! Models of bundles: a thread publishes slots that it freed earlier.

use loom::thread;

use super::{Model, Thread, check};
use crate::threads::bundle::model::Bundled;

/// The second of three slots waits in a bundle, which the free of the third one publishes. The
/// owner drains its inbox meanwhile.
#[test]
fn loom_a_bundle_is_published_during_a_drain() {
    check(|| {
        let model = Model::with_units_of(3);
        let thread = Thread::start(&model);
        let slots = [(); 3].map(|()| thread.allocate());
        let there = model.clone();
        let other = thread::spawn(move || {
            let _bundle = Bundled::start();
            slots.into_iter().for_each(|slot| there.free_elsewhere(slot));
        });
        thread.trim();
        other.join().unwrap();
        thread.exit();
        model.all_is_back();
    });
}

/// The owner ends while a slot waits in a bundle. The end of the other thread publishes it.
#[test]
fn loom_the_owner_ends_while_a_bundle_is_open() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let slots = [thread.allocate(), thread.allocate()];
        let there = model.clone();
        let other = thread::spawn(move || {
            let _bundle = Bundled::start();
            slots.into_iter().for_each(|slot| there.free_elsewhere(slot));
        });
        thread.exit();
        other.join().unwrap();
        model.all_is_back();
    });
}

/// A slot waits in a bundle while its owner allocates. The owner does not hand it out again before
/// the bundle is published.
#[test]
fn loom_a_slot_in_a_bundle_is_not_allocated() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let slots = [thread.allocate(), thread.allocate()];
        let there = model.clone();
        let other = thread::spawn(move || {
            let _bundle = Bundled::start();
            slots.into_iter().for_each(|slot| there.free_elsewhere(slot));
        });
        let again = [thread.allocate(), thread.allocate()];
        assert_ne!(again[0].0, again[1].0);
        other.join().unwrap();
        again.into_iter().for_each(|slot| thread.free(slot));
        thread.exit();
        model.all_is_back();
    });
}
