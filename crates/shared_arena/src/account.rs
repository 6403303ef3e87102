//! Counts the bytes that a store holds, and enforces the store's limit.
//!
//! Only slow paths use an account. A store acquires all its memory through its account, including
//! the memory of the store itself, so `held` is the whole footprint.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use allocator_api2::alloc::Global;
use ephemera_prim::account::SharedBytes;
use ephemera_prim::raw;
use ephemera_prim::sync::{AtomicPtr, Ordering};

use crate::error::{RefusalCause, Refused};

/// The bytes that a store holds, and the limit on them.
#[derive(Debug)]
pub(crate) struct StoreAccount {
    pub(crate) bytes: SharedBytes,
}

impl StoreAccount {
    pub(crate) fn new(limit: usize) -> Self {
        Self { bytes: SharedBytes::new(limit) }
    }

    /// Creates the error for a refused request of `asked` bytes. The error reports the bytes that
    /// the account holds at this moment.
    pub(crate) fn refused(&self, asked: usize, cause: RefusalCause) -> Refused {
        self.refused_at(self.bytes.held(), asked, cause)
    }

    /// Creates the error for a request of `asked` bytes that was refused when the account held
    /// `held` bytes.
    fn refused_at(&self, held: usize, asked: usize, cause: RefusalCause) -> Refused {
        let other_copy = cause == RefusalCause::OtherCopy;
        Refused { asked, held, limit: self.bytes.limit(), other_copy, cause }
    }

    /// Adds `bytes` to the account until the result is dropped.
    ///
    /// # Errors
    /// Returns [`Refused`] if the limit does not allow the bytes.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<ReservedBytes<'_>, Refused> {
        let before =
            self.bytes.reserve(bytes).map_err(|held| self.refused_at(held, bytes, RefusalCause::Limit))?;
        Ok(ReservedBytes { account: self, before, bytes })
    }

    /// Allocates uninitialised memory of this layout.
    ///
    /// # Errors
    /// Returns [`Refused`] if the limit does not allow the layout, or if the global allocator
    /// refuses it.
    pub(crate) fn acquire(&self, layout: Layout) -> Result<NonNull<u8>, Refused> {
        let reserved = self.reserve(layout.size())?;
        let block = raw::acquire(&Global, layout)
            .map_err(|_| self.refused_at(reserved.before, reserved.bytes, RefusalCause::GlobalAllocator))?;
        core::mem::forget(reserved);
        Ok(block)
    }

    /// Allocates an array of `len` items that `make` creates, publishes it in `head` and returns
    /// it. If another call has published an array in `head` first, frees the new array and returns
    /// the other one.
    ///
    /// # Errors
    /// Returns [`Refused`] if the array exceeds the address space, or if the limit or the global
    /// allocator refuses its memory.
    pub(crate) fn publish_array<T>(
        &self,
        head: &AtomicPtr<T>,
        len: usize,
        make: impl Fn() -> T,
        (publish, see): (Ordering, Ordering),
    ) -> Result<*mut T, Refused> {
        let layout =
            Layout::array::<T>(len).map_err(|_| self.refused(usize::MAX, RefusalCause::AddressSpace))?;
        let array = self.acquire(layout)?.cast::<T>();
        for at in 0..len {
            // SAFETY: the fresh memory has room for `len` items, and `at` is less than `len`.
            let item = unsafe { array.add(at) };
            // SAFETY: the item lies in the fresh memory.
            unsafe { item.write(make()) };
        }
        // ORDERING: `publish`. Pairs with `PageCounts::make`, `Segments::shard`,
        // `Segments::make_cell` and `Segments::cells`. Publishes: the items. On failure: `see`,
        // which pairs with the `publish` of the thread that published the array in `head`.
        match head.compare_exchange(ptr::null_mut(), array.as_ptr(), publish, see) {
            Ok(_) => Ok(array.as_ptr()),
            Err(other) => {
                // SAFETY: the array was acquired above with this layout, and no other thread has
                // seen it.
                unsafe { self.release(array.cast(), layout) };
                Ok(other)
            }
        }
    }

    /// Frees the array in `head`, if a call to `publish_array` has published one.
    ///
    /// # Safety
    /// Each call to `publish_array` for this `head` was on this account, with this `len`. No code
    /// uses the array again.
    pub(crate) unsafe fn release_array<T>(&self, head: &AtomicPtr<T>, len: usize) {
        let array = NonNull::new(head.load(Ordering::Relaxed));
        if let (Some(array), Ok(layout)) = (array, Layout::array::<T>(len)) {
            // SAFETY: `publish_array` acquired the array with this layout, and the caller
            // guarantees that no code uses it again.
            unsafe { self.release(array.cast(), layout) };
        }
    }

    /// Returns `block` to the global allocator.
    ///
    /// # Safety
    /// `acquire` of this account returned `block` for this `layout`, and no code uses the block
    /// again.
    pub(crate) unsafe fn release(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: `acquire` allocated the block from `Global` with this layout, and the caller
        // guarantees that no code uses the block again.
        unsafe { raw::release(&Global, block, layout) };
        self.bytes.release(layout.size());
    }
}

/// Bytes that an account counts before they are allocated. Dropping this value takes the bytes off
/// the account.
#[derive(Debug)]
pub(crate) struct ReservedBytes<'a> {
    account: &'a StoreAccount,
    /// The bytes that the account held before the reservation.
    before: usize,
    bytes: usize,
}

impl Drop for ReservedBytes<'_> {
    fn drop(&mut self) {
        self.account.bytes.release(self.bytes);
    }
}

#[cfg(all(test, feature = "std", not(ephemera_loom)))]
mod tests {
    use super::{RefusalCause, StoreAccount};
    use core::alloc::Layout;

    #[test]
    fn held_is_the_sum_of_granted_bytes() {
        let layout = Layout::new::<[u64; 8]>();
        let account = StoreAccount::new(100);
        let block = account.acquire(layout).unwrap();
        assert_eq!((account.bytes.held(), account.bytes.limit()), (64, 100));
        let refused = account.acquire(layout).unwrap_err();
        assert_eq!((refused.asked, refused.held, refused.limit), (64, 64, 100));
        assert!(refused.by_limit() && account.bytes.held() == 64);
        assert!(account.reserve(36).is_ok() && account.reserve(37).is_err());
        assert_eq!(account.bytes.held(), 64);
        // SAFETY: `acquire` of this account returned the block for this layout, and the test does
        // not use the block again.
        unsafe { account.release(block, layout) };
        assert_eq!(account.bytes.held(), 0);
    }

    #[test]
    fn only_an_exceeded_limit_is_a_refusal_by_the_limit() {
        let account = StoreAccount::new(100);
        let reserved = account.reserve(60).unwrap();
        let record = account.refused(4_096, RefusalCause::Record);
        assert!(!record.by_limit() && (record.held, record.limit) == (60, 100));
        let copy = account.refused(0, RefusalCause::OtherCopy);
        assert!(copy.other_copy && !copy.by_limit());
        let refused = account.reserve(50).unwrap_err();
        assert!(refused.by_limit() && !refused.other_copy);
        drop(reserved);
        assert!(account.reserve(50).is_ok());
    }
}
