//! Defines the counted handle for one thread.

use core::mem::ManuallyDrop;

use super::sealed::Sealed;
use crate::slot::{ClaimedSlot, Either};

handle! {
    /// A handle that shares a value in a [`Pool`](crate::Pool), `Arena` or `SharedArena` with other
    /// handles on the same thread, like an `Rc`.
    ///
    /// Dropping the last handle drops the value. Handles may outlive the arena.
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
    /// An `ArenaRc` stays on its thread:
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
    /// **H1** `place` is a slot of an arena for `T` with a value in it, and its counts include this
    /// handle. All handles to the slot are on one thread.
    ArenaRc
}

counted!(ArenaRc by clone_here and drop_here);

impl<T> ArenaRc<T> {
    /// Returns a mutable reference to the value, or `None` if another handle shares the value.
    #[inline]
    pub fn get_mut(this: &mut Self) -> Option<&mut T> {
        if Self::strong_count(this) != 1 {
            return None;
        }
        // SAFETY: there is no other handle, and this one is borrowed mutably (H1).
        Some(unsafe { this.place.as_mut() })
    }

    /// Returns a mutable reference to the value. If other handles share the value, first puts a
    /// clone into `arena` and replaces this handle with a handle to the clone.
    ///
    /// # Aborts
    /// Calls `handle_alloc_error` if the clone needs a slot and `arena` cannot allocate one.
    #[inline]
    pub fn make_mut<'h>(this: &'h mut Self, arena: &impl AllocRc<T>) -> &'h mut T
    where
        T: Clone,
    {
        if Self::strong_count(this) != 1 {
            *this = arena.new_rc((**this).clone());
        }
        // SAFETY: there is no other handle to the value, and this one is borrowed mutably (H1).
        unsafe { this.place.as_mut() }
    }

    /// Returns the value if no other handle shares it.
    ///
    /// # Errors
    /// Returns the handle if others share the value.
    #[inline]
    pub fn try_unwrap(this: Self) -> Result<T, Self> {
        if Self::strong_count(&this) != 1 {
            return Err(this);
        }
        let place = ManuallyDrop::new(this).place;
        // SAFETY: `this` was the only handle and is forgotten, so this guard owns the slot.
        let _slot: ClaimedSlot<T, Either> = unsafe { ClaimedSlot::adopt(place) };
        // SAFETY: the slot has a value. No handle is left, and `_slot` does not drop the value.
        Ok(unsafe { place.read() })
    }

    /// Drops the value of the last handle, and frees the slot.
    #[inline(never)]
    fn drop_last(&mut self) {
        // SAFETY: the last handle is being dropped, so this guard owns the slot. The guard frees
        // the slot even if the value's destructor unwinds.
        let _slot: ClaimedSlot<T, Either> = unsafe { ClaimedSlot::adopt(self.place) };
        // SAFETY: the slot has a value, and no other handle can reach it.
        unsafe { self.place.drop_in_place() };
    }
}

/// An arena that makes [`ArenaRc`] handles: every arena of this crate.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "std")] {
/// use shared_arena::{AllocRc, Arena, ArenaRc, Pool};
///
/// fn number(arena: &impl AllocRc<u64>) -> ArenaRc<u64> {
///     arena.new_rc(7)
/// }
///
/// assert_eq!(*number(&Arena::new()), *number(&Pool::new()));
/// # }
/// ```
pub trait AllocRc<T>: Sealed {
    /// Allocates a slot, moves `value` into it, and returns a handle.
    ///
    /// # Aborts
    /// Calls `handle_alloc_error` if the arena cannot allocate the slot.
    fn new_rc(&self, value: T) -> ArenaRc<T>;
}
