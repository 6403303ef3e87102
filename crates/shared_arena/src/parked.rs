//! Shards whose arena was dropped by another thread than their owner, while slots of theirs are out.
//!
//! Most frees after the end of an arena count their slot. One kind cannot: a local free that compared records before the closing
//! thread published null. It sets the bit of its slot with a plain store, as if the arena lived, and no free can afford to look again.
//! The owner of the shard may be in the midst of such a free, nobody else. So the closing thread puts the shard into the bag of the
//! owner's record, and a **look** counts the bits that no free has counted.
//!
//! | who looks | when | what it knows |
//! |---|---|---|
//! | the owner | in its slow path, at a free after the end of an arena, at its end | no local free is in progress: the look is the last |
//! | whoever has the lease of the record | once the owner has ended | the same |
//! | any thread | as it creates or drops an arena, or frees the last group of such a shard | what it sees is home |
//!
//! A queued group is freed by the holder of the turn at its shard (`turn`). All other groups, and the stores, are freed by the thread
//! that counts the last part of them. So the ends of two arenas have nothing in common, unless a third thread owns slots of both.

use core::ptr::{self, NonNull};

use ephemera_prim::record::Record;
use ephemera_prim::sync::{AtomicBool, AtomicUsize, Ordering, fence};

use crate::bag::{Bag, Link, Linked, Visit};
use crate::close;
use crate::group::GroupPtr;
use crate::shard::{Shard, ShardPtr};
use crate::store::Store;
use crate::world::{Place, World};

/// Shards that a visit goes through, of the new ones and of the others, and groups that a look by another thread goes through.
pub(crate) const LOOKS: usize = 8;

/// Groups that a look by the owner goes through at once.
const OWN_LOOKS: usize = 8 * LOOKS;

/// Visits of one thread that follow each other, where others were turned away at the bag beside each of them. What the last of these
/// wished is done by the next visitor.
const ROUNDS: usize = 16;

/// What hangs on a record for the ends of arenas.
#[derive(Debug)]
pub(crate) struct Parting {
    /// Shards of this record that wait for a look.
    shards: Bag<Shard>,
    /// Whether the record is in the world's bag.
    noted: AtomicBool,
    link: Link<Record<Place>>,
}

/// What is parked, as threads find it that own nothing of it.
#[derive(Debug)]
pub(crate) struct Parked {
    /// Records with something in their bag.
    records: Bag<Record<Place>>,
    /// Shards in bags.
    shards: AtomicUsize,
    #[cfg(test)]
    pub(crate) tally: Tally,
}

/// What tests look at. No model's business, so that loom does not see it.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct Tally {
    /// Stores whose arena was dropped and that are not freed yet.
    pub(crate) stores: core::sync::atomic::AtomicUsize,
    /// How often a group was looked at.
    pub(crate) looks: core::sync::atomic::AtomicUsize,
}

impl Parting {
    ephemera_prim::const_unless_loom! {
        pub(crate) fn new() -> Self {
            Self { shards: Bag::new(), noted: AtomicBool::new(false), link: Link::new() }
        }
    }

    /// Whether no shard waits for a look, as far as this thread has seen.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.shards.is_empty()
    }
}

impl Linked for Record<Place> {
    fn link(item: NonNull<Self>) -> NonNull<Link<Self>> {
        // SAFETY: records are never freed (L3).
        NonNull::from(unsafe { &item.as_ref().shard().parting.link })
    }
}

impl Parked {
    ephemera_prim::const_unless_loom! {
        pub(crate) fn new() -> Self {
            Self {
                records: Bag::new(),
                shards: AtomicUsize::new(0),
                #[cfg(test)]
                tally: Tally {
                    stores: core::sync::atomic::AtomicUsize::new(0),
                    looks: core::sync::atomic::AtomicUsize::new(0),
                },
            }
        }
    }
}

