//! Defines the handle that owns its value, for arenas whose values any thread may drop.

use crate::slot::Threads;

boxed! {
    /// A handle that owns a value in a [`SharedArena`](crate::SharedArena) or
    /// [`Arena`](crate::Arena), like a `Box`. Dropping the handle drops the value.
    ///
    /// The handle may be sent to another thread and dropped there, and may outlive the arena. The
    /// value has no reference count.
    ///
    /// # Examples
    ///
    /// ```
    /// use shared_arena::{ArenaBox, SharedArena};
    ///
    /// let arena = SharedArena::new();
    /// let mut numbers = arena.alloc([1, 2, 3]);
    /// numbers[0] = 7;
    /// drop(arena);
    /// assert_eq!(ArenaBox::into_inner(numbers), [7, 2, 3]);
    /// ```
    ///
    /// `Send` and `Sync` have the same bounds as for `Box`:
    ///
    /// ```compile_fail,E0277
    /// # use shared_arena::ArenaBox;
    /// fn send<T: Send>() {}
    /// send::<ArenaBox<std::rc::Rc<u8>>>();
    /// ```
    ///
    /// ```compile_fail,E0277
    /// # use shared_arena::ArenaBox;
    /// fn sync<T: Sync>() {}
    /// sync::<ArenaBox<std::cell::Cell<u8>>>();
    /// ```
    ArenaBox, Threads
}

// SAFETY: the handle owns the value, and any thread may free the slot.
unsafe impl<T: Send> Send for ArenaBox<T> {}
// SAFETY: a shared handle gives only shared references to the value.
unsafe impl<T: Sync> Sync for ArenaBox<T> {}
