//! Frees a store on the heap after its ring is dropped and its last buffer is released.
//!
//! A ring may be dropped while buffers are live. The store then stays at least until the last
//! buffer is released. Each taken region is one *share* of the store, and the thread that subtracts
//! the last share frees the regions. A *late release* sees that the store is *closed*, so it
//! subtracts its share. An *early release* read `closed` before the drop of the ring set the flag,
//! so the release does not subtract its share. A *sweep* finds early releases and subtracts their
//! shares.
//!
//! ```text
//!   drop of the ring:   closed <- true;  count the taken regions;  shares += count;  park
//!   a late release:     closed is seen;  word <- settled;  shares -= 1;  the last one frees
//!   an early release:   closed is not seen;  word <- free
//!   a sweep:            shares += 1;  count the words that are free;  shares -= 1 + count
//! ```
//!
//! # Invariants
//! * **E1** Once a store is parked, `shares` counts the regions that are neither settled nor found
//!   by a sweep. The count starts at the first region that the drop of the ring found taken. Each
//!   sweep in progress adds one share, and so does the call that parks the store. Only the thread
//!   that subtracts the last share frees the regions.
//! * **E2** The header has two halves. All shares together own one half, and the lists of
//!   `ParkedStores` own the other. The thread that gives up the second half frees the header.
//! * **E3** After the ring is dropped, no region becomes taken. Every word before `swept` is
//!   settled, or was free when the ring was dropped, or was found by a sweep.
//!
//! Sweeps start at the first region that the drop of the ring found taken. The drop settles every
//! free region beyond that one, and a late release settles its own region. A free word that a sweep
//! finds therefore belongs to an early release whose share the drop has counted.

use core::alloc::Layout;

use allocator_api2::alloc::Global;
use ephemera_prim::raw;
use ephemera_prim::sync::{AtomicUsize, Ordering, change_if};

use crate::guard::GuardPtr;
use crate::store::{RingStore, RingStorePtr};

// ORDERING: Release. Pairs with the Acquire in `RingStorePtr::drop_shares`. Publishes: all accesses
// to the regions of these shares.
ordering!(leave_order = Release, Relaxed if "share_release_relaxed");
// ORDERING: Acquire. Pairs with the Release in `leave`. Sees: all accesses of other threads to the
// regions.
ordering!(last_order = Acquire, Relaxed if "share_last_relaxed");
// ORDERING: AcqRel. Pairs with itself, in `RingStorePtr::leave_header`. Publishes: all accesses to
// the header by the owner of the first half.
ordering!(halves_order = AcqRel, Relaxed if "header_relaxed");

impl RingStorePtr {
    /// Moves `swept` past the free regions at the start of the chain. Returns `true` if every
    /// region is free.
    ///
    /// # Safety
    /// The caller is the ring, which does not allocate again.
    pub(crate) unsafe fn skip_free(self) -> bool {
        let end = self.plan().end;
        let mut at = 0;
        while at < end {
            // SAFETY: the words lead from guard to guard, so a guard is at `at`. Only the caller
            // can free the regions, and it has not done so.
            let word = unsafe { self.guard(at) }.look();
            if word.is_taken() {
                break;
            }
            at += word.len();
        }
        self.swept().set(at);
        at >= end
    }

    /// Settles the free regions from `swept` on. Returns the number of the other regions: those
    /// that are taken, and those that a late release has settled.
    ///
    /// # Safety
    /// The caller is the ring, which has closed the store and does not allocate again.
    pub(crate) unsafe fn settle(self) -> usize {
        let end = self.plan().end;
        let (mut at, mut held) = (self.swept().get(), 0);
        while at < end {
            // SAFETY: the words lead from guard to guard, so a guard is at `at`. Only the caller
            // can free the regions, and it has not done so.
            let guard = unsafe { self.guard(at) };
            let word = guard.look();
            if word.is_taken() || word.is_settled() {
                held += 1;
            } else {
                guard.settle(word.len());
            }
            at += word.span();
        }
        held
    }

    /// Moves `swept` to the next taken region or to the end, but past at most `budget` guards.
    /// Subtracts the number of visited guards from `budget`. Returns the number of early releases
    /// that `swept` passed.
    ///
    /// # Safety
    /// The caller holds the gate of the store's lists, and owns a share.
    pub(crate) unsafe fn find_released(self, budget: &mut usize) -> usize {
        let end = self.plan().end;
        let (mut at, mut found) = (self.swept().get(), 0);
        while at < end && *budget != 0 {
            *budget -= 1;
            // SAFETY: the words lead from guard to guard, so a guard is at `at`. The caller's share
            // keeps the regions (E1).
            let word = unsafe { self.guard(at) }.look();
            if word.is_taken() {
                break;
            }
            found += usize::from(!word.is_settled());
            at += word.span();
        }
        self.swept().set(at);
        found
    }

