//! The counted handle that threads share.

use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::ptr::NonNull;

use super::{AllocArc, Weak};
use crate::counts::Count;
use crate::slot::count_of;

/// A value in a [`SharedArena`](crate::SharedArena) or [`Arena`](crate::Arena) that several handles share, as `Arc` does.
///
/// The last one drops it, on whatever thread. They may outlive the arena. The counts lie beside the slots, in an array that a page
/// gets at its first counted handle; above 2<sup>31</sup> handles to one value the process is ended.
///
/// # Examples
///
/// ```
/// use shared_arena::{ArenaArc, SharedArena};
///
/// let arena = SharedArena::new();
/// let text = arena.alloc_arc(String::from("shared"));
/// let same = text.clone();
/// let length = std::thread::spawn(move || same.len()).join().unwrap();
/// assert_eq!(length, 6);
/// assert_eq!(ArenaArc::try_unwrap(text).as_deref(), Ok("shared"));
/// ```
///
/// `Send` and `Sync` are as those of `Arc`:
///
/// ```compile_fail,E0277
/// # use shared_arena::ArenaArc;
/// fn send<T: Send>() {}
/// send::<ArenaArc<std::cell::Cell<u8>>>();
/// ```
///
/// ```compile_fail,E0277
/// # use shared_arena::ArenaArc;
/// fn sync<T: Sync>() {}
/// sync::<ArenaArc<std::sync::MutexGuard<'static, u8>>>();
/// ```
///
/// # Invariant
/// **H1** `place` is a slot of an arena for `T` with a value in it, in which this handle is counted.
#[repr(transparent)]
pub struct ArenaArc<T> {
    place: NonNull<T>,
    value: PhantomData<T>,
}

as_value!(ArenaArc);

impl<T> ArenaArc<T> {
    /// # Safety
    /// H1: `place` counts this handle.
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

    /// How many handles share the value at this moment, those that are [`Weak`] not counted.
    #[inline]
    #[must_use]
    pub fn strong_count(this: &Self) -> usize {
        this.count().strong()
    }

    /// How many [`Weak`] handles there are at this moment.
    #[inline]
    #[must_use]
    pub fn weak_count(this: &Self) -> usize {
        this.count().weak()
    }

    /// Whether both handles share one value.
    #[inline]
    #[must_use]
    pub fn ptr_eq(this: &Self, other: &Self) -> bool {
        this.place == other.place
    }

    /// A handle that does not keep the value, but its slot.
    #[inline]
    #[must_use]
    pub fn downgrade(this: &Self) -> Weak<T> {
        this.count().clone_weak();
        // SAFETY: counted above.
        unsafe { Weak::adopt(this.place) }
    }

    /// The value, to be changed, if there is no other handle, [`Weak`] ones included.
    #[inline]
    pub fn get_mut(this: &mut Self) -> Option<&mut T> {
        if !this.count().is_unique() {
            return None;
        }
        // SAFETY: H1: there is no other handle, and this one is borrowed.
        Some(unsafe { this.place.as_mut() })
    }

    /// The value, to be changed: where there are other handles, [`Weak`] ones included, this one gets a clone of it first, in `arena`.
    #[inline]
    pub fn make_mut<'h>(this: &'h mut Self, arena: &impl AllocArc<T>) -> &'h mut T
    where
        T: Clone,
    {
        if !this.count().is_unique() {
            *this = arena.new_arc((**this).clone());
        }
        // SAFETY: H1: there is no other handle, and this one is borrowed.
        unsafe { this.place.as_mut() }
    }

    /// Takes the value out, if no other handle shares it; those that are [`Weak`] then find it gone.
    ///
    /// # Errors
    /// The handle as it was, where others share the value.
    #[inline]
    pub fn try_unwrap(this: Self) -> Result<T, Self> {
        if !this.count().take_unique() {
            return Err(this);
        }
        let this = ManuallyDrop::new(this);
        // SAFETY: the only strong handle is forgotten: what all of them held together is this guard's.
        let _rest = unsafe { Weak::adopt(this.place) };
        // SAFETY: there is a value in it, which is read once: nobody gets a strong handle any more.
        Ok(unsafe { this.place.read() })
    }

    /// The pointer to the value, in which this handle stays counted until [`ArenaArc::from_raw`].
    #[inline]
    #[must_use = "the handle stays counted unless it is made again"]
    pub fn into_raw(this: Self) -> *const T {
        ManuallyDrop::new(this).place.as_ptr()
    }

    /// Makes a handle again of what [`ArenaArc::into_raw`] returned.
    ///
    /// # Safety
    /// `value` is exactly the pointer that `into_raw` returned (not one made from a reference to the value); once for each time. This copy
    /// of the crate made the handle: not that of a plugin or its host.
    #[inline]
    #[must_use]
    pub unsafe fn from_raw(value: *const T) -> Self {
        // SAFETY: the caller's pointer is that of a slot.
        let place = unsafe { NonNull::new_unchecked(value.cast_mut()) };
        // SAFETY: the caller's: a handle is counted for it.
        unsafe { Self::adopt(place) }
    }

    /// Drops the value of the last handle, and lets go of what all of them held together.
    #[inline(never)]
    fn drop_last(&mut self) {
        // SAFETY: the last strong handle was uncounted; let go also when the destructor unwinds.
        let _rest = unsafe { Weak::adopt(self.place) };
        // SAFETY: there is a value in it, and nobody uses it any more.
        unsafe { self.place.drop_in_place() };
    }
}

impl<T> Clone for ArenaArc<T> {
    #[inline]
    fn clone(&self) -> Self {
        self.count().clone_strong();
        // SAFETY: H1: counted above.
        unsafe { Self::adopt(self.place) }
    }
}

impl<T> Drop for ArenaArc<T> {
    #[inline]
    fn drop(&mut self) {
        if self.count().drop_strong() {
            self.drop_last();
        }
    }
}

impl<T: RefUnwindSafe> UnwindSafe for ArenaArc<T> {}
impl<T: RefUnwindSafe> RefUnwindSafe for ArenaArc<T> {}

// SAFETY: the last handle drops the value on its thread (`Send`), and all give out shared references to it (`Sync`); the counts are
// atomic, and the slot is given back from any thread.
unsafe impl<T: Send + Sync> Send for ArenaArc<T> {}
// SAFETY: a shared handle can be cloned, so that the same holds.
unsafe impl<T: Send + Sync> Sync for ArenaArc<T> {}
