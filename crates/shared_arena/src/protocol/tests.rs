//! Tests trims of shards while the gate of their store is shut. Each test has one thread, which
//! leases the records of its own world.

use alloc::vec;
use alloc::vec::Vec;

use crate::parked::tests::{GEOMETRY, claim, close, finish_free, lease, new_arena, new_world, stores};

/// The groups of an exited thread are unbound once the gate is open, even if the gate was shut when
/// another thread first looked for them.
#[test]
fn groups_of_an_exited_thread_are_found_after_the_gate_opens() {
    let world = new_world();
    let arena = new_arena(&world);
    // SAFETY: the test drops the arena at its end.
    let store = unsafe { arena.as_ref() };
    let exited = lease(&world);
    let slots: Vec<_> = (0..2 * GEOMETRY.slots).map(|_| claim(&world, arena, &exited)).collect();
    let theirs = store.shard(exited.record().data().seat()).unwrap();
    let mine = lease(&world);
    slots.into_iter().for_each(|slot| finish_free(&world, slot, true));
    drop(exited);

    let pass = store.enter();
    let mut slots = vec![claim(&world, arena, &mine)];
    assert_eq!((pass.is_some(), theirs.pages().get()), (true, 2), "nothing is unbound behind the gate");
    drop(pass);
    // The next group that this thread needs is one of the exited thread's.
    slots.extend((0..GEOMETRY.slots).map(|_| claim(&world, arena, &mine)));
    assert_eq!(theirs.pages().get(), 0);
    slots.into_iter().for_each(|slot| finish_free(&world, slot, true));
    close(&world, arena);
    drop(mine);
    assert_eq!(stores(&world), 0);
}
