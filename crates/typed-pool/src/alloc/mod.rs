//! `PooledAllocator` and others of its kind: free lists by size class on each thread, for any container.

mod macros;
mod route;

pub use route::{allocate, allocate_zeroed, deallocate, grow, shrink, stats, trim_all};
pub use route::{set_limit, trim};

crate::pooled_allocator! {
    /// Zero-sized allocator with free lists by size class on each thread, for any container.
    ///
    /// A block to 1,024 bytes comes from this thread's pool of its class (24 of them), in a few instructions and without a lock, and goes back to the
    /// pool it is from, on any thread, also after the one that allocated it ended. What is larger, or aligned to more than 1,024, is a block of the
    /// global heap's. Where the layout is known when the program is compiled, so is the class.
    ///
    /// Made for containers with a node for each element: maps, sets and lists, and boxes of types that have no pool of their own
    /// (generic ones). [`pooled_allocator!`](crate::pooled_allocator) declares further allocators of this kind, with pools of their own.
    ///
    /// Over the global heap. It cannot itself be the `#[global_allocator]`: it would take its units from itself.
    ///
    /// # Examples
    ///
    /// ```
    /// use allocator_api2::boxed::Box;
    /// use typed_pool::PooledAllocator;
    ///
    /// let answer = Box::new_in(42, PooledAllocator);
    /// let thread = std::thread::spawn(move || *answer + 1);
    /// assert_eq!(thread.join().unwrap(), 43);
    /// ```
    pub struct PooledAllocator;
}
