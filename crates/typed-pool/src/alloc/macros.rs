//! Defines `pooled_allocator!`, the macro that declares a pooled allocator.

/// Declares an allocator like [`PooledAllocator`](crate::PooledAllocator) with its own pools: a
/// zero-sized type that is `Copy` and `Default`.
///
/// The allocator has its own units and its own limit, so its blocks lie together, and its memory is
/// freed independently of other allocators.
///
/// # Examples
///
/// ```
/// use allocator_api2::vec::Vec;
/// use typed_pool::pooled_allocator;
///
/// pooled_allocator! {
///     /// For the nodes of the index.
///     pub struct Nodes;
/// }
///
/// let mut node = Vec::new_in(Nodes);
/// node.extend([1, 2, 3]);
/// assert_eq!(Nodes.stats().live(), 1);
/// drop(node);
/// Nodes.trim();
/// assert_eq!(Nodes.stats().bytes_held, 0);
/// ```
#[macro_export]
macro_rules! pooled_allocator {
    ($(#[$attribute:meta])* $vis:vis struct $name:ident $(;)?) => {
        impl $name {
            #[inline]
            fn __cell() -> $crate::__private::ThisCell {
                $crate::__private::thread_local! {
                    static CELL: $crate::__private::FamilyCell = const { $crate::__private::FamilyCell::nowhere() };
                }
                $crate::__private::ThisCell::of(&CELL)
            }

            #[inline]
            fn __family() -> &'static $crate::__private::Family {
                static FAMILY: $crate::__private::Family =
                    // SAFETY: the thread-local belongs to this allocator alone.
                    unsafe { $crate::__private::Family::of_classes($name::__cell) };
                &FAMILY
            }
        }

        $crate::__allocator_of_family! { $(#[$attribute])* $vis struct $name; }
    };
}

/// Declares an allocator over the functions `__cell` and `__family` of `$name`, which return its
/// thread-local and its family. Not public API: [`pooled_allocator!`] expands to this macro.
#[doc(hidden)]
#[macro_export]
macro_rules! __allocator_of_family {
    ($(#[$attribute:meta])* $vis:vis struct $name:ident;) => {
        $(#[$attribute])*
        #[derive(
            $crate::__private::core::fmt::Debug,
            $crate::__private::core::clone::Clone,
            $crate::__private::core::marker::Copy,
            $crate::__private::core::default::Default,
            $crate::__private::core::cmp::PartialEq,
            $crate::__private::core::cmp::Eq,
            $crate::__private::core::cmp::PartialOrd,
            $crate::__private::core::cmp::Ord,
            $crate::__private::core::hash::Hash,
        )]
        $vis struct $name;

        impl $name {
            /// # Safety
            /// The caller uses the result for one operation, and does not keep it (T3).
            #[inline]
            unsafe fn __this() -> $crate::__private::ThisFamily {
                // SAFETY: the thread-local and the family both belong to this allocator. The caller
                // does not keep the result.
                unsafe { $crate::__private::ThisFamily::new(Self::__cell(), Self::__family()) }
            }

            /// Allocates an uninitialised block of exactly `layout.size()` bytes.
            ///
            /// For size zero, returns an aligned dangling address.
            ///
            /// # Errors
            /// Returns `AllocError` if the limit would be exceeded, or if the operating system
            /// refuses the request.
            #[inline]
            pub fn allocate(
                &self,
                layout: $crate::__private::Layout,
            ) -> $crate::__private::core::result::Result<$crate::__private::NonNull<[u8]>, $crate::__private::AllocError> {
                // SAFETY: the result is used for this operation alone (T3).
                let this = unsafe { Self::__this() };
                this.allocate(layout)
            }

            /// Allocates a block of exactly `layout.size()` zeroed bytes.
            ///
            /// # Errors
            /// Returns `AllocError` if the limit would be exceeded, or if the operating system
            /// refuses the request.
            #[inline]
            pub fn allocate_zeroed(
                &self,
                layout: $crate::__private::Layout,
            ) -> $crate::__private::core::result::Result<$crate::__private::NonNull<[u8]>, $crate::__private::AllocError> {
                // SAFETY: the result is used for this operation alone (T3).
                let this = unsafe { Self::__this() };
                this.allocate_zeroed(layout)
            }

            /// Frees a block, on any thread.
            ///
            /// # Safety
            /// `block` is a live block of this allocator, and `layout` fits it.
            #[inline]
            pub unsafe fn deallocate(
                &self,
                block: $crate::__private::NonNull<u8>,
                layout: $crate::__private::Layout,
            ) {
                // SAFETY: the result is used for this operation alone (T3).
                let this = unsafe { Self::__this() };
                // SAFETY: the caller passes a live block of this allocator and a layout that fits
                // it.
                unsafe { this.deallocate(block, layout) }
            }

            /// Grows a block, in place if both layouts have the same size class. If neither layout
            /// has a class, the module `typed_pool::pages` grows the block. Otherwise the block
            /// moves.
            ///
            /// # Errors
            /// Returns `AllocError` if the limit would be exceeded, or if the operating system
            /// refuses the request. The old block is then unchanged.
            ///
            /// # Safety
            /// `block` is a live block of this allocator, `old` fits it, and `new.size()` is not
            /// smaller than `old.size()`.
            #[inline]
            pub unsafe fn grow(
                &self,
                block: $crate::__private::NonNull<u8>,
                old: $crate::__private::Layout,
                new: $crate::__private::Layout,
            ) -> $crate::__private::core::result::Result<$crate::__private::NonNull<[u8]>, $crate::__private::AllocError> {
                // SAFETY: the result is used for this operation alone (T3).
                let this = unsafe { Self::__this() };
                // SAFETY: the caller passes a live block of this allocator. `old` fits the block,
                // and the new size is not smaller.
                unsafe { this.grow(block, old, new, false) }
            }

            /// Grows a block like `grow`, and sets the bytes from `old.size()` to `new.size()` to
            /// zero.
            ///
            /// # Errors
            /// Returns `AllocError` if the limit would be exceeded, or if the operating system
            /// refuses the request. The old block is then unchanged.
            ///
            /// # Safety
            /// `block` is a live block of this allocator, `old` fits it, and `new.size()` is not
            /// smaller than `old.size()`.
            #[inline]
            pub unsafe fn grow_zeroed(
                &self,
                block: $crate::__private::NonNull<u8>,
                old: $crate::__private::Layout,
                new: $crate::__private::Layout,
            ) -> $crate::__private::core::result::Result<$crate::__private::NonNull<[u8]>, $crate::__private::AllocError> {
                // SAFETY: the result is used for this operation alone (T3).
                let this = unsafe { Self::__this() };
                // SAFETY: the caller passes a live block of this allocator. `old` fits the block,
                // and the new size is not smaller.
                unsafe { this.grow(block, old, new, true) }
            }

            /// Shrinks a block, in place if both layouts have the same size class. If neither
            /// layout has a class, the module `typed_pool::pages` shrinks the block. Otherwise the
            /// block moves. If there is no memory for the move, the block stays in place where that
            /// is possible.
            ///
            /// The limit never refuses a shrink. A shrink that moves its block may exceed the limit
            /// by a unit of at most 8 slots, or by the new size if the new layout has no class.
            ///
            /// # Errors
            /// Returns `AllocError` if the block must move and the operating system refuses the
            /// request. The old block is then unchanged.
            ///
            /// # Safety
            /// `block` is a live block of this allocator, `old` fits it, and `new.size()` is not
            /// larger than `old.size()`.
            #[inline]
            pub unsafe fn shrink(
                &self,
                block: $crate::__private::NonNull<u8>,
                old: $crate::__private::Layout,
                new: $crate::__private::Layout,
            ) -> $crate::__private::core::result::Result<$crate::__private::NonNull<[u8]>, $crate::__private::AllocError> {
                // SAFETY: the result is used for this operation alone (T3).
                let this = unsafe { Self::__this() };
                // SAFETY: the caller passes a live block of this allocator. `old` fits the block,
                // and the new size is not larger.
                unsafe { this.shrink(block, old, new) }
            }
        }

        $crate::__family_methods!($name, Self::__family());

        // SAFETY: a live slot is not free (H3), so blocks are disjoint and valid until they are
        // freed. Layouts are served exactly or refused with null, and no method unwinds. All memory
        // comes from pages, so no method calls the global allocator.
        unsafe impl $crate::__private::core::alloc::GlobalAlloc for $name {
            #[inline]
            unsafe fn alloc(&self, layout: $crate::__private::Layout) -> *mut u8 {
                $crate::__private::or_null(self.allocate(layout))
            }

            #[inline]
            unsafe fn alloc_zeroed(&self, layout: $crate::__private::Layout) -> *mut u8 {
                $crate::__private::or_null(self.allocate_zeroed(layout))
            }

            #[inline]
            unsafe fn dealloc(&self, block: *mut u8, layout: $crate::__private::Layout) {
                // SAFETY: a live block is not at address null.
                let block = unsafe { $crate::__private::NonNull::new_unchecked(block) };
                // SAFETY: the caller passes a live block of this allocator and its layout.
                unsafe { self.deallocate(block, layout) };
            }

            #[inline]
            unsafe fn realloc(
                &self,
                block: *mut u8,
                layout: $crate::__private::Layout,
                new_size: usize,
            ) -> *mut u8 {
                // SAFETY: a live block is not at address null.
                let block = unsafe { $crate::__private::NonNull::new_unchecked(block) };
                // SAFETY: the result is used for this operation alone (T3).
                let this = unsafe { Self::__this() };
                // SAFETY: the caller upholds the contract of `GlobalAlloc::realloc`, which is also
                // the contract of `reallocate`.
                unsafe { this.reallocate(block, layout, new_size) }
            }
        }

        $crate::__private::impl_allocator! {
            // SAFETY: a live slot is not free (H3), so blocks are disjoint and valid until they are
            // freed. All values are the same allocator, and no method unwinds.
            unsafe impl[] for $name
        }
    };
}

/// Defines the methods of the zero-sized type of a family: trims, limit and statistics. Not public
/// API: [`pooled!`](crate::pooled) and [`pooled_allocator!`] expand to this macro.
#[doc(hidden)]
#[macro_export]
macro_rules! __family_methods {
    ($name:ident, $family:expr) => {
        #[expect(clippy::allow_attributes, reason = "the declaring crate may not use these methods")]
        #[allow(dead_code, reason = "a program may use some of the methods only")]
        impl $name {
            /// Publishes the remote frees in this thread's bundle, books the remote frees of the
            /// thread's own slots, then frees all of its empty units. Also moves this thread's
            /// freed large blocks to the cache of the process.
            ///
            /// Without a trim, a thread keeps 128 KiB of empty units of each type or size class,
            /// but at least one unit, and frees other units as they become empty. Each time it
            /// frees a unit and later requests one, it keeps one more, up to 4 MiB of each type or
            /// class. While other threads free many of its blocks, one class keeps up to 2 MiB. The
            /// thread frees these additional units once it no longer needs them, and all empty
            /// units when it ends.
            pub fn trim(&self) {
                $family.trim();
            }

            /// Trims this thread and the records of ended threads, and asks running threads to trim
            /// at their next slow path.
            ///
            /// The request does not reach a thread that takes no slow path. That thread frees its
            /// empty units and publishes its remote frees when it calls `trim` or ends.
            pub fn trim_all(&self) {
                $family.trim_all();
            }

            /// Sets the limit on the bytes that all threads together hold, in units and in blocks
            /// that are too large for a unit. `usize::MAX`, the initial value, means no limit.
            ///
            /// Before the limit refuses a request, the requesting thread trims itself and the
            /// records of ended threads, and asks running threads to trim at their next slow path.
            /// A new limit does not free memory that is already held. Freed slots that waited in
            /// another thread's bundle when the limit was set cannot be allocated until that thread
            /// publishes them.
            ///
            /// Most containers abort the process at a refusal, except in methods such as
            /// `Box::try_new_in` and `Vec::try_reserve`.
            pub fn set_limit(&self, bytes: usize) {
                $family.set_limit(bytes);
            }

            /// Returns the bytes that all threads hold, and the number of live slots. The calling
            /// thread reads all units of all threads.
            #[must_use]
            pub fn stats(&self) -> $crate::Stats {
                $family.stats()
            }
        }
    };
}
