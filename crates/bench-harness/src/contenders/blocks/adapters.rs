//! Adapters that implement [`RawAlloc`] for allocators with allocator-api2's `Allocator`, one for
//! each version of the trait. A resize calls `grow` or `shrink`. The adapters never call
//! `grow_zeroed`.

use core::alloc::Layout;
use core::ptr::{NonNull, null_mut};

use crate::blocks::RawAlloc;

/// Defines the adapter for one version of the trait.
macro_rules! adapter {
    ($(#[$doc:meta])* $name:ident, $api:path) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name<T>(pub(crate) T);

        // SAFETY: the contract of `Allocator` includes the contract of `RawAlloc`: blocks are valid
        // and exclusive, and copies are equivalent. Only the cards of types that are `Sync` declare
        // `any_thread_free`.
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
                // SAFETY: the caller passes a block of this allocator, and blocks are never null.
                let ptr = unsafe { NonNull::new_unchecked(ptr) };
                // SAFETY: the caller upholds the callee's contract.
                unsafe { self.0.deallocate(ptr, layout) }
            }

            #[inline(always)]
            unsafe fn raw_resize<const GROW: bool>(
                &self,
                ptr: *mut u8,
                old: Layout,
                new: Layout,
            ) -> *mut u8 {
                // SAFETY: the caller passes a block of this allocator, and blocks are never null.
                let ptr = unsafe { NonNull::new_unchecked(ptr) };
                thin(if GROW {
                    // SAFETY: the caller upholds the callee's contract.
                    unsafe { self.0.grow(ptr, old, new) }
                } else {
                    // SAFETY: the caller upholds the callee's contract.
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
    /// An `Allocator` of allocator-api2 0.2 as a [`RawAlloc`]. It wraps a reference, or a value
    /// that is cheap to copy.
    Api02, allocator_api2::alloc::Allocator
}
adapter! {
    /// An `Allocator` of allocator-api2 0.4 as a [`RawAlloc`].
    Api04, allocator_api2_04::alloc::Allocator
}