    /// Settles the region of `len` bytes in a closed store, and subtracts the region's share.
    /// Returns `true` if that was the last share. If so, the caller must free the regions.
    ///
    /// # Safety
    /// `guard` is the guard of the region. The caller owns the region, has seen that the store is
    /// closed, and does not use the buffer again.
    pub(crate) unsafe fn settle_late(self, guard: GuardPtr, len: usize) -> bool {
        guard.settle(len);
        // SAFETY: one share belongs to this region, because the drop of the ring counts the region
        // whether it finds the word taken or settled. The caller does not use the buffer again.
        unsafe { self.drop_shares(1) }
    }

    /// Adds shares. Late releases may have subtracted their shares before this call. The count has
    /// then wrapped below zero, and the addition wraps it back.
    pub(crate) fn add_shares(self, count: usize) {
        self.shares().fetch_add(count, Ordering::Relaxed);
    }

    /// Subtracts shares. Returns `true` if these were the last shares. If so, the caller sees all
    /// accesses of other threads to the regions.
    ///
    /// # Safety
    /// The shares belong to the caller, and the caller does not use the regions again, unless this
    /// returns `true`.
    pub(crate) unsafe fn drop_shares(self, count: usize) -> bool {
        if leave(self.shares(), count) != count {
            return false;
        }
        // This is a load instead of a fence, because some race detectors ignore fences.
        // ORDERING: `last_order`. Pairs with `leave`.
        self.shares().load(last_order()) == 0
    }

    /// Adds a share for a sweep and returns `true`. If no share is left, returns `false` without
    /// adding one. The regions are then being freed or were freed.
    pub(crate) fn hold(self) -> bool {
        let more = |shares| (shares != 0 || weakened!("hold_ended")).then(|| shares + 1);
        let (shares, relaxed) = (self.shares(), Ordering::Relaxed);
        let exchange = |old, new| shares.compare_exchange_weak(old, new, relaxed, relaxed);
        change_if(shares.load(relaxed), exchange, more).is_ok()
    }

    /// Frees the regions.
    ///
    /// # Safety
    /// No other code uses the regions: either no region is taken and the store was never parked, or
    /// the caller subtracted the last share.
    pub(crate) unsafe fn free_regions(self) {
        self.end_regions();
        let plan = self.plan();
        // SAFETY: `create` made a valid layout from the same size and alignment.
        let layout = unsafe { Layout::from_size_align_unchecked(plan.bytes(), plan.align) };
        // SAFETY: `create` acquired the block with this layout, and the caller guarantees that no
        // other code uses it.
        unsafe { raw::release(&Global, self.block(), layout) };
    }

    /// Gives up one half of the header. Frees the header if the other half was already given up
    /// (E2).
    ///
    /// # Safety
    /// The half belongs to the caller. The caller does not use the header again, unless the other
    /// half also belongs to the caller.
    pub(crate) unsafe fn leave_header(self) {
        // ORDERING: `halves_order`. Pairs with itself, in `RingStorePtr::leave_header`.
        if self.half_left().swap(true, halves_order()) {
            // SAFETY: both halves are given up, so no other code uses the header (E2).
            unsafe { self.free_header() };
        }
    }

    /// Frees the header.
    ///
    /// # Safety
    /// No other code uses the header.
    pub(crate) unsafe fn free_header(self) {
        self.end_header();
        // SAFETY: `create` acquired the block with this layout, and the caller guarantees that no
        // other code uses it.
        unsafe { raw::release(&Global, self.as_non_null().cast(), Layout::new::<RingStore>()) };
    }
}

/// Subtracts `count` shares. Returns the previous number of shares.
fn leave(shares: &AtomicUsize, count: usize) -> usize {
    if weakened!("share_by_load_and_store") {
        let before = shares.load(Ordering::Relaxed);
        // ORDERING: `leave_order`. Pairs with `RingStorePtr::drop_shares`.
        shares.store(before.wrapping_sub(count), leave_order());
        return before;
    }
    // ORDERING: `leave_order`. Pairs with `RingStorePtr::drop_shares`.
    shares.fetch_sub(count, leave_order())
}
