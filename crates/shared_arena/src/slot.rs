//! Frees slots, and holds a claimed slot in a guard.
//!
//! A slot is claimed completely before user code runs. The guard frees it, even if that code
//! panics.

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use ephemera_prim::poison::poison;

use crate::close;
use crate::counts::Count;
use crate::error::Refused;
use crate::geometry::Position;
use crate::group::{Of, PageGroupPtr};
use crate::shard::ShardPtr;
use crate::store::ArenaStore;
#[cfg(all(feature = "std", target_has_atomic = "64"))]
use crate::thread;

/// The kinds of arena that a handle's slot can come from. The kind determines which threads may
/// free it, and what a free checks.
pub(crate) trait ArenaKind {
    /// Frees a slot without dropping its value.
    ///
    /// # Safety
    /// `slot` was claimed from an arena of this kind. The calling thread may free it, and the
    /// caller does not use it again.
    unsafe fn free<T>(slot: NonNull<T>);
}

/// Slots of `SharedArena` and `Arena`, which any thread may free.
#[cfg(all(feature = "std", target_has_atomic = "64"))]
#[derive(Debug)]
pub(crate) enum Threads {}

/// Slots of a `Pool`.
#[derive(Debug)]
pub(crate) enum OneThread {}

/// Slots of any arena of this crate: those of [`ArenaRc`](crate::ArenaRc), which has one type for
/// all of them.
#[derive(Debug)]
pub(crate) enum Either {}

/// Returns the identity that groups of pools carry in place of a record's address.
#[inline]
pub(crate) fn pool_mark() -> *const () {
    static MARK: u8 = 0;
    (&raw const MARK).cast()
}

/// Poisons a slot that is about to be freed, and returns its group.
///
/// # Safety
/// As for [`ArenaKind::free`].
#[inline]
unsafe fn leave<T>(slot: NonNull<T>) -> PageGroupPtr {
    // SAFETY: the caller owns the slot and needs nothing of its value any more.
    unsafe { poison(slot.cast(), Of::<T>::GEOMETRY.stride) };
    // SAFETY: the pointer derives from the group, which lives while one of its slots is in use.
    unsafe { PageGroupPtr::around(slot, Of::<T>::GEOMETRY.group) }
}

/// Frees a slot to the shard that its group is bound to.
///
/// # Safety
/// As for [`ArenaKind::free`], and this thread owns the shard.
#[inline]
unsafe fn put<T>(group: PageGroupPtr, slot: NonNull<T>) {
    // SAFETY: a slot of the group is in use, so the group is bound.
    let shard = unsafe { ShardPtr::of(group) };
    // SAFETY: the caller owns the shard, and frees a slot of its group.
    unsafe { shard.put(&Of::<T>::GEOMETRY, group, slot.cast()) };
}

/// Frees a slot on a thread that does not own its page, or after the arena's drop.
///
/// # Safety
/// As for [`ArenaKind::free`].
#[cfg(all(feature = "std", target_has_atomic = "64"))]
#[inline(never)]
unsafe fn free_remote<T>(group: PageGroupPtr, slot: NonNull<T>) {
    // The stride is a constant here, so the division is cheap. For this reason the function is
    // generic.
    let geometry = &Of::<T>::GEOMETRY;
    let position = geometry.position(slot.addr().get() & (geometry.group - 1));
    // SAFETY: the caller frees this slot, and `position` has its page and bit.
    unsafe { thread::free_remote(group, group.far(geometry, position.page), 1 << position.slot) };
}

#[cfg(all(feature = "std", target_has_atomic = "64"))]
impl ArenaKind for Threads {
    #[inline]
    unsafe fn free<T>(slot: NonNull<T>) {
        // SAFETY: the caller frees this slot.
        let group = unsafe { leave(slot) };
        if group.record().get().cast_const() == thread::here() {
            // SAFETY: this thread holds the group's record.
            unsafe { put(group, slot) };
        } else {
            // SAFETY: the caller frees this slot of `group`.
            unsafe { free_remote(group, slot) };
        }
    }
}

impl ArenaKind for OneThread {
    #[inline]
    unsafe fn free<T>(slot: NonNull<T>) {
        // SAFETY: the caller frees this slot.
        let group = unsafe { leave(slot) };
        if group.record().get().is_null() {
            // The pool was dropped, and this is its only thread.
            if group.count_down_alone(1) {
                // SAFETY: the count above was the group's last one.
                unsafe { close::release(group) };
            }
        } else {
            // SAFETY: this is the pool's only thread.
            unsafe { put(group, slot) };
        }
    }
}

impl ArenaKind for Either {
    #[inline]
    unsafe fn free<T>(slot: NonNull<T>) {
        // SAFETY: the slot is in use, so its group is live. The reference covers the word alone.
        let record =
            unsafe { PageGroupPtr::around(slot, Of::<T>::GEOMETRY.group) }.record().get().cast_const();
        if record == pool_mark() {
            // SAFETY: the caller frees this slot, which belongs to a pool.
            unsafe { OneThread::free(slot) };
        } else {
            // SAFETY: the caller frees this slot, which belongs to an arena or to a dropped pool.
            unsafe { free_other(slot) };
        }
    }
}