impl Parked {
    /// Whether any shard waits for a look, as far as this thread has seen.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        self.shards.load(Ordering::Relaxed) != 0
    }
}

/// Closes a shard whose owner may be in the midst of a free to it. Returns how many parts of the store are left of it.
///
/// # Safety
/// As [`close::close_shard`] with a queue.
pub(crate) unsafe fn park(world: &World, store: NonNull<Store>, shard: ShardPtr) -> usize {
    // SAFETY: the store lives: the caller closes it.
    let this = unsafe { store.as_ref() };
    let record = record_of(shard);
    // SAFETY: the caller's. The arena had the turn, and this thread drops it.
    let mut left = unsafe { close::close_shard(this, shard, true) };
    let waits = left != 0;
    if waits {
        // The shard in the bag is one more part.
        left += 1;
        world.parked.shards.fetch_add(1, Ordering::Relaxed);
        record.shard().parting.shards.push(shard.as_non_null());
    }
    // SAFETY: this thread has the turn.
    unsafe { serve(world, store, shard, 0) };
    if waits {
        note(world, record);
        look_behind_the_owner(world, record, LOOKS);
    }
    left
}

/// Looks at what was left for the holder of a record that was held a moment ago, if it is not held now. Whoever leaves something for
/// the holder calls this after that; whoever gives a lease up calls this after that.
pub(crate) fn look_behind_the_owner(world: &World, record: &Record<Place>, most: usize) {
    if cfg!(ephemera_weaken = "arena_no_second_look") {
        return;
    }
    // ORDERING: SeqCst. Pairs with itself, in `look_behind_the_owner`. Publishes: the shard in the bag, or the end of the lease:
    // one of the two threads sees what the other did.
    fence(Ordering::SeqCst);
    if record.is_free() && !record.shard().parting.is_empty() {
        visit(world, record, Visitor::Successor, most);
    }
}

/// Goes through what some records have in their bags. Called as an arena is created or dropped, by a thread that may hold `mine`.
pub(crate) fn look(world: &World, mine: Option<&Record<Place>>) {
    if !world.parked.waits() {
        return;
    }
    let Some(mut records) = world.parked.records.visit() else { return };
    let next = [records.next_new(), records.next_old()];
    drop(records);
    for item in next.into_iter().flatten() {
        // SAFETY: records are never freed (L3).
        let record = unsafe { item.as_ref() };
        // ORDERING: AcqRel. Pairs with `note`. Publishes: that the record is to be noted again for what comes from here.
        record.shard().parting.noted.swap(false, Ordering::AcqRel);
        visit(world, record, Visitor::of(record, mine), LOOKS);
        if !record.shard().parting.is_empty() {
            note(world, record);
        }
    }
}

/// Goes through all that is parked, and returns how many stores were freed.
pub(crate) fn look_at_all(world: &World, mine: Option<&Record<Place>>) -> usize {
    let waiting = world.registry.records().filter(|record| !record.shard().parting.is_empty());
    waiting.map(|record| visit(world, record, Visitor::of(record, mine), usize::MAX)).sum()
}

/// Has other threads find a record with something in its bag.
fn note(world: &World, record: &Record<Place>) {
    // ORDERING: AcqRel. Pairs with `look`. Publishes: what is in the record's bag.
    if !record.shard().parting.noted.swap(true, Ordering::AcqRel) {
        world.parked.records.push(NonNull::from(record));
    }
}

/// A free counted the last slot of a group whose arena was dropped. Returns how many stores were freed.
///
/// # Safety
/// The caller counted it, and does not touch the group any more.
#[cold]
pub(crate) unsafe fn came_home(world: &World, group: GroupPtr) -> usize {
    // Publishes the end of the look that took the group off the list.
    if group.queued().observe() == 0 {
        // SAFETY: the caller's; the group is not queued.
        return world.freed(unsafe { close::release(group) });
    }
    // SAFETY: a group that was claimed from is bound.
    let shard = unsafe { group.shard_of() };
    // SAFETY: groups point at their store, which lives as long as they.
    let store = unsafe { NonNull::new_unchecked(group.store()) };
    if !shard.turn().leave(group) {
        return 0;
    }
    // SAFETY: this thread has the turn, and a group of the store that is not freed.
    unsafe { serve(world, store, shard, 0) }
}

