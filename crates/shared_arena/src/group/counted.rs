//! Stores the counts of counted handles: an array for each page, allocated at the page's first
//! counted handle.

use core::ptr;

use ephemera_prim::sync::{AtomicPtr, Ordering};

use crate::account::StoreAccount;
use crate::counts::Count;
use crate::error::Refused;
use crate::geometry::ArenaGeometry;

/// The counts of a page: an array with an element for each slot, or null before the first counted
/// handle.
#[derive(Debug)]
pub(super) struct PageCounts(AtomicPtr<Count>);

impl PageCounts {
    /// Creates the counts for a page that has not had a counted handle yet.
    pub(super) fn none() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Returns the counts of a slot.
    ///
    /// # Safety
    /// A successful call to [`PageCounts::make`] happened before this one, and the page has this
    /// slot. The page's group is not freed while the result is used.
    #[inline]
    pub(super) unsafe fn of<'a>(&self, slot: usize) -> &'a Count {
        // SAFETY: the caller guarantees that `make` stored the array, which has an element for each
        // slot.
        let count = unsafe { self.0.load(Ordering::Relaxed).add(slot) };
        // SAFETY: `make` initialised the array, which lives as long as the page's group.
        unsafe { &*count }
    }

    /// Allocates the array, if the page has none yet.
    ///
    /// # Errors
    /// Returns [`Refused`] if the limit or the global allocator refuses the memory for the array.
    #[inline]
    pub(super) fn make(&self, account: &StoreAccount, geometry: &ArenaGeometry) -> Result<(), Refused> {
        // ORDERING: `see_order`. Pairs with the Release in `StoreAccount::publish_array`.
        if self.0.load(see_order()).is_null() { self.make_array(account, geometry) } else { Ok(()) }
    }

    #[cold]
    #[inline(never)]
    fn make_array(&self, account: &StoreAccount, geometry: &ArenaGeometry) -> Result<(), Refused> {
        account.publish_array(&self.0, geometry.slots, Count::new, (publish_order(), see_order())).map(drop)
    }

    /// Frees the array, if the page has one.
    ///
    /// # Safety
    /// No code uses the page's counts again, and earlier calls to `make` had the same arguments.
    pub(super) unsafe fn release(&self, account: &StoreAccount, geometry: &ArenaGeometry) {
        // SAFETY: `make` published an array of this length, and the caller guarantees that no code
        // uses it again.
        unsafe { account.release_array(&self.0, geometry.slots) };
    }
}

// ORDERING: Release. Pairs with the Acquire in `PageCounts::make` and, if it finds an array, in
// `StoreAccount::publish_array`. Publishes: the array.
ordering!(publish_order = Release, Relaxed if "counts_publish_relaxed");
// ORDERING: Acquire. Pairs with the Release in `StoreAccount::publish_array`.
ordering!(see_order = Acquire, Relaxed if "counts_see_relaxed");
