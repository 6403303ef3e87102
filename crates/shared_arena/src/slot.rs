//! Defines how slots are freed, and the guard that holds a claimed slot.
//!
//! An arena completes the claim of a slot before it calls user code. If the user code panics, the
//! guard frees the slot.

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use ephemera_prim::poison::poison;

use crate::account::ReservedBytes;
use crate::close;
use crate::counts::Count;
use crate::error::Refused;
use crate::geometry::Position;
use crate::group::{GroupsOf, PageGroupPtr};
use crate::shard::ShardPtr;
use crate::store::ArenaStore;
#[cfg(all(feature = "std", target_has_atomic = "64"))]
use crate::thread;

/// The kind of arena from which a handle's slot comes. It determines which threads may free the
/// slot and what a free checks.
pub(crate) trait ArenaKind {
    /// Frees a slot without dropping its value.
    ///
    /// # Safety
    /// `slot` was claimed from an arena of this kind for `T`. The calling thread is allowed to free
    /// the slot, and the caller does not use it again.
    unsafe fn free<T>(slot: NonNull<T>);
}

/// The kind of `SharedArena` and `Arena`, whose slots any thread may free.
#[cfg(all(feature = "std", target_has_atomic = "64"))]
#[derive(Debug)]
pub(crate) enum Threads {}

/// The kind of `Pool`, whose slots only one thread may free.
#[derive(Debug)]
pub(crate) enum OneThread {}

/// The kind for [`ArenaRc`](crate::ArenaRc), whose slots may come from any arena. Each free checks
/// the kind of the slot's arena.
#[derive(Debug)]
pub(crate) enum Either {}

/// Returns the mark that a group of a `Pool` has in its header in place of a record's address.
#[inline]
pub(crate) fn pool_mark() -> *const () {
    static MARK: u8 = 0;
    (&raw const MARK).cast()
}

/// Poisons a slot that is about to be freed, and returns its group.
///
/// # Safety
/// The caller owns `slot` and does not use the value in it again. The slot was claimed from an
/// arena of this crate for `T`.
#[inline]
unsafe fn leave<T>(slot: NonNull<T>) -> PageGroupPtr {
    // SAFETY: the caller owns the slot and does not use its value again.
    unsafe { poison(slot.cast(), GroupsOf::<T>::GEOMETRY.stride) };
    // SAFETY: the pointer derives from the group, which lives while one of its slots is in use.
    unsafe { PageGroupPtr::around(slot, GroupsOf::<T>::GEOMETRY.group) }
}

/// Frees a slot to the shard of its group.
///
/// # Safety
/// `slot` was claimed from `group`, and this thread owns the shard to which the group is bound. The
/// caller does not use the slot again.
#[inline]
unsafe fn put<T>(group: PageGroupPtr, slot: NonNull<T>) {
    // SAFETY: a slot of the group is in use, so the group is bound.
    let shard = unsafe { ShardPtr::of(group) };
    // SAFETY: this thread owns the shard. The slot was claimed from `group`, and the caller does
    // not use it again.
    unsafe { shard.put(&GroupsOf::<T>::GEOMETRY, group, slot.cast()) };
}

/// Frees a slot on a thread that does not own the slot's page, or after the arena's drop.
///
/// # Safety
/// `slot` was claimed from `group`, which belongs to a `SharedArena` or `Arena`. The caller owns
/// the slot and does not use it again.
#[cfg(all(feature = "std", target_has_atomic = "64"))]
#[inline(never)]
unsafe fn free_remote<T>(group: PageGroupPtr, slot: NonNull<T>) {
    // This function is generic so that the stride is a constant, which makes the division by the
    // stride cheap.
    let geometry = &GroupsOf::<T>::GEOMETRY;
    let position = geometry.position(slot.addr().get());
    // SAFETY: the caller owns the slot, which was claimed from `group`, and does not use it again.
    // `position` names the slot's page and bit.
    unsafe { thread::free_remote(group, group.far(geometry, position.page), 1 << position.slot) };
}

