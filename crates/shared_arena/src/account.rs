//! Counts the bytes that a store holds, and enforces its limit.
//!
//! Only slow paths use an account. A store acquires all its memory through its account, the memory
//! of the store itself included, so `held` is the whole footprint.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::Global;
use ephemera_prim::account::SharedBytes;
use ephemera_prim::raw;

use crate::error::Refused;

/// The bytes that a store holds, and the limit on them.
#[derive(Debug)]
pub(crate) struct StoreAccount(SharedBytes);

impl StoreAccount {
    pub(crate) fn new(limit: usize) -> Self {
        Self(SharedBytes::new(limit))
    }

    pub(crate) fn held(&self) -> usize {
        self.0.held()
    }

    pub(crate) fn limit(&self) -> usize {
        self.0.limit()
    }

    /// Creates the error for a request of `asked` bytes.
    pub(crate) fn refused(&self, asked: usize) -> Refused {
        Refused { asked, held: self.held(), limit: self.limit(), other_copy: false }
    }

    /// Creates the error for a claim through another copy of this crate than the one that made the
    /// store.
    #[cfg(all(feature = "std", target_has_atomic = "64", not(ephemera_loom)))]
    pub(crate) fn other_copy(&self) -> Refused {
        Refused { other_copy: true, ..self.refused(0) }
    }

    /// Returns whether the limit has room for `bytes` more.
    pub(crate) fn allows(&self, bytes: usize) -> bool {
        self.0.allows(bytes)
    }

    /// Allocates uninitialised memory of this layout.
    ///
    /// # Errors
    /// Returns [`Refused`] if the limit has no room for the layout, or if the global allocator
    /// refuses it.
    pub(crate) fn acquire(&self, layout: Layout) -> Result<NonNull<u8>, Refused> {
        let bytes = layout.size();
        if !self.0.reserve(bytes) {
            return Err(self.refused(bytes));
        }
        raw::acquire(&Global, layout).map_err(|_| {
            self.0.release(bytes);
            self.refused(bytes)
        })
    }

    /// Returns `block` to the global allocator.
    ///
    /// # Safety
    /// `acquire` of this account returned `block` for this `layout`, and no code uses it again.
    pub(crate) unsafe fn release(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: `acquire` took the block from the same allocator, with this layout.
        unsafe { raw::release(&Global, block, layout) };
        self.0.release(layout.size());
    }
}

#[cfg(all(test, feature = "std", not(ephemera_loom)))]
mod tests {
    use super::StoreAccount;
    use core::alloc::Layout;

    #[test]
    fn held_is_the_sum_of_granted_bytes() {
        let layout = Layout::new::<[u64; 8]>();
        let account = StoreAccount::new(100);
        let block = account.acquire(layout).unwrap();
        assert_eq!((account.held(), account.limit()), (64, 100));
        let refused = account.acquire(layout).unwrap_err();
        assert_eq!((refused.asked, refused.held, refused.limit), (64, 64, 100));
        assert!(refused.by_limit() && account.held() == 64);
        // SAFETY: the account granted the block above with this layout.
        unsafe { account.release(block, layout) };
        assert_eq!(account.held(), 0);
    }
}
