//! The end of arenas in a world of their own, one step at a time: what a free that the drop of the arena overtook leaves behind, and
//! how much is looked at.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

use ephemera_prim::foreign::Inbox;
use ephemera_prim::record::{FIRST, Lease, Record, Registry};

use super::LOOKS;
use crate::account::UNLIMITED;
use crate::geometry::Geometry;
use crate::group::{Far, GroupPtr, Of};
use crate::parked;
use crate::store::{Settings, Store};
use crate::world::{self, Place, World};

const GEOMETRY: &Geometry = &Of::<u64>::GEOMETRY;

type Slot = NonNull<u8>;

/// Other arenas that are parked: more than are looked at at once.
const OTHERS: usize = if cfg!(miri) { LOOKS + 2 } else { 50 };

fn new_world() -> Box<World> {
    let registry = Registry::new([const { Record::new(Place::new()) }; FIRST], Place::new);
    for (number, record) in registry.records().enumerate() {
        record.shard().enter(|| number + 1);
    }
    Box::new(World::new(registry))
}

/// A thread of that world.
fn lease(world: &World) -> Lease<'_, Place> {
    world.registry.lease_any().unwrap()
}

/// An arena of that world.
fn new_arena(world: &World) -> NonNull<Store> {
    parked::look(world, None);
    Store::create(*GEOMETRY, Settings { limit: UNLIMITED, trims: false }, false).unwrap()
}

fn claim(world: &World, arena: NonNull<Store>, lease: &Lease<'_, Place>) -> Slot {
    // SAFETY: a test drops its arenas last.
    let store = unsafe { arena.as_ref() };
    let shard = store.shard(lease.record().shard().seat());
    // SAFETY: this thread has the lease.
    let slow = || unsafe { world::claim_slow(world, store, lease.record()) }.unwrap();
    shard.and_then(|shard| shard.claim(GEOMETRY)).unwrap_or_else(slow)
}

fn close(world: &World, arena: NonNull<Store>) {
    // SAFETY: once for each arena, and nothing is claimed from it later.
    unsafe { world::close(world, arena, None) };
}

/// Stores whose arena was dropped and that are not freed.
fn stores(world: &World) -> usize {
    world.parked.tally.stores.load(Relaxed)
}

/// Arenas with one slot out each, which another thread drops once the last one is claimed. The owner does not look before.
fn park(world: &World, lease: &Lease<'_, Place>, arenas: usize) -> Vec<Slot> {
    let claimed = (0..arenas).map(|_| {
        let arena = new_arena(world);
        (arena, claim(world, arena, lease))
    });
    let claimed: Vec<_> = claimed.collect();
    claimed.into_iter().map(|(arena, slot)| (close(world, arena), slot).1).collect()
}

fn place(slot: Slot) -> (GroupPtr, NonNull<Far>, u64) {
    // SAFETY: the slot is out.
    let group = unsafe { GroupPtr::around(slot, GEOMETRY.group) };
    let position = GEOMETRY.position(slot.addr().get() & (GEOMETRY.group - 1));
    (group, group.far(GEOMETRY, position.page), 1 << position.slot)
}

fn give_back(world: &World, slot: Slot) {
    let (group, far, bit) = place(slot);
    // SAFETY: the slot is out, and given up here.
    let last = unsafe { world::give_back(world, group, far, bit) };
    // SAFETY: what the line above counted.
    last.into_iter().for_each(|last| unsafe { world::gone(world, group, last) });
}

/// The second half of a free that found the arena alive: a local free, or a remote one.
fn finish_free(world: &World, slot: Slot, local: bool) {
    let (group, far, bit) = place(slot);
    // SAFETY: the slot is out: its group is bound.
    let shard = unsafe { group.shard_of() };
    if local {
        // SAFETY: tests have no other threads.
        unsafe { shard.put(GEOMETRY, group, slot) };
        return;
    }
    // SAFETY: the slot is out, and given up here.
    let old = unsafe { Inbox::give_back_until_closed(far, bit) };
    // SAFETY: what the line above found.
    let slots = old.map(|old| unsafe { shard.inbox().push_or_count(far, bit, old) });
    assert_eq!(slots, Some(bit), "a remote free learns that the arena was dropped");
    if group.count_down(1) {
        // SAFETY: counted in the line above.
        unsafe { parked::came_home(world, group) };
    }
}

