//! The counts of a page's slots: an array that it gets at its first counted handle.

use core::alloc::Layout;
use core::ptr::NonNull;

use ephemera_prim::sync::{AtomicPtr, Ordering};

use super::{GroupPtr, Rare};
use crate::counts::Count;
use crate::error::Refused;
use crate::geometry::Geometry;
use crate::store::Store;

impl GroupPtr {
    #[inline]
    fn counts(&self, geometry: &Geometry, page: usize) -> &AtomicPtr<Count> {
        let rare = self.part::<Rare>(geometry.rare, page);
        // SAFETY: G1; a reference to the word alone.
        unsafe { &(*rare.as_ptr()).counts }
    }

    /// The counts of a slot that has a counted handle.
    ///
    /// # Safety
    /// [`GroupPtr::make_counts`] was called for this page, as seen from this thread.
    #[inline]
    pub(crate) unsafe fn count(&self, geometry: &Geometry, page: usize, slot: usize) -> &Count {
        let counts = self.counts(geometry, page).load(Ordering::Relaxed);
        // SAFETY: the array has an element for each slot.
        let count = unsafe { counts.add(slot) };
        // SAFETY: it lives as long as the group.
        unsafe { &*count }
    }

    /// The counts of a slot that the caller has; the page gets its array if this is its first one.
    pub(crate) fn make_counts(
        &self,
        store: &Store,
        geometry: &Geometry,
        page: usize,
        slot: usize,
    ) -> Result<&Count, Refused> {
        // ORDERING: `SEE`. Pairs with the Release in `publish_counts`.
        if self.counts(geometry, page).load(SEE).is_null() {
            let layout = counts_layout(geometry);
            let array = store.account().acquire(layout)?.cast::<Count>();
            for index in 0..geometry.slots {
                // SAFETY: fresh memory for so many counts.
                let count = unsafe { array.add(index) };
                // SAFETY: as above.
                unsafe { count.write(Count::new()) };
            }
            if !publish_counts(self.counts(geometry, page), array) {
                // SAFETY: from above, and nobody has seen it.
                unsafe { store.account().release(array.cast(), layout) };
            }
        }
        // SAFETY: the page has its array now.
        Ok(unsafe { self.count(geometry, page, slot) })
    }

    /// Gives the counts of a page back, if it has any.
    ///
    /// # Safety
    /// No slot of the page has a handle, and the group was made for `store`.
    pub(super) unsafe fn release_counts(self, store: &Store, page: usize) {
        let counts = self.counts(store.geometry(), page).load(Ordering::Relaxed);
        if let Some(counts) = NonNull::new(counts) {
            // SAFETY: from `make_counts`; nobody uses them.
            unsafe { store.account().release(counts.cast(), counts_layout(store.geometry())) };
        }
    }
}

// ORDERING: Acquire. Pairs with the Release in `publish_counts`: the array is seen as it was made.
const SEE: Ordering =
    if cfg!(ephemera_weaken = "counts_see_relaxed") { Ordering::Relaxed } else { Ordering::Acquire };

/// Gives a page its array, unless another thread has just done so.
#[cfg(target_has_atomic = "ptr")]
fn publish_counts(place: &AtomicPtr<Count>, array: NonNull<Count>) -> bool {
    // ORDERING: Release. Pairs with the Acquire in `GroupPtr::make_counts`. Publishes: the array.
    const PUBLISH: Ordering =
        if cfg!(ephemera_weaken = "counts_publish_relaxed") { Ordering::Relaxed } else { Ordering::Release };
    // ORDERING: `PUBLISH`, and `SEE` where another thread was first. Pairs with `GroupPtr::make_counts`.
    place.compare_exchange(core::ptr::null_mut(), array.as_ptr(), PUBLISH, SEE).is_ok()
}

/// Without compare-and-swap there are only types for one thread.
#[cfg(not(target_has_atomic = "ptr"))]
fn publish_counts(place: &AtomicPtr<Count>, array: NonNull<Count>) -> bool {
    place.store(array.as_ptr(), Ordering::Relaxed);
    true
}

/// The layout of the counts of a page. The number of slots is at most 63.
fn counts_layout(geometry: &Geometry) -> Layout {
    Layout::array::<Count>(geometry.slots).unwrap_or(Layout::new::<Count>())
}
