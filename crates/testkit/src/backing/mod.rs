//! Hostile backing allocators, to put below the allocator under test.
//!
//! [`CountingGlobal`] is a global allocator. Tests can use the others by value, by reference or
//! through [`Shared`], and from any thread. [`Hostile`] stacks five of these allocators over
//! `Global`:
//!
//! ```text
//! subject → Counting → FailNth → Limited → LayoutChecked → Disaligning → Global
//! ```

mod counting;
mod counting_global;
mod disaligning;
mod fail_nth;
mod gauge;
mod hostile;
mod layout_checked;
mod limited;
mod shared;

pub use counting::{Calls, Counting};
pub use counting_global::{CountingGlobal, Spent};
pub use disaligning::{Disaligning, LARGEST_SHIFTED_ALIGN};
pub use fail_nth::{FailNth, Refusals};
pub use gauge::Level;
pub use hostile::Hostile;
pub use layout_checked::{FREED, FRESH, LayoutChecked};
pub use limited::Limited;
pub use shared::{Shared, immortal};

/// Implements `Allocator` for a type by passing every call on to the allocator in one of its
/// fields.
macro_rules! pass_on {
    ([$($generics:tt)*] $type:ty, $field:tt) => {
        // SAFETY: every call goes to the allocator in the field, which meets the contract.
        unsafe impl<$($generics)*> allocator_api2::alloc::Allocator for $type {
            fn allocate(
                &self,
                layout: core::alloc::Layout,
            ) -> Result<core::ptr::NonNull<[u8]>, allocator_api2::alloc::AllocError> {
                self.$field.allocate(layout)
            }

            fn allocate_zeroed(
                &self,
                layout: core::alloc::Layout,
            ) -> Result<core::ptr::NonNull<[u8]>, allocator_api2::alloc::AllocError> {
                self.$field.allocate_zeroed(layout)
            }

            unsafe fn deallocate(&self, ptr: core::ptr::NonNull<u8>, layout: core::alloc::Layout) {
                // SAFETY: the caller upholds the contract, which the inner allocator shares.
                unsafe { self.$field.deallocate(ptr, layout) };
            }

            unsafe fn grow(
                &self,
                ptr: core::ptr::NonNull<u8>,
                old: core::alloc::Layout,
                new: core::alloc::Layout,
            ) -> Result<core::ptr::NonNull<[u8]>, allocator_api2::alloc::AllocError> {
                // SAFETY: the caller upholds the contract, which the inner allocator shares.
                unsafe { self.$field.grow(ptr, old, new) }
            }

            unsafe fn grow_zeroed(
                &self,
                ptr: core::ptr::NonNull<u8>,
                old: core::alloc::Layout,
                new: core::alloc::Layout,
            ) -> Result<core::ptr::NonNull<[u8]>, allocator_api2::alloc::AllocError> {
                // SAFETY: the caller upholds the contract, which the inner allocator shares.
                unsafe { self.$field.grow_zeroed(ptr, old, new) }
            }

            unsafe fn shrink(
                &self,
                ptr: core::ptr::NonNull<u8>,
                old: core::alloc::Layout,
                new: core::alloc::Layout,
            ) -> Result<core::ptr::NonNull<[u8]>, allocator_api2::alloc::AllocError> {
                // SAFETY: the caller upholds the contract, which the inner allocator shares.
                unsafe { self.$field.shrink(ptr, old, new) }
            }
        }
    };
}
use pass_on;