/// Does what was left for the holder of the turn, lets it go, and takes `gone` groups that the caller freed off the store. Returns how
/// many stores were freed.
///
/// # Safety
/// The caller has the turn at the shard, and one part of the store is its own or not freed yet. It uses the store afterwards only if
/// it has a part of its own.
unsafe fn serve(world: &World, store: NonNull<Store>, shard: ShardPtr, mut gone: usize) -> usize {
    // SAFETY: the store lives as long as a part of it is not counted: those of the groups freed here are counted last.
    let this = unsafe { store.as_ref() };
    let record = record_of(shard);
    let mut emptied = false;
    while let Some(left) = shard.turn().next() {
        let mut rest = left.groups;
        // SAFETY: G1: they are freed here and nowhere else.
        while let Some(group) = unsafe { GroupPtr::from_raw(rest) } {
            rest = group.record().get().cast();
            if group.queued().get() != 0 {
                close::unlink(shard, group);
            }
            // SAFETY: its last slot was counted, and it is on no list.
            unsafe { group.release(this) };
            gone += 1;
        }
        if left.look {
            gone += look_at(world, this, shard, true, OWN_LOOKS);
        }
        emptied = shard.groups().get().is_null();
    }
    // SAFETY: the groups that this thread freed; the shard is not touched from here.
    let freed = gone != 0 && unsafe { Store::part(store, gone) };
    if emptied && !freed && !cfg!(ephemera_weaken = "arena_bag_keeps_what_ended") {
        // Its bag still has the shard, and with it the store.
        return visit(world, record, Visitor::Finisher, LOOKS);
    }
    world.freed(freed)
}

/// Looks at up to `most` groups of a shard. For the owner, those in front, which leave the queue; else some that nobody has looked at
/// for long. Returns how many were freed. The caller has the turn.
fn look_at(world: &World, store: &Store, shard: ShardPtr, own: bool, most: usize) -> usize {
    let (first, cursor) = (shard.groups().get(), shard.cursor().get());
    let mut rest = if own || cursor.is_null() { first } else { cursor };
    let mut gone = 0;
    for _ in 0..most {
        // SAFETY: G1: queued groups are freed by the holder of the turn alone.
        let Some(group) = (unsafe { GroupPtr::from_raw(rest) }) else { break };
        rest = group.next().get();
        world.looked();
        group.touch();
        // SAFETY: the arena is gone, and this thread has the turn.
        let mut new = unsafe { close::note_home(store.geometry(), shard, group) };
        if cfg!(ephemera_weaken = "arena_look_in_vain") {
            new = 0;
        }
        if own {
            close::unlink(shard, group);
            // The last touch, unless slots were found: the thread that counts the last slot frees the group by itself.
            group.queued().publish(0);
        }
        if new != 0 && group.count_down(new) {
            if !own {
                close::unlink(shard, group);
            }
            // SAFETY: the look counted the last slot, and the group is on no list.
            unsafe { group.release(store) };
            gone += 1;
        }
    }
    if !own {
        shard.cursor().set(rest);
    }
    gone
}

/// Who goes through the bag of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visitor {
    /// The thread that holds the record.
    Holder,
    /// A thread that does what the holder of the record left, if there is none.
    Successor,
    /// Another thread, that looks at what it finds.
    Passer,
    /// Another thread, that only takes out shards without a queued group.
    Finisher,
}

impl Visitor {
    /// A thread that holds `mine`, if there is one.
    fn of(record: &Record<Place>, mine: Option<&Record<Place>>) -> Self {
        if mine.is_some_and(|mine| ptr::eq(mine, record)) { Self::Holder } else { Self::Passer }
    }

