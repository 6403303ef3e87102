//! `PooledAllocator` and the allocators of `pooled_allocator!`: free lists by size class on each
//! thread, for any container.

mod macros;
mod medium;
mod resize;
mod route;
mod slots;

pub use resize::or_null;
pub use route::ThisFamily;
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
    /// A block of up to 32 KiB comes from the calling thread's pool for its size class. There are
    /// 44 classes: the multiples of 8 up to 64, then four for each doubling. An allocation usually
    /// takes a few instructions and no lock. Any thread may free the block, even after the
    /// allocating thread has ended, and the slot returns to its pool. For a constant layout of up
    /// to 1,024 bytes, the compiler computes the class.
    ///
    /// A block of more than 32 KiB, or aligned to more than 4,096 bytes, is a mapping of the
    /// operating system or a part of one. If such a block has at most 1 MiB, its size is rounded up
    /// to a power of two. A block that grew may take twice that size, but at most four blocks of
    /// each thread do. A page takes memory from the first write to it, even if that was a write to
    /// an earlier block.
    ///
    /// [`pooled_allocator!`](crate::pooled_allocator) declares further allocators of this kind,
    /// each with its own pools.
    ///
    /// # As the global allocator
    ///
    /// One line makes this allocator the heap of a whole program:
    ///
    /// ```
    /// #[global_allocator]
    /// static HEAP: typed_pool::PooledAllocator = typed_pool::PooledAllocator;
    ///
    /// let words: Vec<String> = "one line for a program".split(' ').map(String::from).collect();
    /// assert_eq!(words.len(), 5);
    /// ```
    ///
    /// The allocator takes all of its memory from the operating system, and none from another heap.
    /// It works before `main`, during and after the destructors of thread-locals, and during and
    /// after exit handlers. In a forked child, the program can use and free the blocks of all
    /// threads of the parent.
    ///
    /// If a library that is loaded at run time also contains this line, the library has a separate
    /// heap. Blocks of that heap may move to any thread, but only code of the library may free
    /// them. If the library is unloaded, the pages of its heap stay mapped: up to 512 KiB if all
    /// blocks were freed.
    ///
    /// On Linux, Android, NetBSD and DragonFly BSD, the standard library registers destructors of
    /// thread-locals by `__cxa_thread_atexit_impl` if the C library has this function, as glibc
    /// does and musl does not. Otherwise, and always on Windows, Apple's systems, FreeBSD and
    /// OpenBSD, the standard library keeps its own list of destructors. Some targets also lack
    /// native thread-locals. The standard library must then allocate the list and the thread-locals
    /// from [`System`](std::alloc::System), as it does since Rust 1.93. Older versions allocate
    /// them from the global allocator, and the process ends if the first allocation of a thread is
    /// for that list.
    ///
    /// Only Linux is tested. No check compiles this allocator for another operating system.
    ///
    /// A signal handler must not allocate or free.
    ///
    /// The allocator takes, keeps and returns memory as follows:
    ///
    /// * The first block of a class of up to 512 bytes on a thread adds 32 KiB to `bytes_held`,
    ///   unless the allocator has a limit or the thread is in a scope. Only the pages that blocks
    ///   use become resident.
    /// * A thread keeps 128 KiB of empty units of each class, but at least one unit. Each time it
    ///   frees a unit and later requests one, it keeps one more, up to 4 MiB of each class. In each
    ///   class of up to 1,024 bytes, one freed slot that waits for the next allocation may keep one
    ///   more unit allocated, of 32 or 64 KiB.
    /// * The process caches other freed units and larger blocks, up to 4 MiB or an eighth of the
    ///   bytes in use, whichever is more. If it requests pages after it has returned some, it
    ///   caches up to 64 MiB more. It returns all further freed memory to the operating system at
    ///   once. After every 64 allocations or frees of units and larger blocks, it also returns one
    ///   cached unit or block that has not been used during the last 1,024 of these operations.
    ///   [`pages::set_cache`](crate::pages::set_cache) changes the 4 MiB.
    /// * A thread keeps freed blocks of more than 32 and at most 256 KiB for itself, up to 768 KiB
    ///   in total, until it ends or trims. While threads allocate and free units and larger blocks,
    ///   kept blocks that their thread does not reuse move to the process's cache.
    /// * One live block keeps its whole unit allocated: 32 KiB for blocks of up to 512 bytes, up to
    ///   256 KiB for larger blocks.
    ///
    /// On systems other than Linux, Android, Windows, Apple's systems and the BSDs, the allocator
    /// takes its memory from the system's heap instead, [`System`](std::alloc::System).
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
