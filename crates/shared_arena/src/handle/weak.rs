//! The handle that keeps a slot, but not the value in it.

use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use super::ArenaArc;
use crate::counts::Count;
use crate::slot::{Slot, Threads, count_of};

/// A handle to what [`ArenaArc`] handles share that does not keep the value alive. It keeps its slot.
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
/// **H2** `place` is a slot of an arena for `T` in which this handle is counted as a weak one; whether there is a value in it, the
/// strong count says.
#[repr(transparent)]
pub struct Weak<T> {
    place: NonNull<T>,
    value: PhantomData<T>,
}

impl<T> Weak<T> {
    /// # Safety
    /// H2: `place` counts this handle.
    #[inline]
    pub(crate) unsafe fn adopt(place: NonNull<T>) -> Self {
        Self { place, value: PhantomData }
    }

    #[inline]
    fn count(&self) -> &Count {
        // SAFETY: H2: this handle is counted.
        unsafe { count_of(self.place) }
    }

    /// A handle that keeps the value, if there still is one.
    #[must_use]
    pub fn upgrade(&self) -> Option<ArenaArc<T>> {
        // SAFETY: counted, where it says so; there is a value as long as the count was not zero.
        self.count().upgrade().then(|| unsafe { ArenaArc::adopt(self.place) })
    }

    /// How many handles share the value at this moment.
    #[must_use]
    pub fn strong_count(&self) -> usize {
        self.count().strong()
    }

    /// Whether both handles are to one slot.
    #[must_use]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        self.place == other.place
    }

    /// The pointer to where the value is or was; this handle stays counted until [`Weak::from_raw`].
    #[must_use = "the handle stays counted unless it is made again"]
    pub fn into_raw(self) -> *const T {
        ManuallyDrop::new(self).place.as_ptr()
    }

    /// Makes a handle again of what [`Weak::into_raw`] returned.
    ///
    /// # Safety
    /// `value` is exactly the pointer that `into_raw` returned; once for each time. This copy of the crate made the handle: not that of a
    /// plugin or its host.
    #[must_use]
    pub unsafe fn from_raw(value: *const T) -> Self {
        // SAFETY: the caller's pointer is that of a slot.
        let place = unsafe { NonNull::new_unchecked(value.cast_mut()) };
        // SAFETY: the caller's: a handle is counted for it.
        unsafe { Self::adopt(place) }
    }
}

impl<T> Clone for Weak<T> {
    #[inline]
    fn clone(&self) -> Self {
        self.count().clone_weak();
        // SAFETY: H2: counted above.
        unsafe { Self::adopt(self.place) }
    }
}

impl<T> Drop for Weak<T> {
    #[inline]
    fn drop(&mut self) {
        if self.count().drop_weak() {
            // SAFETY: no handle of any kind is left, so the value is gone and the slot is this guard's.
            drop(unsafe { Slot::<T, Threads>::adopt(self.place) });
        }
    }
}

impl<T> fmt::Debug for Weak<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(Weak)")
    }
}

impl<T> Unpin for Weak<T> {}

// SAFETY: it can become an `ArenaArc`, whose conditions are these; the counts are atomic, and the slot is given back from any thread.
unsafe impl<T: Send + Sync> Send for Weak<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Weak<T> {}
