//! Handles **parked** shards: shards with slots in use whose arena was dropped by a thread other
//! than the shard's owner.
//!
//! The thread that drops an arena is the *closing thread*. It publishes null in the header of each
//! group, and most later frees count their slots. One kind of free does not: a local free that
//! compared records before it could see null. That free sets the bit of its slot with a plain
//! store, as if the arena were live. A second check in each free would be too expensive. Only the
//! owner of the shard can be inside a free of this kind. So the closing thread pushes the shard
//! into the bag of the owner's record. A **look** then counts the bits that no free has counted.
//!
//! | thread that looks | when | what it knows |
//! |---|---|---|
//! | the owner | in its slow path, at a free after an arena's drop, at thread exit | no local free is in progress, so the look is the last one |
//! | a thread with the lease of the record | after the owner's thread exit | the same |
//! | any thread | when it creates or drops an arena, or calls `look_at_all` | each slot whose bit it sees is free |
//!
//! A group of a parked shard is **queued** until the owner's look. Only the holder of the shard's
//! turn frees a queued group (`turn`). Any other group is freed by the thread that counts its last
//! slot. The thread that takes off the last part of a store frees the store. Apart from looks, the
//! drops of two arenas share only the world's counters and bag of records, and the record of a
//! third thread that owns slots of both arenas.

use core::ptr::{self, NonNull};

use ephemera_prim::record::Record;
use ephemera_prim::sync::{Ordering, fence};

use crate::bag::Visit;
use crate::close;
use crate::group::PageGroupPtr;
use crate::shard::{Shard, ShardPtr};
use crate::store::ArenaStore;
use crate::world::{ArenaRecord, ArenaWorld, record_of};

/// The maximum number of new shards, and of old shards, that a visit usually looks at. Also the
/// maximum number of groups that one look by a thread other than the owner usually reads.
pub(crate) const LOOKS: usize = if cfg!(miri) { 4 } else { 8 };

/// The maximum number of groups that one look by the owner reads, unless the visit has a larger
/// bound.
const OWN_LOOKS: usize = 8 * LOOKS;

/// The maximum number of consecutive visits by one thread. The thread visits again if other threads
/// found the bag in use, or if the record may have lost its holder. The next visitor handles the
/// requests that arrive during the last visit.
const ROUNDS: usize = 16;

/// The role of a thread that visits the bag of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visitor {
    /// The thread that holds the record.
    Holder,
    /// A thread that found the record without a holder, and handles the shards and requests that
    /// other threads left for a holder.
    Successor,
    /// A thread that does not hold the record, and looks at the shards that it finds in the bag.
    Passer,
    /// A thread that only takes shards without a queued group out of the bag, and does not look at
    /// groups. It may hold the record: a holder takes this role for requests of other threads.
    Finisher,
}

impl Visitor {
    /// Returns the role at the bag of `record` of a thread that holds the record `mine`, or no
    /// record.
    fn of(record: &Record<ArenaRecord>, mine: Option<&Record<ArenaRecord>>) -> Self {
        if mine.is_some_and(|mine| ptr::eq(mine, record)) { Self::Holder } else { Self::Passer }
    }

    /// Returns the request that this thread leaves if another thread is visiting the bag, or 0 for
    /// no request.
    fn request(self) -> usize {
        match self {
            Self::Holder | Self::Passer => 0,
            Self::Finisher => 1,
            Self::Successor => 2,
        }
    }
}

