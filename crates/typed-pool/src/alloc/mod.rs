//! `PooledAllocator`, and others like it: free lists by size class on each thread, for any
//! container.

mod macros;
mod route;

pub use route::{allocate, allocate_zeroed, deallocate, grow, shrink, stats, trim_all};
pub use route::{set_limit, trim};

crate::pooled_allocator! {
    /// Zero-sized allocator with free lists by size class on each thread, for any container.
    ///
    /// A block of up to 1,024 bytes comes from this thread's pool of its class. There are 24
    /// classes. The allocation takes a few instructions and no lock. Any thread may free the block,
    /// also after the allocating thread ended, and its slot returns to its pool. A block that is
    /// larger, or aligned to more than 1,024, comes from the global heap. For a constant layout,
    /// the compiler computes the class.
    ///
    /// It suits containers with a node for each element: maps, sets, lists, and boxes of generic
    /// types, which have no pool of their own. [`pooled_allocator!`](crate::pooled_allocator)
    /// declares more such allocators, each with its own pools.
    ///
    /// The backing allocator is the global heap. So this allocator cannot be the
    /// `#[global_allocator]`: it would take its units from itself.
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
