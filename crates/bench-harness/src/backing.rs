//! A backing allocator that counts the bytes that a contender holds. It implements the `Allocator`
//! traits of allocator-api2 0.2 and 0.4.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use allocator_api2::alloc::{Allocator, Global};

static HELD: AtomicU64 = AtomicU64::new(0);
static PEAK: AtomicU64 = AtomicU64::new(0);

/// The global heap, with process-wide counters of the bytes held and of their peak.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CountingBacking;

/// Resets the peak to the bytes held now.
pub(crate) fn reset_peak() {
    PEAK.store(HELD.load(Relaxed), Relaxed);
}

/// Returns the peak of the bytes held since [`reset_peak`].
pub(crate) fn peak() -> u64 {
    PEAK.load(Relaxed)
}

/// Returns the bytes held now.
pub(crate) fn held() -> u64 {
    HELD.load(Relaxed)
}

fn take(bytes: usize) {
    let held = HELD.fetch_add(bytes as u64, Relaxed) + bytes as u64;
    PEAK.fetch_max(held, Relaxed);
}

fn give(bytes: usize) {
    HELD.fetch_sub(bytes as u64, Relaxed);
}

/// Implements the `Allocator` trait of one version of allocator-api2.
macro_rules! counting {
    ($($api:ident)::+) => {
        // SAFETY: every block comes from `Global` and is returned to `Global`, and all copies of
        // `Global` are equivalent. The provided `grow` and `shrink` allocate, copy and free.
        unsafe impl $($api)::+::Allocator for CountingBacking {
            fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, $($api)::+::AllocError> {
                let block = Global.allocate(layout).map_err(|_| $($api)::+::AllocError)?;
                take(layout.size());
                Ok(block)
            }

            unsafe fn deallocate(&self, ptr: NonNull<u8>, layout: Layout) {
                give(layout.size());
                // SAFETY: the caller passes a block that `allocate` took from `Global` with this
                // layout.
                unsafe { Global.deallocate(ptr, layout) }
            }
        }
    };
}

counting! { allocator_api2::alloc }
counting! { allocator_api2_04::alloc }
