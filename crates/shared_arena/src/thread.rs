//! Binds threads to records in the static world [`WORLD`], and calls `protocol` with the world and
//! the record. The public types call this module.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use ephemera_prim::local::{self, Held, Tenant};
use ephemera_prim::record::{FIRST, Lease, Record, Registry};

use crate::account::ReservedBytes;
use crate::error::{ANOTHER_COPY, RefusalCause, Refused};
use crate::geometry::ArenaGeometry;
use crate::group::{Far, PageGroupPtr};
use crate::owner::ShardOwner;
use crate::parked::{self, LOOKS, Visitor};
use crate::protocol;
use crate::store::ArenaStore;
use crate::world::{ArenaRecord, ArenaWorld, identity};

pub(crate) static WORLD: ArenaWorld =
    ArenaWorld::new(Registry::new([const { Record::new(ArenaRecord::new()) }; FIRST], ArenaRecord::new));

impl Tenant for ArenaRecord {
    type Near = ();

    fn near(_: &'static Record<Self>) {}

    ephemera_prim::tenant_statics!(ArenaRecord, registry: &WORLD.registry, nowhere: ArenaRecord::new(), near: ());

    fn enter(&self) {
        /// The number of the seat that the next new record gets. No record has the number 0.
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        Self::enter(self, || NEXT.fetch_add(1, Ordering::Relaxed));
    }

    /// Does nothing, because the pages stay with the record. The record's next holder, other
    /// threads that need pages of the same arena, and `shrink_to_fit` find the pages through the
    /// record.
    fn leave(_: &'static Record<Self>) {}

    fn release(lease: Lease<'static, Self>) {
        let record = lease.record();
        drop(lease);
        parked::visit_if_unheld(&WORLD, record, usize::MAX);
    }
}

/// Returns the identity of this thread's record, which the groups of the record have in their
/// headers.
#[inline]
pub(crate) fn here() -> *const () {
    identity(local::current::<ArenaRecord>())
}

/// Claims a slot from this thread's shard in `store`.
///
/// # Errors
/// If the thread has no slot at hand, returns [`Refused`] if another copy of this crate made the
/// store, or if an allocation that the claim needs fails.
#[inline]
pub(crate) fn claim(store: &ArenaStore, geometry: &ArenaGeometry) -> Result<NonNull<u8>, Refused> {
    let seat = local::current::<ArenaRecord>().data().seat();
    if let Some(shard) = store.shard(seat) {
        debug_assert!(store.is_ours(), "{ANOTHER_COPY}");
        if let Some(slot) = shard.claim(geometry) {
            return Ok(slot);
        }
    }
    claim_slow(store)
}

/// Claims a slot for a thread without a slot at hand.
#[cold]
#[inline(never)]
fn claim_slow(store: &ArenaStore) -> Result<NonNull<u8>, Refused> {
    if !store.is_ours() {
        return Err(store.account.refused(0, RefusalCause::OtherCopy));
    }
    // SAFETY: this thread holds the record, which belongs to `WORLD`, during the call.
    with_record(store, |record| unsafe { protocol::claim_slow(&WORLD, store, record) })
}

/// Makes this thread's shard in `store`, if there is none yet. This copy of the crate must have
/// made the store.
pub(crate) fn make_shard(store: &ArenaStore) -> Result<(), Refused> {
    // SAFETY: this thread holds the record during the call.
    let make =
        |record: &Record<ArenaRecord>| unsafe { store.make_shard(record.data().seat(), identity(record)) };
    with_record(store, make).map(drop)
}

/// Calls `visit` with a record that this thread holds during the call. The first call of a thread
/// binds the thread to a record, which its later calls use too. A thread that cannot be bound
/// leases a record for each call.
///
/// # Errors
/// Returns [`Refused`] if there is no memory for a record, or the error of `visit`.
fn with_record<R>(
    store: &ArenaStore,
    visit: impl FnOnce(&'static Record<ArenaRecord>) -> Result<R, Refused>,
) -> Result<R, Refused> {
    let no_record = || store.account.refused(size_of::<Record<ArenaRecord>>(), RefusalCause::Record);
    let held = local::hold::<ArenaRecord>().ok_or_else(no_record)?;
    let result = visit(held.record());
    if let Held::Leased(lease) = held {
        let record = lease.record();
        drop(lease);
        parked::visit_if_unheld(&WORLD, record, LOOKS);
    }
    result
}

/// Frees empty groups of the store, and asks other threads to trim: see [`protocol::shrink`].
/// Returns whether it freed a group.
pub(crate) fn shrink(store: &ArenaStore) -> bool {
    // SAFETY: a thread holds the record that it is bound to.
    unsafe { protocol::shrink(&WORLD, store, local::bound::<ArenaRecord>()) }
}

/// Looks at parked shards of up to two records: see [`parked::look`].
pub(crate) fn look() {
    parked::look(&WORLD, local::bound::<ArenaRecord>());
}

/// Looks at all parked shards: see [`parked::look_at_all`]. Returns the number of freed stores.
pub(crate) fn look_at_all() -> usize {
    parked::look_at_all(&WORLD, local::bound::<ArenaRecord>())
}

/// Drops the arena of a store.
///
/// # Safety
/// The caller drops the arena: no thread uses it except through handles to its slots.
pub(crate) unsafe fn close(store: NonNull<ArenaStore>) {
    // SAFETY: the caller drops the arena, and a thread holds the record that it is bound to.
    unsafe { protocol::close(&WORLD, store, local::bound::<ArenaRecord>()) };
}

/// Sorts the pages of this thread's shard: see [`ShardOwner::prefer_used_pages`].
pub(crate) fn prefer_used_pages(store: &ArenaStore) {
    let Some(record) = local::bound::<ArenaRecord>() else { return };
    if let Some(shard) = store.shard(record.data().seat()) {
        // SAFETY: a thread holds the record that it is bound to (O1).
        unsafe { ShardOwner::new(store, shard) }.prefer_used_pages();
    }
}

/// Makes room for a page's counts after `refused`: see [`protocol::make_room_for_counts`].
#[cold]
#[inline(never)]
pub(crate) fn make_room_for_counts(store: &ArenaStore, refused: Refused) -> Option<ReservedBytes<'_>> {
    // SAFETY: a thread holds the record that it is bound to.
    unsafe { protocol::make_room_for_counts(&WORLD, store, local::bound::<ArenaRecord>(), refused) }
}

/// Frees a slot of a page that this thread does not own, or whose arena was dropped.
///
/// # Safety
/// The caller owns the slot with the bit `bit` in the page with the far part `far` in `group`, and
/// does not use the slot again.
pub(crate) unsafe fn free_remote(group: PageGroupPtr, far: NonNull<Far>, bit: u64) {
    // SAFETY: the caller owns the slot with the bit `bit` in the page with this far part in
    // `group`, and does not use the slot again.
    if let Some(last) = unsafe { protocol::free_remote(&WORLD, group, far, bit) } {
        // SAFETY: `last` says whether that free counted the group's last slot, and this function
        // does not touch the group again.
        unsafe { finish_counted(group, last) };
    }
}

/// Completes a free that counted its slot: if `last`, frees the group or leaves it for the
/// turn-holder. Then looks at parked shards of this thread's record, as its holder: no local free
/// is in progress on this thread.
///
/// # Safety
/// If `last`, the caller counted the last slot of the group, and does not touch the group again.
#[cold]
#[inline(never)]
unsafe fn finish_counted(group: PageGroupPtr, last: bool) {
    if last {
        // SAFETY: the caller counted the last slot of the group, and does not touch the group
        // again.
        unsafe { parked::last_slot_counted(&WORLD, group) };
    }
    let record = local::current::<ArenaRecord>();
    // NOWHERE and GONE never own shards, so their bags are empty. A thread whose current record has
    // a bag with shards therefore holds that record.
    if !record.data().parked.is_empty() {
        parked::visit(&WORLD, record, Visitor::Holder, LOOKS);
    }
}
