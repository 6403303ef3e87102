//! Defines the counted handle that threads share.

use core::mem::ManuallyDrop;

use super::sealed::Sealed;
use super::weak::Weak;

handle! {
    /// A handle that shares a value in a [`SharedArena`](crate::SharedArena) or
    /// [`Arena`](crate::Arena) with other handles, like an `Arc`.
    ///
    /// Dropping the last `ArenaArc` of a value drops the value, on any thread. Handles may outlive
    /// the arena. The counts lie outside of the slots, in an array that is allocated with the first
    /// counted handle of a page. More than 2<sup>31</sup> handles to one value abort the process.
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
    /// `Send` and `Sync` have the same bounds as for `Arc`:
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
    /// **H1** `place` is a slot of an arena for `T` with a value in it, and its counts include this
    /// handle.
    ArenaArc
}

counted!(ArenaArc by clone_strong and drop_strong);

impl<T> ArenaArc<T> {
    /// Returns the number of [`Weak`] handles at this moment.
    #[inline]
    #[must_use]
    pub fn weak_count(this: &Self) -> usize {
        this.count().weak()
    }

    /// Creates a [`Weak`] handle, which keeps the slot, but not the value in it.
    #[inline]
    #[must_use]
    pub fn downgrade(this: &Self) -> Weak<T> {
        this.count().clone_weak();
        // SAFETY: `clone_weak` counted the new handle (H2).
        unsafe { Weak::adopt(this.place) }
    }

    /// Returns a mutable reference to the value, or `None` if there is another handle, strong or
    /// [`Weak`].
    #[inline]
    pub fn get_mut(this: &mut Self) -> Option<&mut T> {
        if !this.count().is_unique() {
            return None;
        }
        // SAFETY: there is no other handle, and this one is borrowed mutably (H1).
        Some(unsafe { this.place.as_mut() })
    }

    /// Returns a mutable reference to the value. If there are other handles, strong or [`Weak`],
    /// first puts a clone into `arena` and replaces this handle with a handle to the clone.
    ///
    /// # Aborts
    /// Calls `handle_alloc_error` if the clone needs a slot and `arena` cannot allocate one.
    #[inline]
    pub fn make_mut<'h>(this: &'h mut Self, arena: &impl AllocArc<T>) -> &'h mut T
    where
        T: Clone,
    {
        if !this.count().is_unique() {
            *this = arena.new_arc((**this).clone());
        }
        // SAFETY: there is no other handle, and this one is borrowed mutably (H1).
        unsafe { this.place.as_mut() }
    }

    /// Returns the value if this is the only strong handle. [`Weak`] handles cannot be upgraded
    /// after that.
    ///
    /// # Errors
    /// Returns the handle if other strong handles share the value.
    #[inline]
    pub fn try_unwrap(this: Self) -> Result<T, Self> {
        if !this.count().take_unique() {
            return Err(this);
        }
        let this = ManuallyDrop::new(this);
        // SAFETY: the only strong handle is forgotten, so this guard takes over the weak count of
        // all strong ones.
        let _rest = unsafe { Weak::adopt(this.place) };
        // SAFETY: the slot has a value, which is read once, because no strong handle can be made
        // after `take_unique`.
        Ok(unsafe { this.place.read() })
    }

    /// Drops the value of the last strong handle, and then takes off the weak count of all strong
    /// handles.
    #[inline(never)]
    fn drop_last(&mut self) {
        // SAFETY: the strong count is zero, so this guard takes over the weak count of all strong
        // handles. The guard takes that count off even if the value's destructor unwinds.
        let _rest = unsafe { Weak::adopt(self.place) };
        // SAFETY: the slot has a value, and no other handle can reach it.
        unsafe { self.place.drop_in_place() };
    }
}

impl<T> Weak<T> {
    /// Returns a strong handle, or `None` if the value was dropped or moved out.
    #[must_use]
    pub fn upgrade(&self) -> Option<ArenaArc<T>> {
        // SAFETY: `upgrade` counted the new handle, and the slot has a value while the strong count
        // is not zero (H1).
        self.count().upgrade().then(|| unsafe { ArenaArc::adopt(self.place) })
    }
}

/// An arena that makes [`ArenaArc`] handles: [`SharedArena`](crate::SharedArena) and
/// [`Arena`](crate::Arena).
///
/// # Examples
///
/// ```
/// use shared_arena::{AllocArc, Arena, ArenaArc, SharedArena};
///
/// fn number(arena: &impl AllocArc<u64>) -> ArenaArc<u64> {
///     arena.new_arc(7)
/// }
///
/// assert_eq!(*number(&Arena::new()), *number(&SharedArena::new()));
/// ```
pub trait AllocArc<T>: Sealed {
    /// Allocates a slot, moves `value` into it, and returns a handle.
    ///
    /// # Aborts
    /// Calls `handle_alloc_error` if the arena cannot allocate the slot.
    fn new_arc(&self, value: T) -> ArenaArc<T>;
}

// SAFETY: the last handle drops the value, on any thread (so `T: Send`), and all handles give
// shared references to the value (so `T: Sync`). The counts are atomic, and any thread may free the
// slot.
unsafe impl<T: Send + Sync> Send for ArenaArc<T> {}
// SAFETY: a thread can clone a handle that another thread shares with it, so the bounds are the
// same as for `Send`.
unsafe impl<T: Send + Sync> Sync for ArenaArc<T> {}
