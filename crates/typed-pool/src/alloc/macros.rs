//! The macro that declares an allocator.

/// Declares an allocator as [`PooledAllocator`](crate::PooledAllocator) is one, with pools of its own: a zero-sized type that is `Copy` and `Default`.
///
/// What is allocated for one purpose then lies together, apart from other blocks of the same size, has a limit of its own, and comes
/// back to the global heap on its own.
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
            #[inline]
            fn __here() -> &'static $crate::__private::LocalKey<$crate::__private::Here> {
                $crate::__private::thread_local! {
                    static HERE: $crate::__private::Here = const { $crate::__private::Here::nowhere() };
                }
                &HERE
            }

            #[inline]
            fn __family() -> &'static $crate::__private::Family {
                static FAMILY: $crate::__private::Family =
                    // SAFETY: the thread-local of this allocator alone.
                    unsafe { $crate::__private::Family::of_classes($name::__here) };
                &FAMILY
            }

            /// A block of this layout: exactly `layout.size()` bytes, not initialised.
            ///
            /// Layouts of size zero give an aligned address that is no memory, and touch nothing.
            ///
            /// # Errors
            /// `AllocError` when the limit would be exceeded, or when the global heap refuses.
            #[inline]
            pub fn allocate(
                &self,
                layout: $crate::__private::Layout,
            ) -> $crate::__private::core::result::Result<$crate::__private::NonNull<[u8]>, $crate::__private::AllocError> {
                // SAFETY: this allocator's own.
                unsafe { $crate::__private::allocate(Self::__here(), Self::__family(), layout) }
            }

            /// As `allocate`, with all bytes zero.
            ///
            /// # Errors
            /// As `allocate`.
            #[inline]
            pub fn allocate_zeroed(
                &self,
                layout: $crate::__private::Layout,
            ) -> $crate::__private::core::result::Result<$crate::__private::NonNull<[u8]>, $crate::__private::AllocError> {
                // SAFETY: this allocator's own.
                unsafe { $crate::__private::allocate_zeroed(Self::__here(), Self::__family(), layout) }
            }

            /// Gives back a block, on any thread.
            ///
            /// # Safety
            /// `block` is a live block of this allocator, and `layout` fits it.
            #[inline]
            pub unsafe fn deallocate(
                &self,
                block: $crate::__private::NonNull<u8>,
                layout: $crate::__private::Layout,
            ) {
                // SAFETY: the caller's; this allocator's pools.
                unsafe { $crate::__private::deallocate(Self::__here(), Self::__family(), block, layout) }
            }

            /// Grows a block: in place if its class stays the same; one without a class is grown by the global heap; others move.
            ///
            /// # Errors
            /// As `allocate`; the old block is then as it was.
            ///
            /// # Safety
            /// `block` is a live block of this allocator, `old` fits it, and `new.size()` is not smaller than `old.size()`.
            #[inline]
            pub unsafe fn grow(
                &self,
                block: $crate::__private::NonNull<u8>,
                old: $crate::__private::Layout,
                new: $crate::__private::Layout,
            ) -> $crate::__private::core::result::Result<$crate::__private::NonNull<[u8]>, $crate::__private::AllocError> {
                // SAFETY: the caller's; this allocator's pools.
                unsafe { $crate::__private::grow(Self::__here(), Self::__family(), block, old, new, false) }
            }

            /// As `grow`, with all bytes from `old.size()` on zero.
            ///
            /// # Errors
            /// As `grow`.
            ///
            /// # Safety
            /// As `grow`.
            #[inline]
            pub unsafe fn grow_zeroed(
                &self,
                block: $crate::__private::NonNull<u8>,
                old: $crate::__private::Layout,
                new: $crate::__private::Layout,
            ) -> $crate::__private::core::result::Result<$crate::__private::NonNull<[u8]>, $crate::__private::AllocError> {
                // SAFETY: the caller's; this allocator's pools.
                unsafe { $crate::__private::grow(Self::__here(), Self::__family(), block, old, new, true) }
            }

            /// Shrinks a block: in place if its class stays the same; one without a class is shrunk by the global heap; others move.
            ///
            /// The limit refuses no shrink: a block that has to move may exceed it, by a unit of 8 slots at most, or by the
            /// new size where that has no class.
            ///
            /// # Errors
            /// `AllocError` when the block has to move and the global heap refuses; the old block is then as it was.
            ///
            /// # Safety
            /// `block` is a live block of this allocator, `old` fits it, and `new.size()` is not larger than `old.size()`.
            #[inline]
            pub unsafe fn shrink(
                &self,
                block: $crate::__private::NonNull<u8>,
                old: $crate::__private::Layout,
                new: $crate::__private::Layout,
            ) -> $crate::__private::core::result::Result<$crate::__private::NonNull<[u8]>, $crate::__private::AllocError> {
                // SAFETY: the caller's; this allocator's pools.
                unsafe { $crate::__private::shrink(Self::__here(), Self::__family(), block, old, new) }
            }

            /// Gives this thread's units in which nothing is alive back to the global heap, after booking what other threads freed.
            ///
            /// Without it, a thread keeps 4 such units of each class for its next need, gives back others as they run empty, and keeps one
            /// more each time that it has to ask for one that it gave back; it gives back all when it ends.
            #[expect(clippy::allow_attributes, reason = "whether all of these are used is up to whoever declares an allocator")]
            #[allow(dead_code, reason = "an allocator may never be trimmed")]
            pub fn trim(&self) {
                $crate::__private::trim(Self::__family());
            }

            /// As `trim`, also for what ended threads left behind; and asks the threads that run to do the same when they next have no
            /// free slot at hand.
            ///
            /// A thread that does not allocate any more is not reached: what it keeps goes at its end or at its own `trim`.
            #[expect(clippy::allow_attributes, reason = "whether all of these are used is up to whoever declares an allocator")]
            #[allow(dead_code, reason = "an allocator may never be trimmed")]
            pub fn trim_all(&self) {
                $crate::__private::trim_all(Self::__family());
            }

            /// Sets the most bytes that all threads together may hold from the global heap, units and larger blocks, from now on;
            /// `usize::MAX` for no limit, which is how a program starts.
            ///
            /// Requests beyond it fail, after this thread and the records of ended ones gave back what they held in vain. What is held
            /// already stays.
            #[expect(clippy::allow_attributes, reason = "whether all of these are used is up to whoever declares an allocator")]
            #[allow(dead_code, reason = "an allocator may have no limit")]
            pub fn set_limit(&self, bytes: usize) {
                $crate::__private::set_limit(Self::__family(), bytes);
            }

            /// What all threads hold and what of it is alive. Walks along all units of all threads.
            #[expect(clippy::allow_attributes, reason = "whether all of these are used is up to whoever declares an allocator")]
            #[allow(dead_code, reason = "nobody may ask for statistics")]
            #[must_use]
            pub fn stats(&self) -> $crate::Stats {
                $crate::__private::stats(Self::__family())
            }
        }

        $crate::__private::impl_allocator! {
            // SAFETY: H3: a slot that was handed out is not free, so that blocks are disjoint and stay valid until they are freed; all
            // values are the same allocator, and no method unwinds.
            unsafe impl[] for $name
        }
    };
}
