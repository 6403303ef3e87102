//! Releases buffers and retires the stores of dropped rings. Either operation can free a store.

use core::ptr::NonNull;

use ephemera_prim::poison::poison;

use crate::guard::GuardPtr;
#[cfg(feature = "alloc")]
use crate::parked::ParkedStores;
use crate::store::RingStorePtr;

/// Releases the region of the buffer of `bytes` bytes at `data`. The ring can then use the region
/// again. After the ring is dropped, the last release usually frees the store (see `end`).
///
/// # Safety
/// The caller owns the buffer and does not use it again. The buffer's region has `region` bytes and
/// lies in `store`. In builds with checks, `GuardPtr::hand_out` was called with the same `bytes`
/// and `region`.
#[inline]
pub(crate) unsafe fn release(store: RingStorePtr, data: NonNull<u8>, bytes: usize, region: usize) {
    // SAFETY: the buffer starts right after the guard of its region. The region is not released
    // yet, so its store is not freed (G1).
    let guard = unsafe { GuardPtr::of(data) };
    // SAFETY: the caller owns the region, and called `hand_out` with the same arguments if this
    // build has checks.
    unsafe { guard.end_use(bytes, region) };
    if !store.is_given() {
        // SAFETY: the caller owns these bytes, and no code accesses them before the ring unpoisons
        // them.
        unsafe { poison(data, bytes) };
    }
    if weakened!("closed_after_release") {
        guard.release(region);
    }
    #[cfg(feature = "alloc")]
    if store.is_closed() {
        // SAFETY: the caller owns the buffer and does not use it again, and the store is closed.
        unsafe { release_late(store, guard) };
        return;
    }
    if !weakened!("closed_after_release") {
        guard.release(region);
    }
}

/// Releases a region of a closed store. If this release subtracts the last share, frees the store.
///
/// An `extern "C"` function cannot unwind, so an inlined drop does not need a landing pad, and the
/// compiler can keep other buffers in registers. If this function had a third argument, the drop of
/// a buffer would be too large for LLVM to inline into landing pads. `Vec::push` would then copy
/// the handle through memory, by loads that wait until all earlier stores are complete. In a
/// hand-over, that costs about 5 ns for each buffer (decision 0027).
///
/// # Safety
/// The caller owns the buffer in the region at `guard`, and does not use it again. The region lies
/// in `store`, which is closed.
#[cfg(feature = "alloc")]
#[cold]
#[inline(never)]
unsafe extern "C" fn release_late(store: RingStorePtr, guard: GuardPtr) {
    let parked = ParkedStores::of(&store);
    guard.settle(guard.held().len());
    // SAFETY: one share belongs to this region, because `close` counts the region whether it finds
    // the word taken or settled. The caller does not use the buffer again.
    if unsafe { store.drop_shares(1) } {
        // SAFETY: `drop_shares` subtracted the last share.
        unsafe { parked.end(store) };
        parked.sweep();
    }
}

#[cfg(feature = "alloc")]
impl RingStorePtr {
    /// Retires the store of a dropped ring: frees the store if no buffer is live, and parks it
    /// otherwise. Never blocks.
    ///
    /// # Safety
    /// [`RingStorePtr::create`] returned the store, and the caller is the store's ring, which does
    /// not use the store again.
    pub(crate) unsafe fn retire(self) {
        let parked = ParkedStores::of(&self);
        // SAFETY: the caller is the ring, which does not allocate again.
        let held = unsafe { self.close() };
        if held != 0 {
            // SAFETY: `close` returned `held`, which is not zero. A ring is dropped once, so no
            // other code parks its store.
            unsafe { parked.park(self, held) };
            return;
        }
        // SAFETY: no region is taken, and the store is not parked, so no other code uses the
        // regions.
        unsafe { self.free_regions() };
        // SAFETY: no buffer is live, and the header is in no list, so no other code uses the
        // header.
        unsafe { self.free_header() };
        parked.sweep();
    }
}
