//! Tests trims of shards while the gate of their store is shut. Each test has one thread, which
//! leases the records of its own world.

use alloc::vec;
use alloc::vec::Vec;

use ephemera_prim::account::UNLIMITED;

use super::claim_slow;
use crate::group::PageGroupPtr;
use crate::parked::tests::{GEOMETRY, claim, close, finish_free, lease, new_arena, new_world, stores};
use crate::store::{ArenaSettings, ArenaStore};

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

    let pass = store.gate.enter();
    let mut slots = vec![claim(&world, arena, &mine)];
    assert_eq!(
        (pass.is_some(), theirs.pages().get()),
        (true, 2),
        "nothing is unbound while the gate is shut"
    );
    drop(pass);
    // The next group that this thread needs is one of the exited thread's.
    slots.extend((0..GEOMETRY.slots).map(|_| claim(&world, arena, &mine)));
    assert_eq!(theirs.pages().get(), 0);
    slots.into_iter().for_each(|slot| finish_free(&world, slot, true));
    close(&world, arena);
    drop(mine);
    assert_eq!(stores(&world), 0);
}

/// If the gate is shut when a thread should look for idle groups, the thread looks in its next slow
/// path.
#[test]
fn a_look_for_idle_groups_waits_for_an_open_gate() {
    let world = new_world();
    let settings = ArenaSettings { limit: UNLIMITED, trims: true };
    let arena = ArenaStore::create(*GEOMETRY, settings, false).unwrap();
    // SAFETY: the test drops the arena at its end.
    let store = unsafe { arena.as_ref() };
    let mine = lease(&world);
    // The groups have 1, 1, 2, 4 and 8 pages, and the current page is in the fifth group.
    let mut slots: Vec<_> = (0..=8 * GEOMETRY.slots).map(|_| claim(&world, arena, &mine)).collect();
    let last = slots.pop();
    let fourth = slots.split_off(4 * GEOMETRY.slots);
    // SAFETY: the slot is in use, so its group is live.
    let fourth_group = unsafe { PageGroupPtr::around(fourth[0], GEOMETRY.group) };
    // Free one slot of the third group before the slots of the fourth group, and the others after
    // them. The next claims then take slots of the third group and of the current page, and leave
    // the fourth group empty.
    let third = slots.split_off(2 * GEOMETRY.slots);
    let (first, rest) = third.split_first().unwrap();
    let freed = [*first].into_iter().chain(fourth).chain(rest.iter().copied());
    freed.for_each(|slot| finish_free(&world, slot, true));

    // SAFETY: this thread has the lease of a record of `world`.
    let slow_path = || unsafe { claim_slow(&world, store, mine.record()) }.unwrap();
    let pass = store.gate.enter();
    slots.extend(last.into_iter().chain((0..64).map(|_| slow_path())));
    assert_eq!((pass.is_some(), fourth_group.idle().get()), (true, 0), "no look while the gate is shut");
    drop(pass);
    slots.push(slow_path());
    assert_eq!(fourth_group.idle().get(), 1);
    slots.into_iter().for_each(|slot| finish_free(&world, slot, true));
    close(&world, arena);
    drop(mine);
    assert_eq!(stores(&world), 0);
}