/// Closes a shard whose owner may be inside a local free, and parks it if groups are left. Returns
/// the number of parts that the closing thread must leave in the store's count. This is one for
/// each queued group and one for the shard in its bag, or 0 if no group is left.
///
/// # Safety
/// The caller drops the arena of `store`, and parks or closes each of its shards once.
pub(crate) unsafe fn park(world: &ArenaWorld, store: NonNull<ArenaStore>, shard: ShardPtr) -> usize {
    // SAFETY: the caller drops the arena, and the caller's part keeps the store live.
    let this = unsafe { store.as_ref() };
    let record = record_of(shard);
    // SAFETY: the caller drops the arena and closes each shard once, and `queue` is set.
    let mut left = unsafe { close::close_shard(this, shard, true) };
    let waits = left != 0;
    if waits {
        // The shard in the bag is one more part.
        left += 1;
        world.parked.fetch_add(1, Ordering::Relaxed);
        record.data().parked.push(shard.as_non_null());
    }
    // SAFETY: a live arena has the turn at each of its shards, so the thread that drops the arena
    // has this turn. The closing thread's part of the store is not taken off yet.
    unsafe { serve(world, store, shard, 0) };
    if waits {
        push_record(world, record);
        visit_if_unheld(world, record, LOOKS);
    }
    left
}

/// If `record` has no holder, visits the record's bag with the bound `most`, and so handles the
/// shards and requests that were left for a holder. A thread must call this after it pushes a shard
/// into the record's bag, and after it releases a lease of the record.
pub(crate) fn visit_if_unheld(world: &ArenaWorld, record: &Record<ArenaRecord>, most: usize) {
    if weakened!("arena_no_second_look") {
        return;
    }
    // ORDERING: SeqCst. Pairs with itself, in `visit_if_unheld`, and with `parked::visit`.
    // Publishes: the shard in the bag, or the release of the lease. One of the two threads sees the
    // write of the other.
    fence(Ordering::SeqCst);
    if record.is_free() && !record.data().parked.is_empty() {
        visit(world, record, Visitor::Successor, most);
    }
}

/// Looks at parked shards of up to two records. A thread calls this when it creates or drops an
/// arena. `mine` is the record that the thread holds, or `None`.
pub(crate) fn look(world: &ArenaWorld, mine: Option<&Record<ArenaRecord>>) {
    if !world.waits() {
        return;
    }
    let Some(mut records) = world.record_bag.visit() else { return };
    let next = [records.next_new(), records.next_old()];
    drop(records);
    for item in next.into_iter().flatten() {
        // SAFETY: records are never freed (L3).
        let record = unsafe { item.as_ref() };
        // ORDERING: AcqRel. Pairs with `push_record`. Publishes: that the record is no longer in
        // the bag of records, so a later `push_record` pushes it again. This thread sees the shards
        // that other threads put into the record's bag before they called `push_record`.
        record.data().in_record_bag.swap(false, Ordering::AcqRel);
        visit(world, record, Visitor::of(record, mine), LOOKS);
        if !record.data().parked.is_empty() {
            push_record(world, record);
        }
    }
}

/// Looks at all parked shards, except shards whose bag or turn another thread has. Returns the
/// number of stores that it freed. `mine` is the record that this thread holds, or `None`.
pub(crate) fn look_at_all(world: &ArenaWorld, mine: Option<&Record<ArenaRecord>>) -> usize {
    let waiting = world.registry.records().filter(|record| !record.data().parked.is_empty());
    waiting.map(|record| visit(world, record, Visitor::of(record, mine), usize::MAX)).sum()
}

/// Pushes a record with parked shards into the bag of records, so that other threads find it. A
/// thread must call this after it pushes shards into the record's bag, or puts them back.
fn push_record(world: &ArenaWorld, record: &Record<ArenaRecord>) {
    // ORDERING: AcqRel. Pairs with `look`. Publishes: the contents of the record's bag.
    if !record.data().in_record_bag.swap(true, Ordering::AcqRel) {
        world.record_bag.push(NonNull::from(record));
    }
}

/// Frees a group of a dropped arena after its last slot was counted, or leaves the group for the
/// turn-holder. Returns the number of freed stores.
///
/// # Safety
/// The caller counted the last slot of the group, and does not touch the group again.
#[cold]
pub(crate) unsafe fn last_slot_counted(world: &ArenaWorld, group: PageGroupPtr) -> usize {
    // `observe` makes the look that took the group off the list visible to this thread, so this
    // thread may free the group.
    if group.queued().observe() == 0 {
        // SAFETY: the caller counted the last slot, and the group is not queued.
        return world.freed(unsafe { close::release(group) });
    }
    // SAFETY: a slot of the group was claimed, so the group is bound.
    let shard = unsafe { ShardPtr::of(group) };
    let store = ArenaStore::of(shard);
    if !shard.turn().leave(group) {
        return 0;
    }
    // SAFETY: this thread has the turn. The group is a part of the store and is not freed yet.
    unsafe { serve(world, store, shard, 0) }
}

