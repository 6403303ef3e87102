//! Defines the handle that keeps a slot, but not the value in it.

use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use crate::counts::Count;
use crate::slot::{ClaimedSlot, Threads, count_of};

/// A weak handle to a value that [`ArenaArc`](super::ArenaArc) handles share. The weak handle keeps
/// the value's slot allocated, but does not keep the value alive.
///
/// # Examples
///
/// ```
/// use shared_arena::{ArenaArc, SharedArena};
///
/// let arena = SharedArena::new();
/// let strong = arena.alloc_arc(5);
/// let weak = ArenaArc::downgrade(&strong);
/// assert_eq!(weak.upgrade().as_deref(), Some(&5));
/// drop(strong);
/// assert!(weak.upgrade().is_none());
/// ```
///
/// # Invariant
/// **H2** `place` is a slot of an arena for `T`, and its counts include this handle as a weak one.
/// The strong count says whether the slot has a value.
#[repr(transparent)]
pub struct Weak<T> {
    pub(super) place: NonNull<T>,
    value: PhantomData<T>,
}

impl<T> Weak<T> {
    /// # Safety
    /// The counts of `place` include the new handle as a weak one (H2).
    #[inline]
    pub(crate) unsafe fn adopt(place: NonNull<T>) -> Self {
        Self { place, value: PhantomData }
    }

    #[inline]
    pub(super) fn count(&self) -> &Count {
        // SAFETY: the counts include this handle (H2), and the result borrows the handle.
        unsafe { count_of(self.place) }
    }

    /// Returns the number of strong handles at this moment.
    #[must_use]
    pub fn strong_count(&self) -> usize {
        self.count().strong()
    }

    /// Returns whether both handles belong to one slot.
    #[must_use]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        self.place == other.place
    }

    /// Returns the pointer to the slot without dropping the handle. The counts include the handle
    /// until [`Weak::from_raw`] recreates it and that handle is dropped.
    #[must_use = "the handle is never dropped unless `from_raw` recreates it"]
    pub fn into_raw(self) -> NonNull<T> {
        ManuallyDrop::new(self).place
    }

    /// Recreates a handle from a pointer that [`Weak::into_raw`] returned.
    ///
    /// # Safety
    /// `value` is exactly the pointer that `into_raw` returned. The calling thread is allowed to
    /// own the handle. Each call to `into_raw` permits one call to `from_raw`. This copy of the
    /// crate made the handle, not another copy in a plugin or its host.
    #[must_use]
    pub unsafe fn from_raw(value: NonNull<T>) -> Self {
        // SAFETY: the handle that `into_raw` forgot is still counted (H2).
        unsafe { Self::adopt(value) }
    }
}

impl<T> Clone for Weak<T> {
    #[inline]
    fn clone(&self) -> Self {
        self.count().clone_weak();
        // SAFETY: `clone_weak` counted the new handle (H2).
        unsafe { Self::adopt(self.place) }
    }
}

impl<T> Drop for Weak<T> {
    #[inline]
    fn drop(&mut self) {
        if self.count().drop_weak() {
            // SAFETY: no handle of any kind is left, so the value was dropped or moved out, and
            // this guard owns the slot.
            drop(unsafe { ClaimedSlot::<T, Threads>::adopt(self.place) });
        }
    }
}

impl<T> fmt::Debug for Weak<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(Weak)")
    }
}

impl<T> Unpin for Weak<T> {}

// SAFETY: a weak handle can be upgraded to an `ArenaArc`, which has the same bounds. The counts are
// atomic, and any thread may free the slot.
unsafe impl<T: Send + Sync> Send for Weak<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Weak<T> {}
