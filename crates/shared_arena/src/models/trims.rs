//! Models of requests to trim.

use loom::thread;

use super::{Model, Sent, check};
use crate::protocol;

/// The owner of a group shrinks the arena while another thread frees the group's slot and asks for
/// a trim. If the owner's own trim misses the free, its next slow path trims again.
#[test]
fn loom_a_request_beside_a_trim_frees_the_group() {
    check(3, || {
        // One group with two pages.
        let model = Model::new(4);
        let thread = model.start();
        let slot = thread.claim();
        let there = model.clone();
        let other = thread::spawn(move || {
            there.free_elsewhere(slot);
            there.shrink();
        });
        thread.shrink();
        other.join().unwrap();
        // SAFETY: this thread holds the record, which belongs to the model's world.
        let claimed = unsafe { protocol::claim_slow(&model.world, model.store(), thread.record()) };
        let shard = model.store().shard(thread.record().data().seat()).unwrap();
        assert_eq!(shard.pages().get(), 1, "the request was lost, so the old group is still in use");
        thread.free(Sent(claimed.unwrap().cast()));
        drop(thread);
        model.close_and_end();
    });
}