/// Frees the groups and serves the requests that were left for the turn-holder. Then releases the
/// turn, and takes the freed groups off the store's count. `gone` is the number of groups that the
/// caller has freed but not taken off the count. Returns the number of freed stores.
///
/// # Safety
/// The caller has the turn at the shard. The store's count still includes a part that only this
/// thread may take off. The caller uses the store afterwards only if it has another part of the
/// store.
unsafe fn serve(world: &ArenaWorld, store: NonNull<ArenaStore>, shard: ShardPtr, mut gone: usize) -> usize {
    // SAFETY: the store lives until its last part is taken off, and this function takes off the
    // freed groups only at its end.
    let this = unsafe { store.as_ref() };
    let record = record_of(shard);
    let mut emptied = false;
    while let Some(left) = shard.turn().next() {
        let mut rest = left.groups;
        // SAFETY: this thread has the turn, so only this loop frees these groups (G1).
        while let Some(group) = unsafe { PageGroupPtr::from_raw(rest) } {
            rest = group.record().get().cast();
            if group.queued().get() != 0 {
                close::unlink(shard, group);
            }
            // SAFETY: this store made the group, its last slot was counted, and no list has it.
            unsafe { this.release_group(group) };
            gone += 1;
        }
        if left.look {
            gone += look_at(world, this, shard, true, OWN_LOOKS);
        }
        emptied = shard.groups().get().is_null();
    }
    // SAFETY: the parts taken off here are groups that this thread freed. After that, this function
    // does not use `this` or `shard`.
    let freed = gone != 0 && unsafe { ArenaStore::take_off_parts(store, gone) };
    if emptied && !freed && !weakened!("arena_bag_keeps_what_ended") {
        // The shard may still be in the record's bag, where it keeps the store from being freed.
        // This visit tries to take the shard out.
        return visit(world, record, Visitor::Finisher, LOOKS);
    }
    world.freed(freed)
}

/// Looks at up to `most` groups of a shard whose turn the caller has, and returns the number of
/// freed groups, which the caller must take off the store's count. The owner's look (`own`) starts
/// at the front and takes the groups off the queue. A look by another thread continues where the
/// last such look stopped.
fn look_at(world: &ArenaWorld, store: &ArenaStore, shard: ShardPtr, own: bool, most: usize) -> usize {
    let (first, cursor) = (shard.groups().get(), shard.cursor().get());
    let mut rest = if own || cursor.is_null() { first } else { cursor };
    let mut gone = 0;
    for _ in 0..most {
        // SAFETY: this thread has the turn, and only the turn-holder frees queued groups (G1).
        let Some(group) = (unsafe { PageGroupPtr::from_raw(rest) }) else { break };
        rest = group.next().get();
        world.looked();
        group.touch();
        // SAFETY: the arena was dropped, and this thread has the turn.
        let mut new = unsafe { close::note_freed(&store.geometry, shard, group) };
        if weakened!("arena_look_counts_nothing") {
            new = 0;
        }
        if own {
            close::unlink(shard, group);
            // If the look found no new slots, this is its last access to the group. The thread that
            // counts the last slot then frees the group itself.
            group.queued().publish(0);
        }
        if new != 0 && group.count_down(new) {
            if !own {
                close::unlink(shard, group);
            }
            // SAFETY: this store made the group, the look counted the last slot, and no list has
            // it.
            unsafe { store.release_group(group) };
            gone += 1;
        }
    }
    if !own {
        shard.cursor().set(rest);
    }
    gone
}