    /// What the thread leaves for the visitor that it finds at the bag.
    fn wish(self) -> usize {
        match self {
            Self::Holder | Self::Passer => 0,
            Self::Finisher => 1,
            Self::Successor => 2,
        }
    }
}

/// Goes through the bag of a record: up to `most` shards that nobody has looked at, and as many others. Returns how many stores
/// were freed: none if another thread is there.
pub(crate) fn visit(world: &World, record: &Record<Place>, mut visitor: Visitor, mut most: usize) -> usize {
    let bag = &record.shard().parting.shards;
    let mut freed = 0;
    for _ in 0..ROUNDS {
        let Some(mut visit) = bag.visit_or_wish(visitor.wish()) else { break };
        let tries = matches!(visitor, Visitor::Successor | Visitor::Passer);
        let lease = if tries { record.try_lease() } else { None };
        let leased = lease.is_some();
        if leased {
            visitor = Visitor::Holder;
        }
        for _ in 0..most {
            let Some(shard) = visit.next_new() else { break };
            freed += look_into(world, &mut visit, shard, visitor, most);
        }
        for _ in 0..most {
            let Some(shard) = visit.next_old() else { break };
            freed += look_into(world, &mut visit, shard, visitor, most);
        }
        drop(lease);
        drop(visit);
        // ORDERING: SeqCst. Pairs with `look_behind_the_owner` and `Bag::visit_or_wish`. Publishes: that the gate is open, and the
        // lease given up.
        fence(Ordering::SeqCst);
        // The record is free, and nobody else may know: its owner ended while this thread had in hand what was in the bag, or a shard
        // was put in while this thread had the lease.
        let waits = if leased { bag.has_news() } else { visitor != Visitor::Holder && !bag.is_empty() };
        let ended = waits && record.is_free();
        (visitor, most) = match bag.wishes() {
            0 if !ended => break,
            1 if !ended => (Visitor::Finisher, LOOKS),
            _ => (Visitor::Successor, usize::MAX),
        };
    }
    freed
}

/// Looks at a shard from a bag, and puts it back unless it has no queued group. Returns how many stores were freed.
fn look_into(
    world: &World,
    visit: &mut Visit<'_, Shard>,
    item: NonNull<Shard>,
    visitor: Visitor,
    most: usize,
) -> usize {
    // SAFETY: S1: a shard in a bag is a part of its store, which so lives.
    let shard = unsafe { ShardPtr::new(item) };
    let (store, mut freed) = (shard.store(), 0);
    let own = visitor == Visitor::Holder;
    let has_turn = !shard.groups().get().is_null()
        && match visitor {
            Visitor::Holder => shard.turn().take_or_ask(),
            Visitor::Successor | Visitor::Passer => shard.turn().try_take(),
            Visitor::Finisher => false,
        };
    if has_turn {
        let most = if own { most.max(OWN_LOOKS) } else { most };
        // SAFETY: the store lives, as above.
        let gone = look_at(world, unsafe { store.as_ref() }, shard, own, most);
        // SAFETY: this thread has the turn, and the part of the store that the bag had.
        freed += unsafe { serve(world, store, shard, gone) };
    }
    if !shard.groups().get().is_null() {
        visit.keep(item);
        return freed;
    }
    world.parked.shards.fetch_sub(1, Ordering::Relaxed);
    // SAFETY: the part that the bag had: no group is queued, so that there is nothing to look at any more.
    freed + world.freed(unsafe { Store::part(store, 1) })
}

/// The record that a shard of an arena is of.
pub(crate) fn record_of<'w>(shard: ShardPtr) -> &'w Record<Place> {
    let record = shard.record().cast::<Record<Place>>();
    // SAFETY: shards of an arena carry the address of their record, and records are never freed (L3).
    unsafe { &*record }
}

#[cfg(all(test, not(ephemera_loom)))]
mod tests;
