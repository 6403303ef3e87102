//! The counted handle for one thread.

use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::ptr::NonNull;

use super::AllocRc;
use crate::counts::Count;
use crate::slot::{Either, Slot, count_of};

/// A value in a [`Pool`](crate::Pool), `Arena` or `SharedArena` that several handles on one thread share, as `Rc` does.
///
/// The last one drops it. They may outlive the arena.
///
/// # Examples
///
/// ```
/// use shared_arena::{ArenaRc, Pool};
///
/// let pool = Pool::new();
/// let mut list = pool.alloc_rc(vec![1, 2]);
/// let same = list.clone();
/// ArenaRc::make_mut(&mut list, &pool).push(3);
/// assert_eq!((list.len(), same.len()), (3, 2));
/// ```
///
/// It stays on its thread:
///
/// ```compile_fail,E0277
/// # use shared_arena::ArenaRc;
/// fn send<T: Send>() {}
/// send::<ArenaRc<u8>>();
/// ```
///
/// ```compile_fail,E0277
/// # use shared_arena::ArenaRc;
/// fn sync<T: Sync>() {}
/// sync::<ArenaRc<u8>>();
/// ```
///
/// # Invariant
/// **H1** `place` is a slot of an arena for `T` with a value in it, in which this handle is counted; all handles to it are on one thread.
#[repr(transparent)]
pub struct ArenaRc<T> {
    place: NonNull<T>,
    value: PhantomData<T>,
}

as_value!(ArenaRc);

impl<T> ArenaRc<T> {
    /// # Safety
    /// H1: `place` has its counts started and this is the handle that they count.
    #[inline]
    pub(crate) unsafe fn adopt(place: NonNull<T>) -> Self {
        Self { place, value: PhantomData }
    }

    /// Pins the value of a new handle.
    #[inline]
    pub(crate) fn pin_new(this: Self) -> core::pin::Pin<Self> {
        // SAFETY: there is no other handle yet, so that none is ever bare: the value stays where it is until its destructor ran.
        unsafe { core::pin::Pin::new_unchecked(this) }
    }

    #[inline]
    fn count(&self) -> &Count {
        // SAFETY: H1: this handle is counted.
        unsafe { count_of(self.place) }
    }

    /// How many handles share the value.
    #[inline]
    #[must_use]
    pub fn strong_count(this: &Self) -> usize {
        this.count().strong()
    }

    /// Whether both handles share one value.
    #[inline]
    #[must_use]
    pub fn ptr_eq(this: &Self, other: &Self) -> bool {
        this.place == other.place
    }

    /// The value, to be changed, if no other handle shares it.
    #[inline]
    pub fn get_mut(this: &mut Self) -> Option<&mut T> {
        if Self::strong_count(this) != 1 {
            return None;
        }
        // SAFETY: H1: there is no other handle, and this one is borrowed.
        Some(unsafe { this.place.as_mut() })
    }

    /// The value, to be changed: where other handles share it, this one gets a clone of it first, in `arena`.
    #[inline]
    pub fn make_mut<'h>(this: &'h mut Self, arena: &impl AllocRc<T>) -> &'h mut T
    where
        T: Clone,
    {
        if Self::strong_count(this) != 1 {
            *this = arena.new_rc((**this).clone());
        }
        // SAFETY: H1: there is no other handle, and this one is borrowed. The destructor of the old handle does not drop the value.
        unsafe { this.place.as_mut() }
    }

    /// Takes the value out, if no other handle shares it.
    ///
    /// # Errors
    /// The handle as it was, where others share the value.
    #[inline]
    pub fn try_unwrap(this: Self) -> Result<T, Self> {
        if Self::strong_count(&this) != 1 {
            return Err(this);
        }
        let place = ManuallyDrop::new(this).place;
        // SAFETY: the only handle is forgotten: the slot is this guard's.
        let slot: Slot<T, Either> = unsafe { Slot::adopt(place) };
        // SAFETY: there is a value in it, which is read once.
        let value = unsafe { place.read() };
        drop(slot);
        Ok(value)
    }

    /// The pointer to the value, in which this handle stays counted until [`ArenaRc::from_raw`].
    #[inline]
    #[must_use = "the handle stays counted unless it is made again"]
    pub fn into_raw(this: Self) -> *const T {
        ManuallyDrop::new(this).place.as_ptr()
    }

    /// Makes a handle again of what [`ArenaRc::into_raw`] returned.
    ///
    /// # Safety
    /// `value` is exactly the pointer that `into_raw` returned (not one made from a reference to the value), on the thread of that
    /// handle; once for each time. This copy of the crate made the handle: not that of a plugin or its host.
    #[inline]
    #[must_use]
    pub unsafe fn from_raw(value: *const T) -> Self {
        // SAFETY: the caller's pointer is that of a slot.
        let place = unsafe { NonNull::new_unchecked(value.cast_mut()) };
        // SAFETY: the caller's: a handle is counted for it.
        unsafe { Self::adopt(place) }
    }

    /// Drops the value of the last handle, and gives the slot back.
    #[inline(never)]
    fn drop_last(&mut self) {
        // SAFETY: the last handle is being dropped; given back by the guard, also when the destructor unwinds.
        let slot: Slot<T, Either> = unsafe { Slot::adopt(self.place) };
        // SAFETY: there is a value in it, and nobody uses it any more.
        unsafe { self.place.drop_in_place() };
        drop(slot);
    }
}

impl<T> Clone for ArenaRc<T> {
    #[inline]
    fn clone(&self) -> Self {
        self.count().clone_here();
        // SAFETY: H1: counted above.
        unsafe { Self::adopt(self.place) }
    }
}

impl<T> Drop for ArenaRc<T> {
    #[inline]
    fn drop(&mut self) {
        if self.count().drop_here() {
            self.drop_last();
        }
    }
}

impl<T: RefUnwindSafe> UnwindSafe for ArenaRc<T> {}
impl<T: RefUnwindSafe> RefUnwindSafe for ArenaRc<T> {}
