//! Models of bundles: a thread publishes slots that it freed earlier.

use std_alloc::boxed::Box;

use loom::thread::{self, JoinHandle};

use super::{Model, Sent, Thread, check};
use crate::threads::bundle::{Bundle, model};
use crate::threads::publish::publish_bundle;

/// Starts a thread that has a bundle, frees these slots and ends.
fn free_on_a_thread_with_a_bundle<const N: usize>(model: &Model, slots: [Sent; N]) -> JoinHandle<()> {
    let there = model.clone();
    thread::spawn(move || {
        let bundle = Box::new(Bundle::new());
        // SAFETY: the bundle lives until the second call.
        unsafe { model::set(&raw const *bundle) };
        slots.into_iter().for_each(|slot| there.free_elsewhere(slot));
        publish_bundle(&bundle);
        // SAFETY: null names no bundle, so nothing must stay alive.
        unsafe { model::set(core::ptr::null()) };
    })
}

/// The second of three slots may wait in a bundle until the free of the third slot publishes it. At
/// the same time, the owner drains its inbox.
#[test]
fn loom_a_bundle_is_published_during_a_drain() {
    check(|| {
        let model = Model::with_units_of(3);
        let thread = Thread::start(&model);
        let slots = [(); 3].map(|()| thread.allocate());
        let other = free_on_a_thread_with_a_bundle(&model, slots);
        thread.trim();
        other.join().unwrap();
        thread.exit();
        model.assert_nothing_held();
    });
}

/// The owner ends while a slot may wait in the bundle of another thread. That thread publishes the
/// slot when it ends.
#[test]
fn loom_the_owner_ends_while_a_bundle_is_open() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let slots = [thread.allocate(), thread.allocate()];
        let other = free_on_a_thread_with_a_bundle(&model, slots);
        thread.exit();
        other.join().unwrap();
        model.assert_nothing_held();
    });
}