/// An arena is dropped in the midst of one free. A remote free counts its slot by itself. A local one is found by the next creation
/// of an arena, however many others are parked.
fn nothing_stays_after_an_overtaken_free(local: bool, slots: usize, overtaken: usize) {
    let world = new_world();
    let lease = lease(&world);
    let arena = new_arena(&world);
    let values: Vec<_> = (0..slots).map(|_| claim(&world, arena, &lease)).collect();
    let lasting = park(&world, &lease, OTHERS);
    close(&world, arena);
    // Before, between and behind the frees that count.
    for (number, slot) in values.into_iter().enumerate() {
        if number == overtaken { finish_free(&world, slot, local) } else { give_back(&world, slot) }
    }
    let next = local.then(|| new_arena(&world));
    assert_eq!(stores(&world), lasting.len(), "one of {slots} slots, number {overtaken}");
    lasting.into_iter().for_each(|slot| give_back(&world, slot));
    assert_eq!(stores(&world), 0, "the last slots free their arenas by themselves");
    next.into_iter().for_each(|next| close(&world, next));
}

#[test]
fn an_arena_dropped_in_the_midst_of_a_free() {
    let many = if cfg!(miri) { 66 } else { 5_000 };
    let cases = [(3, 1), (many, 64), (1, 0), (2, 0), (2, 1), (many, 0), (many, many - 1)];
    for local in [false, true] {
        for (slots, overtaken) in cases.into_iter().take(if cfg!(miri) { 2 } else { cases.len() }) {
            nothing_stays_after_an_overtaken_free(local, slots, overtaken);
        }
    }
}

/// A free that was overtaken and goes on much later: when the queue has come round.
#[test]
fn a_free_that_goes_on_late() {
    let world = new_world();
    let lease = lease(&world);
    let slots = park(&world, &lease, OTHERS);
    for _ in 0..OTHERS {
        close(&world, new_arena(&world));
    }
    for (number, slot) in slots.iter().enumerate() {
        finish_free(&world, *slot, number % 2 == 0);
    }
    for _ in 0..slots.len().div_ceil(2 * LOOKS) {
        close(&world, new_arena(&world));
    }
    assert_eq!(stores(&world), 0, "a creation and a drop look at {LOOKS} groups each");
}

/// What is looked at, for each arena that is parked.
fn looks(arenas: usize) -> usize {
    let world = new_world();
    let lease = lease(&world);
    let slots = park(&world, &lease, arenas);
    let parked = world.parked.tally.looks.load(Relaxed);
    slots.into_iter().for_each(|slot| give_back(&world, slot));
    assert_eq!(
        (stores(&world), world.parked.tally.looks.load(Relaxed)),
        (0, parked),
        "a last slot looks at nothing"
    );
    parked
}

#[test]
fn parked_arenas_cost_the_same_each_however_many() {
    // A creation and a drop each look at some, and each group is looked at when it comes and once more.
    const EACH: usize = 2 * LOOKS + 2;
    for arenas in if cfg!(miri) { [10, 30] } else { [400, 4_000] } {
        let looks = looks(arenas);
        assert!(looks <= EACH * arenas, "{looks} looks for {arenas} arenas");
    }
}

/// One value of many stays: the others' groups go when their last slots come home, with no look at anything.
#[test]
fn a_value_that_lasts_keeps_its_group_alone() {
    let world = new_world();
    let lease = lease(&world);
    let arena = new_arena(&world);
    let count = if cfg!(miri) { 300 } else { 20_000 };
    let mut slots: Vec<_> = (0..count).map(|_| claim(&world, arena, &lease)).collect();
    close(&world, arena);
    // SAFETY: a slot of it is out until the last line but one.
    let store = unsafe { arena.as_ref() };
    assert!(store.parts() > 2);
    let lasting = slots.swap_remove(count / 2);
    slots.into_iter().for_each(|slot| give_back(&world, slot));
    assert_eq!((store.parts(), stores(&world)), (2, 1), "one group, and the shard in its owner's bag");
    give_back(&world, lasting);
    assert_eq!(stores(&world), 0);
}