#[cfg(all(feature = "std", target_has_atomic = "64"))]
impl ArenaKind for Threads {
    #[inline]
    unsafe fn free<T>(slot: NonNull<T>) {
        // SAFETY: the caller owns this slot and does not use its value again.
        let group = unsafe { leave(slot) };
        if group.record().get().cast_const() == thread::here() {
            // SAFETY: this thread holds the group's record, so it owns the shard. The slot was
            // claimed from `group`, and the caller does not use it again.
            unsafe { put(group, slot) };
        } else {
            // SAFETY: the slot was claimed from `group`, whose arena is of this kind. The caller
            // does not use the slot again.
            unsafe { free_remote(group, slot) };
        }
    }
}

impl ArenaKind for OneThread {
    #[inline]
    unsafe fn free<T>(slot: NonNull<T>) {
        // SAFETY: the caller owns this slot and does not use its value again.
        let group = unsafe { leave(slot) };
        if group.record().get().is_null() {
            // The pool was dropped. Only this thread uses its groups, so the count does not need a
            // read-modify-write.
            if group.count_down_alone(1) {
                // SAFETY: the pool was dropped, its groups are never queued, and this free counted
                // the last slot of the group.
                unsafe { close::release(group) };
            }
        } else {
            // SAFETY: this is the pool's only thread, so it owns the shard. The slot was claimed
            // from `group`, and the caller does not use it again.
            unsafe { put(group, slot) };
        }
    }
}

impl ArenaKind for Either {
    #[inline]
    unsafe fn free<T>(slot: NonNull<T>) {
        #[cfg(all(feature = "std", target_has_atomic = "64"))]
        if !is_of_pool(slot) {
            // SAFETY: the slot belongs to an arena that is not a pool. The caller may free it and
            // does not use it again.
            return unsafe { Threads::free(slot) };
        }
        // SAFETY: the slot belongs to a pool. The caller may free it and does not use it again.
        unsafe { OneThread::free(slot) };
    }
}

/// Returns whether a slot in use belongs to a pool, live or dropped.
#[cfg(all(feature = "std", target_has_atomic = "64"))]
#[inline]
fn is_of_pool<T>(slot: NonNull<T>) -> bool {
    // SAFETY: the pointer derives from the slot's group, which lives while one of its slots is in
    // use.
    let group = unsafe { PageGroupPtr::around(slot, GroupsOf::<T>::GEOMETRY.group) };
    let record = group.record().get().cast_const();
    // SAFETY: a slot of the group is in use, so the group is bound.
    let store = || ArenaStore::of(unsafe { ShardPtr::of(group) });
    // SAFETY: the store is live while one of its slots is in use.
    record == pool_mark() || (record.is_null() && unsafe { store().as_ref() }.single)
}

/// A guard for a claimed slot that no handle owns. Dropping the guard frees the slot without
/// dropping a value in it.
pub(crate) struct ClaimedSlot<T, H: ArenaKind> {
    place: NonNull<T>,
    home: PhantomData<H>,
}

impl<T, H: ArenaKind> ClaimedSlot<T, H> {
    /// # Safety
    /// `place` is a slot of an arena of this kind for `T`. The caller owns the slot, and passes the
    /// ownership to the guard.
    #[inline]
    pub(crate) unsafe fn adopt(place: NonNull<T>) -> Self {
        Self { place, home: PhantomData }
    }

    /// Returns the slot without freeing it.
    #[inline]
    pub(crate) fn keep(self) -> NonNull<T> {
        core::mem::ManuallyDrop::new(self).place
    }

    /// Writes a value to the slot, and returns the slot.
    #[inline]
    pub(crate) fn write(self, value: T) -> NonNull<T> {
        // SAFETY: this guard owns the slot, which is aligned and large enough for a `T`.
        unsafe { self.place.write(value) };
        self.keep()
    }

    /// Initialises the slot with `init`, and returns the slot.
    ///
    /// # Panics
    /// Panics if `init` returns a reference to a place other than the slot. The slot is then freed
    /// without dropping a value in it.
    #[inline]
    #[track_caller]
    pub(crate) fn init(self, init: impl FnOnce(&mut MaybeUninit<T>) -> &T) -> NonNull<T> {
        // SAFETY: this guard owns the slot, which is aligned and large enough for a `T`. A
        // `MaybeUninit` does not need initialised contents.
        let place = unsafe { self.place.cast::<MaybeUninit<T>>().as_mut() };
        let value: *const T = init(place);
        if value != self.place.as_ptr().cast_const() {
            drop(self);
            another_reference();
        }
        self.keep()
    }

