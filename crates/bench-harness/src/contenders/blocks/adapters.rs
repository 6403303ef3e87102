//! The adapters for allocators with the trait of allocator-api2, in both versions. They pass on all
//! methods, including `grow` and `shrink`.

use core::alloc::Layout;
use core::ptr::{NonNull, null_mut};

use crate::blocks::RawAlloc;

/// Defines the adapter for one version of the trait.
macro_rules! adapter {
    ($(#[$doc:meta])* $name:ident, $api:path) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name<T>(pub(crate) T);

        // SAFETY: `Allocator` makes the promises of `RawAlloc`: valid and exclusive blocks,
        // equivalent copies. Only the cards of types that are `Sync` declare `any_thread_free`.
        unsafe impl<T: $api> RawAlloc for $name<T> {
            #[inline(always)]
            unsafe fn raw_alloc(&self, layout: Layout) -> *mut u8 {
                thin(self.0.allocate(layout))
            }

            #[inline(always)]
            unsafe fn raw_alloc_zeroed(&self, layout: Layout) -> *mut u8 {
                thin(self.0.allocate_zeroed(layout))
            }

            #[inline(always)]
            unsafe fn raw_dealloc(&self, ptr: *mut u8, layout: Layout) {
                // SAFETY: the caller gives up a block of this allocator, and blocks are never null.
                let ptr = unsafe { NonNull::new_unchecked(ptr) };
                // SAFETY: the caller's duty is the callee's.
                unsafe { self.0.deallocate(ptr, layout) }
            }

            #[inline(always)]
            unsafe fn raw_resize<const GROW: bool>(
                &self,
                ptr: *mut u8,
                old: Layout,
                new: Layout,
            ) -> *mut u8 {
                // SAFETY: the caller gives up a block of this allocator, and blocks are never null.
                let ptr = unsafe { NonNull::new_unchecked(ptr) };
                thin(if GROW {
                    // SAFETY: the caller's duty is the callee's.
                    unsafe { self.0.grow(ptr, old, new) }
                } else {
                    // SAFETY: the caller's duty is the callee's.
                    unsafe { self.0.shrink(ptr, old, new) }
                })
            }
        }
    };
}

#[inline(always)]
fn thin<E>(block: Result<NonNull<[u8]>, E>) -> *mut u8 {
    block.map_or(null_mut(), |block| block.cast::<u8>().as_ptr())
}

adapter! {
    /// An allocator of version 0.2 as a [`RawAlloc`]. It wraps a value that is cheap to copy, or
    /// else a reference.
    Api02, allocator_api2::alloc::Allocator
}
adapter! {
    /// The same for version 0.4.
    Api04, allocator_api2_04::alloc::Allocator
}