/// Visits the bag of a record in the role `visitor`: looks at up to `most` new shards and up to
/// `most` old ones. Repeats the visit, up to [`ROUNDS`] visits in total, if requests were left or
/// the record has lost its holder. Returns the number of freed stores, which is 0 if another thread
/// is visiting the bag.
pub(crate) fn visit(
    world: &ArenaWorld,
    record: &Record<ArenaRecord>,
    mut visitor: Visitor,
    mut most: usize,
) -> usize {
    let bag = &record.data().parked;
    let mut freed = 0;
    for round in 1..=ROUNDS {
        let Some(mut visit) = bag.visit_or_request(visitor.request()) else { break };
        let tries = matches!(visitor, Visitor::Successor | Visitor::Passer);
        let lease = if tries { record.try_lease() } else { None };
        let leased = lease.is_some();
        if leased {
            visitor = Visitor::Holder;
        }
        for next in [Visit::next_new, Visit::next_old] {
            for _ in 0..most {
                let Some(shard) = next(&mut visit) else { break };
                freed += look_into(world, &mut visit, shard, visitor, most);
            }
        }
        drop(lease);
        drop(visit);
        // ORDERING: SeqCst. Pairs with `visit_if_unheld` and `Bag::visit_or_request`. Publishes:
        // that the gate is open and the lease is released.
        fence(Ordering::SeqCst);
        // While this thread had the shards, another thread may have taken the record out of the bag
        // of records and found no shard.
        if !bag.is_empty() && !weakened!("arena_visit_notes_nothing") {
            push_record(world, record);
        }
        // This thread may be the only thread that can notice that the record is free. The record's
        // holder may have exited while this thread had shards from the bag, or another thread may
        // have pushed a shard while this thread had the lease.
        let waits = if leased { bag.has_news() } else { visitor != Visitor::Holder && !bag.is_empty() };
        let ended = waits && record.is_free();
        if round == ROUNDS {
            // Requests that arrived during this visit stay for the next visitor.
            break;
        }
        (visitor, most) = match bag.take_requests() {
            0 if !ended => break,
            1 if !ended && weakened!("arena_requests_are_one") => (Visitor::Finisher, LOOKS),
            // The finishers that found the bag in use share one bit for their requests, so this
            // visit examines all shards for them, and takes out the shards without a queued group.
            1 if !ended => (Visitor::Finisher, usize::MAX),
            _ => (Visitor::Successor, usize::MAX),
        };
    }
    freed
}

/// Handles the shard `item`, which `visit` has taken out of the bag: looks at it, unless `visitor`
/// is a finisher or another thread has the turn. Then keeps the shard for another visit if it still
/// has a queued group, and otherwise takes its part off the store's count. Returns the number of
/// freed stores.
fn look_into(
    world: &ArenaWorld,
    visit: &mut Visit<'_, Shard>,
    item: NonNull<Shard>,
    visitor: Visitor,
    most: usize,
) -> usize {
    // SAFETY: a shard in a bag is a part of its store, so the store is live (S1).
    let shard = unsafe { ShardPtr::new(item) };
    let (store, mut freed) = (ArenaStore::of(shard), 0);
    let own = visitor == Visitor::Holder;
    let has_turn = !shard.groups().get().is_null()
        && match visitor {
            Visitor::Holder => shard.turn().take_or_ask(),
            Visitor::Successor | Visitor::Passer => shard.turn().try_take(),
            Visitor::Finisher => false,
        };
    if has_turn {
        let most = if own { most.max(OWN_LOOKS) } else { most };
        // SAFETY: the shard is still a part of its store, so the store is live.
        let gone = look_at(world, unsafe { store.as_ref() }, shard, own, most);
        // SAFETY: this thread has the turn, and only it may take off the shard's part of the store.
        freed += unsafe { serve(world, store, shard, gone) };
    }
    if !shard.groups().get().is_null() {
        visit.keep(item);
        return freed;
    }
    world.parked.fetch_sub(1, Ordering::Relaxed);
    // SAFETY: this takes off the shard's part. The shard is out of the bag and has no queued group,
    // so no thread needs to look at it.
    freed + world.freed(unsafe { ArenaStore::take_off_parts(store, 1) })
}

#[cfg(all(test, not(ephemera_loom)))]
pub(crate) mod tests;