    /// Sets the counts of this slot to one strong handle. First allocates the counts of the slot's
    /// page if the page has none.
    ///
    /// # Errors
    /// Returns [`Refused`] if the limit or the global allocator refuses the memory for the page's
    /// counts.
    #[inline]
    pub(crate) fn start_counts(&self, store: &ArenaStore) -> Result<(), Refused> {
        let (group, position) = locate(self.place);
        group.make_counts(&store.account, &GroupsOf::<T>::GEOMETRY, position)?.start();
        Ok(())
    }

    /// Retries [`Self::start_counts`] after `refused`, the refusal of the counts of this slot's
    /// page. Returns this slot or a different one, with its counts started. On failure, frees the
    /// slot and returns a refusal.
    ///
    /// `make_room` frees the empty groups and reserves the bytes of a page's counts, or returns
    /// `None` if there is still no room. `prefer_used` makes `claim` prefer slots of partly used
    /// groups.
    #[cold]
    #[inline(never)]
    pub(crate) fn retry_counts<'s>(
        self,
        store: &'s ArenaStore,
        refused: Refused,
        make_room: impl Fn() -> Option<ReservedBytes<'s>>,
        prefer_used: impl FnOnce(),
        claim: impl Fn() -> Result<Self, Refused>,
    ) -> Result<Self, Refused> {
        if make_room().is_some() {
            self.start_counts(store)?;
            return Ok(self);
        }
        // After `make_room`, this thread can empty only the group of this slot. Another page may
        // have both counts and a free slot.
        let (group, _) = locate(self.place);
        let (address, pages) = (group.as_ptr(), group.pages());
        drop(self);
        prefer_used();
        let slot = claim().map_err(|_| refused)?;
        if slot.start_counts(store).is_ok() {
            return Ok(slot);
        }
        let is_elsewhere = locate(slot.place).0.as_ptr() != address;
        let kept = if is_elsewhere {
            // If the drop above left the first slot's group empty, `make_room` can free that group.
            Some(slot)
        } else if pages > 1 {
            // If this drop leaves the group empty, `make_room` can free that group. Its bytes can
            // be enough for a group with fewer pages and for the counts.
            drop(slot);
            None
        } else {
            return Err(refused);
        };
        let room = make_room();
        // The bytes stay reserved during the claim, so that a new group leaves room for the counts.
        let slot = kept.map_or_else(|| claim().map_err(|_| refused), Ok)?;
        drop(room);
        slot.start_counts(store)?;
        Ok(slot)
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn another_reference() -> ! {
    panic!("the initialiser returned a reference to something other than the slot it was given");
}

impl<T, H: ArenaKind> Drop for ClaimedSlot<T, H> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard owns the slot, and the slot's arena is of the kind `H`.
        unsafe { H::free(self.place) };
    }
}

/// Returns the group of a slot that is in use, and the slot's position in it.
#[inline]
fn locate<T>(place: NonNull<T>) -> (PageGroupPtr, Position) {
    let geometry = &GroupsOf::<T>::GEOMETRY;
    // SAFETY: a slot's pointer derives from its group, which lives while one of its slots is in
    // use.
    let group = unsafe { PageGroupPtr::around(place, geometry.group) };
    (group, geometry.position(place.addr().get()))
}

/// Returns the counts of a slot that has a counted handle.
///
/// # Safety
/// The caller has a counted handle to `place`, and does not use the result after that handle is
/// gone.
#[inline]
pub(crate) unsafe fn count_of<'a, T>(place: NonNull<T>) -> &'a Count {
    let (group, position) = locate(place);
    // SAFETY: `make_counts` made the page's array before the handle was made. The handle keeps the
    // group from being freed, and the caller does not use the result after the handle is gone.
    unsafe { group.count(&GroupsOf::<T>::GEOMETRY, position) }
}
