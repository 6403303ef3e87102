//! A claimed slot, and the ways home.
//!
//! A slot is claimed fully before user code runs, and given back by a guard, whatever that code does.

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use ephemera_prim::poison::poison;

use crate::close;
use crate::counts::Count;
use crate::error::Refused;
use crate::geometry::Position;
use crate::group::{GroupPtr, Of};
use crate::store::Store;
#[cfg(all(feature = "std", target_has_atomic = "64"))]
use crate::thread;

/// The way home of a slot: which threads may give it back, and so what has to be found out.
pub(crate) trait Home {
    /// Gives back a slot. Nothing in it is dropped.
    ///
    /// # Safety
    /// `slot` was claimed from an arena whose handles go this way home, on a thread that may give it back, and the caller gives it up.
    unsafe fn free<T>(slot: NonNull<T>);
}

/// Slots of `SharedArena` and `Arena`, given back by any thread.
#[cfg(all(feature = "std", target_has_atomic = "64"))]
#[derive(Debug)]
pub(crate) enum Threads {}

/// Slots of a `Pool`.
#[derive(Debug)]
pub(crate) enum Single {}

/// Slots of any of them.
#[derive(Debug)]
pub(crate) enum Either {}

/// The identity that groups of pools carry.
#[inline]
pub(crate) fn pool_mark() -> *const () {
    static MARK: u8 = 0;
    (&raw const MARK).cast()
}

/// The group of a slot that is given up, which is no longer to be touched.
///
/// # Safety
/// As [`Home::free`].
#[inline]
unsafe fn leave<T>(slot: NonNull<T>) -> GroupPtr {
    // SAFETY: the caller's slot, of which nothing is needed any more.
    unsafe { poison(slot.cast(), Of::<T>::GEOMETRY.stride) };
    // SAFETY: the pointer came from the group, which lives as long as a slot of it is out.
    unsafe { GroupPtr::around(slot, Of::<T>::GEOMETRY.group) }
}

/// Gives a slot to the shard that its group is bound to.
///
/// # Safety
/// As [`Home::free`], and this thread owns the shard.
#[inline]
unsafe fn put<T>(group: GroupPtr, slot: NonNull<T>) {
    // SAFETY: a slot of the group is out, so it is bound.
    let shard = unsafe { group.shard_of() };
    // SAFETY: the caller's.
    unsafe { shard.put(&Of::<T>::GEOMETRY, group, slot.cast()) };
}

/// Gives a slot back from a thread that does not own its page, or after the arena was dropped.
///
/// # Safety
/// As [`Home::free`].
#[cfg(all(feature = "std", target_has_atomic = "64"))]
#[inline(never)]
unsafe fn give_back<T>(group: GroupPtr, slot: NonNull<T>) {
    // The division is by what is known when the type is: that is why this is not one function for all types.
    let geometry = &Of::<T>::GEOMETRY;
    let position = geometry.position(slot.addr().get() & (geometry.group - 1));
    // SAFETY: the caller's slot, and its page and bit.
    unsafe { thread::give_back(group, group.far(geometry, position.page), 1 << position.slot) };
}

#[cfg(all(feature = "std", target_has_atomic = "64"))]
impl Home for Threads {
    #[inline]
    unsafe fn free<T>(slot: NonNull<T>) {
        // SAFETY: the caller's.
        let group = unsafe { leave(slot) };
        if group.record().get().cast_const() == thread::here() {
            // SAFETY: this thread holds the group's record.
            unsafe { put(group, slot) };
        } else {
            // SAFETY: the caller's.
            unsafe { give_back(group, slot) };
        }
    }
}

impl Home for Single {
    #[inline]
    unsafe fn free<T>(slot: NonNull<T>) {
        // SAFETY: the caller's.
        let group = unsafe { leave(slot) };
        if group.record().get().is_null() {
            // The pool was dropped, and this is its one thread.
            if group.count_down_alone(1) {
                // SAFETY: counted above.
                unsafe { close::release(group) };
            }
        } else {
            // SAFETY: this is the pool's one thread.
            unsafe { put(group, slot) };
        }
    }
}

impl Home for Either {
    #[inline]
    unsafe fn free<T>(slot: NonNull<T>) {
        // SAFETY: the caller's; a reference to the word alone.
        let record = unsafe { GroupPtr::around(slot, Of::<T>::GEOMETRY.group) }.record().get().cast_const();
        if record == pool_mark() {
            // SAFETY: the caller's slot, of a pool.
            unsafe { Single::free(slot) };
        } else {
            // SAFETY: the caller's slot, of an arena, or of a pool that was dropped.
            unsafe { free_other(slot) };
        }
    }
}

