//! Defines the handle that owns its value, for pools of one thread.

use crate::slot::OneThread;

boxed! {
    /// A handle that owns a value in a [`Pool`](crate::Pool), like a `Box`. Dropping the handle
    /// drops the value. The handle may outlive the pool.
    ///
    /// # Examples
    ///
    /// ```
    /// use shared_arena::Pool;
    ///
    /// let pool = Pool::new();
    /// let mut text = pool.alloc(String::from("one thread"));
    /// text.push('!');
    /// drop(pool);
    /// assert_eq!(*text, "one thread!");
    /// ```
    ///
    /// A `PoolBox` stays on the thread of its pool:
    ///
    /// ```compile_fail,E0277
    /// # use shared_arena::PoolBox;
    /// fn send<T: Send>() {}
    /// send::<PoolBox<u8>>();
    /// ```
    ///
    /// ```compile_fail,E0277
    /// # use shared_arena::PoolBox;
    /// fn sync<T: Sync>() {}
    /// sync::<PoolBox<u8>>();
    /// ```
    PoolBox, OneThread
}
