//! `PooledAllocator` and the allocators of `pooled_allocator!`: free lists by size class on each
//! thread, for any container.

mod global;
mod macros;
mod medium;
mod resize;
mod route;
mod slots;

pub use global::{or_null, reallocate};
pub use resize::{grow, shrink};
pub use route::{allocate, allocate_zeroed, deallocate, set_limit, stats, trim, trim_all};
pub use slots::{class_of, give_to_own_unit, stride_of_slot, take_from_front};

impl PooledAllocator {
    #[inline]
    fn __cell() -> crate::threads::ThisCell {
        crate::threads::pooled_cell()
    }

    #[inline]
    pub(crate) fn __family() -> &'static crate::threads::Family {
        crate::threads::pooled_family()
    }
}

crate::__allocator_of_family! {
    /// A zero-sized allocator with free lists by size class on each thread, for any container.
    ///
    /// A block of up to 32 KiB comes from this thread's pool of its class. There are 44 classes:
    /// the multiples of 8 up to 64, then four for each doubling. The allocation takes a few
    /// instructions and no lock. Any thread may free the block, even after the allocating thread
    /// ended, and the slot returns to its pool. For a constant layout of up to 1,024 bytes, the
    /// compiler computes the class. A block that is larger, or aligned to more than 4,096, is a
    /// mapping of the operating system or a part of one. Up to 1 MiB, its size is rounded up to a
    /// power of two. Only the pages that are written cost memory.
    ///
    /// [`pooled_allocator!`](crate::pooled_allocator) declares more such allocators, each with its
    /// own pools.
    ///
    /// # As the global allocator
    ///
    /// One line makes it the heap of a whole program:
    ///
    /// ```
    /// #[global_allocator]
    /// static HEAP: typed_pool::PooledAllocator = typed_pool::PooledAllocator;
    ///
    /// let words: Vec<String> = "one line for a program".split(' ').map(String::from).collect();
    /// assert_eq!(words.len(), 5);
    /// ```
    ///
    /// All memory of the allocator comes from the operating system, and none from another heap. The
    /// allocator serves threads before `main`, in and after the destructors of thread-locals, and
    /// in and after exit handlers. In a forked child, the program can use and free the blocks of
    /// all threads of the parent.
    ///
    /// A library that is loaded at run time and has this line too has its own heap. Its blocks may
    /// move to any thread, but the library must free them. If the library is unloaded, the pages of
    /// its heap stay, up to 512 KiB if all its blocks were freed.
    ///
    /// Some C libraries, such as musl and Apple's, have no `__cxa_thread_atexit_impl`. There the
    /// standard library keeps its own list of destructors, and some systems also have no native
    /// thread-locals. The standard library must then allocate the list and the thread-locals from
    /// [`System`](std::alloc::System), as it does in Rust 1.95. In Rust 1.85 it allocates them from
    /// the global allocator, and the process ends if the first allocation of a thread is for that
    /// list.
    ///
    /// How freed memory is kept and returned:
    ///
    /// * A thread keeps empty units of each class: 128 KiB, but at least one unit. It keeps more if
    ///   it needed units again that it had freed, up to 4 MiB of each class. One freed slot of
    ///   each class may keep one more unit, of up to 64 KiB.
    /// * The process keeps other freed units and larger blocks, up to 4 MiB or an eighth of the
    ///   bytes in use, whichever is more. It keeps up to 64 MiB more if it needed pages again that
    ///   it had returned. The process returns all further freed memory to the operating system at
    ///   once. Of the rest, it returns one unit or block after each 64 allocations or frees of
    ///   units and larger blocks, if that unit or block was not used during the last 1,024 such
    ///   operations. [`pages::set_cache`](crate::pages::set_cache) changes the 4 MiB.
    /// * A thread keeps freed blocks of more than 32 and up to 256 KiB for itself, up to 768 KiB in
    ///   total, until it ends or trims. Allocations and frees of such blocks by any thread move the
    ///   blocks that this thread does not use to the process's cache.
    /// * One live block keeps its whole unit from being freed: 32 KiB for small sizes, up to 256
    ///   KiB for others.
    ///
    /// On systems other than Linux, Android, Windows, Apple's and the BSDs, the allocator takes its
    /// memory from the system's heap, [`System`](std::alloc::System).
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
