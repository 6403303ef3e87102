//! The one world of the process, and which record this thread stands for in it.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::thread::LocalKey;

use ephemera_prim::local::{self, Held, Here, Tenant};
use ephemera_prim::record::{FIRST, Lease, Record, Registry};

use crate::error::{ANOTHER_COPY, Refused};
use crate::geometry::Geometry;
use crate::group::{Far, GroupPtr};
use crate::parked::{self, LOOKS, Visitor};
use crate::store::Store;
use crate::world::{self, Place, World, identity};

pub(crate) static WORLD: World =
    World::new(Registry::new([const { Record::new(Place::new()) }; FIRST], Place::new));

/// Threads that did not allocate yet.
static NOWHERE: Record<Place> = Record::new(Place::new());
/// Threads whose exit guard is gone.
static GONE: Record<Place> = Record::new(Place::new());

std::thread_local! {
    static HERE: Here<Place> = const {
        // SAFETY: a static.
        unsafe { Here::new(&raw const NOWHERE, ()) }
    };
}

impl Tenant for Place {
    type Near = ();

    fn near(_: &'static Record<Self>) {}

    fn registry() -> &'static Registry<Self> {
        &WORLD.registry
    }

    #[inline]
    fn here() -> &'static LocalKey<Here<Self>> {
        &HERE
    }

    #[inline]
    fn nowhere() -> &'static Record<Self> {
        &NOWHERE
    }

    #[inline]
    fn gone() -> &'static Record<Self> {
        &GONE
    }

    fn enter(&self) {
        /// The number of the next record that is used for the first time; 0 is nobody's.
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        Self::enter(self, || NEXT.fetch_add(1, Ordering::Relaxed));
    }

    /// Nothing: the pages stay with the record, for the next thread that takes it, for a thread of the same arena that needs
    /// pages, and for `shrink_to_fit`.
    fn leave(_: &'static Record<Self>) {}

    fn release(lease: Lease<'static, Self>) {
        let record = lease.record();
        drop(lease);
        parked::look_behind_the_owner(&WORLD, record, usize::MAX);
    }
}

/// The identity of this thread, as groups carry it.
#[inline]
pub(crate) fn here() -> *const () {
    identity(local::current::<Place>())
}

/// A slot from this thread's shard of the store.
#[inline]
pub(crate) fn claim(store: &Store, geometry: &Geometry) -> Result<NonNull<u8>, Refused> {
    let seat = local::current::<Place>().shard().seat();
    if let Some(shard) = store.shard(seat) {
        debug_assert!(store.is_ours(), "{ANOTHER_COPY}");
        if let Some(slot) = shard.claim(geometry) {
            return Ok(slot);
        }
    }
    claim_slow(store)
}

/// The same, for a thread that may have to get its record first, or lease one for this operation, when its guard is gone.
#[cold]
#[inline(never)]
fn claim_slow(store: &Store) -> Result<NonNull<u8>, Refused> {
    if !store.is_ours() {
        return Err(store.account().other_copy());
    }
    let no_record = || store.account().refused(size_of::<Record<Place>>());
    let held = local::hold::<Place>().ok_or_else(no_record)?;
    // SAFETY: held, bound or leased, until after this call.
    let slot = unsafe { world::claim_slow(&WORLD, store, held.record()) };
    if let Held::Leased(lease) = held {
        let record = lease.record();
        drop(lease);
        parked::look_behind_the_owner(&WORLD, record, LOOKS);
    }
    slot
}

/// Gives back what is empty in the store, as far as this thread can reach it.
pub(crate) fn shrink(store: &Store) -> bool {
    // SAFETY: a thread holds the record that it is bound to.
    unsafe { world::shrink(&WORLD, store, local::bound::<Place>()) }
}

/// Looks at some of what dropped arenas have left. Called as an arena is created.
pub(crate) fn look() {
    parked::look(&WORLD, local::bound::<Place>());
}

/// Looks at all that dropped arenas have left, and returns how many of them were freed.
pub(crate) fn look_at_all() -> usize {
    parked::look_at_all(&WORLD, local::bound::<Place>())
}

/// Drops the arena of a store.
///
/// # Safety
/// As [`world::close`].
pub(crate) unsafe fn close(store: NonNull<Store>) {
    // SAFETY: the caller's; a thread holds the record that it is bound to.
    unsafe { world::close(&WORLD, store, local::bound::<Place>()) };
}

/// Makes room in the store after this refusal.
#[cold]
#[inline(never)]
pub(crate) fn make_room(store: &Store, refused: Refused) {
    // SAFETY: a thread holds the record that it is bound to.
    unsafe { world::make_room(&WORLD, store, local::bound::<Place>(), refused) };
}

/// Gives back a slot that is not home on this thread, or whose arena was dropped.
///
/// # Safety
/// As [`world::give_back`].
pub(crate) unsafe fn give_back(group: GroupPtr, far: NonNull<Far>, bit: u64) {
    // SAFETY: the caller's.
    if let Some(last) = unsafe { world::give_back(&WORLD, group, far, bit) } {
        // SAFETY: what the line above counted.
        unsafe { gone(group, last) };
    }
}

/// After a free that counted its slot: frees the group with the last one. Then this thread is past its free, and looks at what dropped
/// arenas left for it.
///
/// # Safety
/// As [`world::gone`].
#[cold]
#[inline(never)]
unsafe fn gone(group: GroupPtr, last: bool) {
    // SAFETY: the caller's.
    unsafe { world::gone(&WORLD, group, last) };
    let record = local::current::<Place>();
    // Only a record that this thread holds has something in its bag: NOWHERE and GONE own nothing.
    if !record.shard().parting.is_empty() {
        parked::visit(&WORLD, record, Visitor::Holder, LOOKS);
    }
}
