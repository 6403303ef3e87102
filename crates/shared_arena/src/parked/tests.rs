//! Tests frees that are in progress when their arena is dropped, and the number of looks at parked
//! arenas. Each test runs one step at a time in its own world.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

use ephemera_prim::account::UNLIMITED;
use ephemera_prim::foreign::Inbox;
use ephemera_prim::record::{FIRST, Lease, Record, Registry};

use super::{LOOKS, OWN_LOOKS};
use crate::geometry::ArenaGeometry;
use crate::group::{Far, GroupsOf, PageGroupPtr};
use crate::parked;
use crate::protocol;
use crate::shard::ShardPtr;
use crate::store::{ArenaSettings, ArenaStore};
use crate::world::{ArenaRecord, ArenaWorld};

pub(crate) const GEOMETRY: &ArenaGeometry = &GroupsOf::<u64>::GEOMETRY;

pub(crate) type ClaimedSlot = NonNull<u8>;

/// The number of other parked arenas. The creation of an arena looks at fewer of them.
const OTHERS: usize = if cfg!(miri) { LOOKS + 2 } else { 50 };

pub(crate) fn new_world() -> Box<ArenaWorld> {
    let registry = Registry::new([const { Record::new(ArenaRecord::new()) }; FIRST], ArenaRecord::new);
    for (number, record) in registry.records().enumerate() {
        record.data().enter(|| number + 1);
    }
    Box::new(ArenaWorld::new(registry))
}

/// Leases a record of `world`, like a new thread.
pub(crate) fn lease(world: &ArenaWorld) -> Lease<'_, ArenaRecord> {
    world.registry.lease_any().unwrap()
}

/// Creates an arena in `world`.
pub(crate) fn new_arena(world: &ArenaWorld) -> NonNull<ArenaStore> {
    parked::look(world, None);
    ArenaStore::create(*GEOMETRY, ArenaSettings { limit: UNLIMITED, trims: false }, false).unwrap()
}

pub(crate) fn claim(
    world: &ArenaWorld,
    arena: NonNull<ArenaStore>,
    lease: &Lease<'_, ArenaRecord>,
) -> ClaimedSlot {
    // SAFETY: a test drops its arenas after the last claim.
    let store = unsafe { arena.as_ref() };
    let shard = store.shard(lease.record().data().seat());
    // SAFETY: this thread has the lease of a record of `world`.
    let slow = || unsafe { protocol::claim_slow(world, store, lease.record()) }.unwrap();
    shard.and_then(|shard| shard.claim(GEOMETRY)).unwrap_or_else(slow)
}

pub(crate) fn close(world: &ArenaWorld, arena: NonNull<ArenaStore>) {
    // SAFETY: a test drops each arena once, and does not claim a slot from the arena after that.
    unsafe { protocol::close(world, arena, None) };
}

/// Returns the number of stores that are not freed although their arena was dropped.
pub(crate) fn stores(world: &ArenaWorld) -> usize {
    world.tally.stores.load(Relaxed)
}

/// Creates `arenas` arenas with one live slot each. After the last claim, drops all of them as
/// another thread would, so no slow path of the owner looks at them. Returns the live slots.
fn park(world: &ArenaWorld, lease: &Lease<'_, ArenaRecord>, arenas: usize) -> Vec<ClaimedSlot> {
    let claimed = (0..arenas).map(|_| {
        let arena = new_arena(world);
        (arena, claim(world, arena, lease))
    });
    let claimed: Vec<_> = claimed.collect();
    claimed.into_iter().map(|(arena, slot)| (close(world, arena), slot).1).collect()
}

fn place(slot: ClaimedSlot) -> (PageGroupPtr, NonNull<Far>, u64) {
    // SAFETY: the slot is in use, so its group is live.
    let group = unsafe { PageGroupPtr::around(slot, GEOMETRY.group) };
    let position = GEOMETRY.position(slot.addr().get());
    (group, group.far(GEOMETRY, position.page), 1 << position.slot)
}

fn free_remote(world: &ArenaWorld, slot: ClaimedSlot) {
    let (group, far, bit) = place(slot);
    // SAFETY: the slot is live until this call, and is not used after the call.
    if unsafe { protocol::free_remote(world, group, far, bit) } == Some(true) {
        // SAFETY: the line above counted the last slot of the group.
        unsafe { parked::last_slot_counted(world, group) };
    }
}

