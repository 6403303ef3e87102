//! The handle that has its value alone, of an arena that threads share.

use crate::slot::Threads;

boxed! {
    /// A value in a [`SharedArena`](crate::SharedArena) or [`Arena`](crate::Arena), as a `Box` has one: the handle has it alone, and drops it.
    ///
    /// It may be sent to another thread and dropped there, and it may outlive the arena. It pays for no counter.
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
    /// `Send` and `Sync` are as those of `Box`:
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

// SAFETY: the handle has the value alone, and its slot is given back from any thread.
unsafe impl<T: Send> Send for ArenaBox<T> {}
// SAFETY: a shared handle gives out shared references to the value, and nothing else.
unsafe impl<T: Sync> Sync for ArenaBox<T> {}