/// Frees a slot of a `SharedArena`, of an `Arena`, or of a dropped pool.
///
/// # Safety
/// As for [`Either::free`], and the slot does not belong to a live pool.
#[cfg(all(feature = "std", target_has_atomic = "64"))]
#[inline]
unsafe fn free_other<T>(slot: NonNull<T>) {
    // SAFETY: the slot is in use, so its group is live.
    let group = unsafe { PageGroupPtr::around(slot, Of::<T>::GEOMETRY.group) };
    // SAFETY: a slot of the group is in use, so the group is bound.
    let store = || ArenaStore::of(unsafe { ShardPtr::of(group) });
    // SAFETY: the store is live while a slot of it is in use.
    if group.record().get().is_null() && unsafe { store().as_ref() }.single() {
        // SAFETY: the caller frees this slot, which belongs to a dropped pool.
        unsafe { OneThread::free(slot) };
    } else {
        // SAFETY: the caller frees this slot, which belongs to an arena.
        unsafe { Threads::free(slot) };
    }
}

/// Frees a slot of a pool that was dropped.
///
/// # Safety
/// As for [`Either::free`], and the slot does not belong to a live pool.
#[cfg(not(all(feature = "std", target_has_atomic = "64")))]
#[inline]
unsafe fn free_other<T>(slot: NonNull<T>) {
    // SAFETY: pools are the only arenas on this target.
    unsafe { OneThread::free(slot) };
}

/// A claimed slot that no handle has yet. Dropping it frees the slot, but does not drop a value in
/// it.
pub(crate) struct ClaimedSlot<T, H: ArenaKind> {
    place: NonNull<T>,
    home: PhantomData<H>,
}

impl<T, H: ArenaKind> ClaimedSlot<T, H> {
    /// # Safety
    /// `place` is a slot of an arena of this kind for `T`. The caller owns it and transfers it to
    /// this guard.
    #[inline]
    pub(crate) unsafe fn adopt(place: NonNull<T>) -> Self {
        Self { place, home: PhantomData }
    }

    /// Returns the slot, which this guard does not free any more.
    #[inline]
    pub(crate) fn keep(self) -> NonNull<T> {
        core::mem::ManuallyDrop::new(self).place
    }

    /// Writes a value to the slot.
    #[inline]
    pub(crate) fn write(self, value: T) -> NonNull<T> {
        // SAFETY: this guard owns the slot, which is aligned and large enough for a `T`.
        unsafe { self.place.write(value) };
        self.keep()
    }

    /// Has `init` write a value to the slot.
    ///
    /// # Panics
    /// Panics if `init` returns a reference to anything but the slot. The slot is then free, and no
    /// value in it was dropped.
    #[inline]
    #[track_caller]
    pub(crate) fn init(self, init: impl FnOnce(&mut MaybeUninit<T>) -> &T) -> NonNull<T> {
        // SAFETY: this guard owns the slot, which is aligned and large enough; `MaybeUninit` may
        // have any contents.
        let place = unsafe { self.place.cast::<MaybeUninit<T>>().as_mut() };
        let value: *const T = init(place);
        if value != self.place.as_ptr().cast_const() {
            drop(self);
            another_reference();
        }
        self.keep()
    }

    /// Starts the counts of this slot with one strong handle.
    ///
    /// # Errors
    /// [`Refused`] if there is no memory for the page's counts.
    #[inline]
    pub(crate) fn start_counts(&self, store: &ArenaStore) -> Result<(), Refused> {
        let (group, position) = locate(self.place);
        group.make_counts(store.account(), &Of::<T>::GEOMETRY, position.page, position.slot)?.start();
        Ok(())
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
        // SAFETY: the guard owns the slot, and `H` is its kind.
        unsafe { H::free(self.place) };
    }
}

/// Returns the group of a slot that is in use, and the slot's position in it.
#[inline]
fn locate<T>(place: NonNull<T>) -> (PageGroupPtr, Position) {
    let geometry = &Of::<T>::GEOMETRY;
    // SAFETY: a slot's pointer derives from its group, which lives while one of its slots is in
    // use.
    let group = unsafe { PageGroupPtr::around(place, geometry.group) };
    (group, geometry.position(place.addr().get() & (geometry.group - 1)))
}

/// Returns the counts of a slot that has a counted handle.
///
/// # Safety
/// The caller has a counted handle to `place`, and does not use the result after that handle is
/// gone.
#[inline]
pub(crate) unsafe fn count_of<'a, T>(place: NonNull<T>) -> &'a Count {
    let (group, position) = locate(place);
    // SAFETY: the page got its counts before the handle was made.
    let count: *const Count = unsafe { group.count(&Of::<T>::GEOMETRY, position.page, position.slot) };
    // SAFETY: the counts live while a slot of the group is in use.
    unsafe { &*count }
}