/// # Safety
/// As [`Either::free`]; the slot is not of a pool that lives.
#[cfg(all(feature = "std", target_has_atomic = "64"))]
#[inline]
unsafe fn free_other<T>(slot: NonNull<T>) {
    // SAFETY: the caller's.
    let group = unsafe { GroupPtr::around(slot, Of::<T>::GEOMETRY.group) };
    // SAFETY: the store lives: a slot of it is out.
    if group.record().get().is_null() && unsafe { &*group.store() }.single() {
        // SAFETY: the caller's slot, of a pool that was dropped.
        unsafe { Single::free(slot) };
    } else {
        // SAFETY: the caller's slot, of an arena.
        unsafe { Threads::free(slot) };
    }
}

/// # Safety
/// As [`Either::free`].
#[cfg(not(all(feature = "std", target_has_atomic = "64")))]
#[inline]
unsafe fn free_other<T>(slot: NonNull<T>) {
    // SAFETY: there are only pools.
    unsafe { Single::free(slot) };
}

/// A slot that was claimed and not handed out yet: given back when dropped, whatever is in it.
pub(crate) struct Slot<T, H: Home> {
    place: NonNull<T>,
    home: PhantomData<H>,
}

impl<T, H: Home> Slot<T, H> {
    /// # Safety
    /// `place` is a slot of an arena for `T`, which the caller has for itself and gives up to this guard; this is its way home.
    #[inline]
    pub(crate) unsafe fn adopt(place: NonNull<T>) -> Self {
        Self { place, home: PhantomData }
    }

    /// The slot, not given back any more.
    #[inline]
    pub(crate) fn keep(self) -> NonNull<T> {
        core::mem::ManuallyDrop::new(self).place
    }

    /// Puts a value into the slot.
    #[inline]
    pub(crate) fn write(self, value: T) -> NonNull<T> {
        // SAFETY: the slot is ours, aligned and large enough for a `T`.
        unsafe { self.place.write(value) };
        self.keep()
    }

    /// Has `init` put a value into the slot.
    ///
    /// # Panics
    /// If it returns another reference than one to what it was given. The slot is then free again and nothing was dropped in it.
    #[inline]
    #[track_caller]
    pub(crate) fn init(self, init: impl FnOnce(&mut MaybeUninit<T>) -> &T) -> NonNull<T> {
        // SAFETY: the slot is ours, aligned and large enough; nothing is claimed of what is in it.
        let place = unsafe { self.place.cast::<MaybeUninit<T>>().as_mut() };
        let value: *const T = init(place);
        if value != self.place.as_ptr().cast_const() {
            drop(self);
            another_reference();
        }
        self.keep()
    }

    /// The counts of this slot, started with one strong handle.
    #[inline]
    pub(crate) fn start_counts(&self, store: &Store) -> Result<(), Refused> {
        let (group, position) = locate(self.place);
        group.make_counts(store, &Of::<T>::GEOMETRY, position.page, position.slot)?.start();
        Ok(())
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn another_reference() -> ! {
    panic!("the initialiser returned a reference to something else than the slot it was given");
}

impl<T, H: Home> Drop for Slot<T, H> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard has the slot, and this is its way home.
        unsafe { H::free(self.place) };
    }
}

/// The group of a slot that somebody has, and which of its slots it is.
#[inline]
fn locate<T>(place: NonNull<T>) -> (GroupPtr, Position) {
    let geometry = &Of::<T>::GEOMETRY;
    // SAFETY: pointers to slots come from their groups, which live as long as a slot of them is out.
    let group = unsafe { GroupPtr::around(place, geometry.group) };
    (group, geometry.position(place.addr().get() & (geometry.group - 1)))
}

/// The counts of a slot that has a counted handle.
///
/// # Safety
/// The caller has a counted handle to `place`. What is returned is not used after that handle was let go.
#[inline]
pub(crate) unsafe fn count_of<'a, T>(place: NonNull<T>) -> &'a Count {
    let (group, position) = locate(place);
    // SAFETY: the page got its counts before the handle was made.
    let count: *const Count = unsafe { group.count(&Of::<T>::GEOMETRY, position.page, position.slot) };
    // SAFETY: it lives as long as a slot of the group is out.
    unsafe { &*count }
}
