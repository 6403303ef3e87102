//! Stores the counts of counted handles: an array for each page, allocated at the page's first
//! counted handle.

use core::alloc::Layout;
use core::ptr::NonNull;

use ephemera_prim::sync::{AtomicPtr, Ordering};

use super::{PageGroupPtr, Rare};
use crate::counts::Count;
use crate::error::Refused;
use crate::geometry::ArenaGeometry;
use crate::store::ArenaStore;

impl PageGroupPtr {
    #[inline]
    fn counts(&self, geometry: &ArenaGeometry, page: usize) -> &AtomicPtr<Count> {
        let rare = self.part::<Rare>(geometry.rare, page);
        // SAFETY: G1; a reference to the word alone.
        unsafe { &(*rare.as_ptr()).counts }
    }

    /// Returns the counts of a slot that has a counted handle.
    ///
    /// # Safety
    /// A call of [`PageGroupPtr::make_counts`] for this page happened before this one.
    #[inline]
    pub(crate) unsafe fn count(&self, geometry: &ArenaGeometry, page: usize, slot: usize) -> &Count {
        let counts = self.counts(geometry, page).load(Ordering::Relaxed);
        // SAFETY: the array has an element for each slot.
        let count = unsafe { counts.add(slot) };
        // SAFETY: the array lives as long as the group.
        unsafe { &*count }
    }

    /// Returns the counts of a slot that the caller owns. Allocates the array if it is the page's
    /// first counted slot.
    ///
    /// # Errors
    /// [`Refused`] if the account has no room for the array.
    pub(crate) fn make_counts(
        &self,
        store: &ArenaStore,
        geometry: &ArenaGeometry,
        page: usize,
        slot: usize,
    ) -> Result<&Count, Refused> {
        // ORDERING: `SEE`. Pairs with the Release in `publish_counts`.
        if self.counts(geometry, page).load(SEE).is_null() {
            let layout = counts_layout(geometry);
            let array = store.account().acquire(layout)?.cast::<Count>();
            for index in 0..geometry.slots {
                // SAFETY: the fresh memory has room for `geometry.slots` counts.
                let count = unsafe { array.add(index) };
                // SAFETY: the place lies in the fresh memory.
                unsafe { count.write(Count::new()) };
            }
            if !publish_counts(self.counts(geometry, page), array) {
                // SAFETY: the array was acquired above with this layout, and no other thread has
                // seen it.
                unsafe { store.account().release(array.cast(), layout) };
            }
        }
        // SAFETY: the page has its array now.
        Ok(unsafe { self.count(geometry, page, slot) })
    }

    /// Frees the counts of a page, if it has any.
    ///
    /// # Safety
    /// No slot of the page has a handle, and the group was made for `store`.
    pub(super) unsafe fn release_counts(self, store: &ArenaStore, page: usize) {
        let counts = self.counts(store.geometry(), page).load(Ordering::Relaxed);
        if let Some(counts) = NonNull::new(counts) {
            // SAFETY: `make_counts` acquired the array with this layout, and nobody uses it.
            unsafe { store.account().release(counts.cast(), counts_layout(store.geometry())) };
        }
    }
}

// ORDERING: Acquire. Pairs with the Release in `publish_counts`, which publishes the initialised
// array.
const SEE: Ordering =
    if cfg!(ephemera_weaken = "counts_see_relaxed") { Ordering::Relaxed } else { Ordering::Acquire };

/// Gives a page its array. Returns false if another thread was faster.
#[cfg(target_has_atomic = "ptr")]
fn publish_counts(place: &AtomicPtr<Count>, array: NonNull<Count>) -> bool {
    // ORDERING: Release. Pairs with the Acquire in `PageGroupPtr::make_counts`. Publishes: the
    // array.
    const PUBLISH: Ordering =
        if cfg!(ephemera_weaken = "counts_publish_relaxed") { Ordering::Relaxed } else { Ordering::Release };
    // ORDERING: `PUBLISH`, and `SEE` if another thread was faster. Pairs with
    // `PageGroupPtr::make_counts`.
    place.compare_exchange(core::ptr::null_mut(), array.as_ptr(), PUBLISH, SEE).is_ok()
}

/// Without compare-and-swap, all types are for one thread.
#[cfg(not(target_has_atomic = "ptr"))]
fn publish_counts(place: &AtomicPtr<Count>, array: NonNull<Count>) -> bool {
    place.store(array.as_ptr(), Ordering::Relaxed);
    true
}

/// Returns the layout of the counts of a page. It exists, since a page has at most 63 slots.
fn counts_layout(geometry: &ArenaGeometry) -> Layout {
    Layout::array::<Count>(geometry.slots).unwrap_or(Layout::new::<Count>())
}