/// Performs the second half of a free that saw the arena live: a local free if `local` is set, and
/// otherwise a remote one.
pub(crate) fn finish_free(world: &ArenaWorld, slot: ClaimedSlot, local: bool) {
    let (group, far, bit) = place(slot);
    // SAFETY: the slot is in use, so its group is bound.
    let shard = unsafe { ShardPtr::of(group) };
    if local {
        // SAFETY: the slot is live until this call, and is not used after the call. The test has
        // one thread, so it may act as the owner.
        unsafe { shard.put(GEOMETRY, group, slot) };
        return;
    }
    // SAFETY: the slot is live until this call, and is not used after the call.
    let old = unsafe { Inbox::give_back_until_closed(far, bit) };
    // SAFETY: `give_back_until_closed` set `bit` in the word of `far`, and found `old` there.
    let slots = old.map(|old| unsafe { shard.inbox().push_or_count(far, bit, old) });
    assert_eq!(slots, Some(bit), "a remote free learns that the arena was dropped");
    if group.count_down(1) {
        // SAFETY: the line above counted the last slot.
        unsafe { parked::last_slot_counted(world, group) };
    }
}

/// Drops an arena with `slots` live slots during the free of slot number `overtaken`. A remote free
/// counts its slot itself. When the next arena is created, a look counts the slot of a local free,
/// even if many other arenas are parked.
fn overtake_a_free(local: bool, slots: usize, overtaken: usize) {
    let world = new_world();
    let lease = lease(&world);
    let arena = new_arena(&world);
    let values: Vec<_> = (0..slots).map(|_| claim(&world, arena, &lease)).collect();
    let lasting = park(&world, &lease, OTHERS);
    close(&world, arena);
    // The overtaken free comes before, between or after the frees of the other slots.
    for (number, slot) in values.into_iter().enumerate() {
        if number == overtaken { finish_free(&world, slot, local) } else { free_remote(&world, slot) }
    }
    let next = local.then(|| new_arena(&world));
    assert_eq!(stores(&world), lasting.len(), "one of {slots} slots, number {overtaken}");
    lasting.into_iter().for_each(|slot| free_remote(&world, slot));
    assert_eq!(stores(&world), 0, "the frees of the last slots free their arenas");
    next.into_iter().for_each(|next| close(&world, next));
}

#[test]
fn a_free_overtaken_by_the_drop_leaks_no_memory() {
    let many = if cfg!(miri) { OWN_LOOKS + 2 } else { 5_000 };
    let cases = [(3, 1), (many, OWN_LOOKS), (1, 0), (2, 0), (2, 1), (many, 0), (many, many - 1)];
    for local in [false, true] {
        // Miri is slow, so it checks one case of each kind.
        let (skipped, taken) = if cfg!(miri) { (usize::from(local), 1) } else { (0, cases.len()) };
        for (slots, overtaken) in cases.into_iter().skip(skipped).take(taken) {
            overtake_a_free(local, slots, overtaken);
        }
    }
}

/// The overtaken frees finish after a look at every parked arena.
#[test]
fn an_overtaken_free_may_finish_late() {
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

/// Parks `arenas` arenas, and returns the number of looks at their groups.
fn looks(arenas: usize) -> usize {
    let world = new_world();
    let lease = lease(&world);
    let slots = park(&world, &lease, arenas);
    let parked = world.tally.looks.load(Relaxed);
    slots.into_iter().for_each(|slot| free_remote(&world, slot));
    assert_eq!(
        (stores(&world), world.tally.looks.load(Relaxed)),
        (0, parked),
        "the free of a last slot looks at no group"
    );
    parked
}

#[test]
fn each_parked_arena_costs_a_bounded_number_of_looks() {
    // Each drop looks at up to `LOOKS` new and `LOOKS` old shards, and each shard has one group.
    // The bound leaves room for two more looks.
    const EACH: usize = 2 * LOOKS + 2;
    for arenas in if cfg!(miri) { [1, LOOKS] } else { [400, 4_000] } {
        let looks = looks(arenas);
        assert!(looks <= EACH * arenas, "{looks} looks for {arenas} arenas");
    }
}

/// One of many values outlives all others. The groups without this value are freed with their last
/// slots, without a look.
#[test]
fn a_lasting_value_keeps_only_its_group() {
    let world = new_world();
    let lease = lease(&world);
    let arena = new_arena(&world);
    let count = if cfg!(miri) { 300 } else { 20_000 };
    let mut slots: Vec<_> = (0..count).map(|_| claim(&world, arena, &lease)).collect();
    close(&world, arena);
    // SAFETY: a slot of the store is in use until the last `free_remote`.
    let store = unsafe { arena.as_ref() };
    assert!(store.parts() > 2);
    let lasting = slots.swap_remove(count / 2);
    slots.into_iter().for_each(|slot| free_remote(&world, slot));
    assert_eq!((store.parts(), stores(&world)), (2, 1), "one group, and the shard in its owner's bag");
    free_remote(&world, lasting);
    assert_eq!(stores(&world), 0);
}
