//! The end of a store on the heap: which thread frees it, and when.
//!
//! A ring may be dropped while buffers are in use. Then the store stays until the last of them is
//! released. Each taken region is one *share* of the store, and the thread that subtracts the last
//! share frees the regions.
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
//!   by a sweep, starting at the first region that the drop of the ring found taken. Each sweep in
//!   progress adds one, and so does the call that parks the store. The thread that subtracts the
//!   last share frees the regions. No other thread does.
//! * **E2** The header has two halves. All shares together own one; the lists of `ParkedStores` own
//!   the other. The second half to leave frees the header.
//! * **E3** After the ring is dropped, no region becomes taken. Every word before `swept` is
//!   settled, or was free when the ring was dropped, or was found by a sweep.
//!
//! The drop of the ring settles every free region after the first taken one, where sweeps start. A
//! late release settles its own region. So a free word that a sweep finds belongs to an early
//! release, whose share the drop counted.

use core::alloc::Layout;

use allocator_api2::alloc::Global;
use ephemera_prim::raw;
use ephemera_prim::sync::{AtomicUsize, Ordering, change_if};

use crate::guard::GuardPtr;
use crate::store::{RingStore, RingStorePtr};

// ORDERING: Release. Pairs with the Acquire in `RingStorePtr::drop_shares`. Publishes: that the
// buffers with these shares no longer use their regions.
const LEAVE: Ordering =
    if cfg!(ephemera_weaken = "share_release_relaxed") { Ordering::Relaxed } else { Ordering::Release };
// ORDERING: Acquire. Pairs with the Release in `leave`. No other buffer uses the regions any more.
const LAST: Ordering =
    if cfg!(ephemera_weaken = "share_last_relaxed") { Ordering::Relaxed } else { Ordering::Acquire };
// ORDERING: AcqRel. Pairs with itself, in `RingStorePtr::leave_header`. Publishes: that the first
// half no longer uses the header.
const HALVES: Ordering =
    if cfg!(ephemera_weaken = "header_relaxed") { Ordering::Relaxed } else { Ordering::AcqRel };

impl RingStorePtr {
    /// Moves `swept` past the free regions at the start. Returns `true` if every region is free.
    ///
    /// # Safety
    /// The caller is the ring, and it no longer allocates.
    pub(crate) unsafe fn skip_free(self) -> bool {
        let end = self.plan().end;
        let mut at = 0;
        while at < end {
            // SAFETY: the words lead from guard to guard, so a guard is at `at`. The ring has not
            // freed the regions.
            let word = unsafe { self.guard(at) }.look();
            if word.is_taken() {
                break;
            }
            at += word.len();
        }
        self.swept().set(at);
        at >= end
    }

    /// Settles the free regions from `swept` on. Returns the number of the others: regions that are
    /// taken, and regions that a late release has settled.
    ///
    /// # Safety
    /// The caller is the ring. It no longer allocates and has closed the store.
    pub(crate) unsafe fn settle(self) -> usize {
        let end = self.plan().end;
        let (mut at, mut held) = (self.swept().get(), 0);
        while at < end {
            // SAFETY: the words lead from guard to guard, so a guard is at `at`. The ring has not
            // freed the regions.
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

    /// Moves `swept` up to the first taken region and returns how many early releases it passed.
    /// Visits at most `budget` guards, and subtracts the visited ones from `budget`.
    ///
    /// # Safety
    /// The caller holds the gate of the store's lists, and a share.
    pub(crate) unsafe fn find_released(self, budget: &mut usize) -> usize {
        let end = self.plan().end;
        let (mut at, mut found) = (self.swept().get(), 0);
        while at < end && *budget != 0 {
            *budget -= 1;
            // SAFETY: the words lead from guard to guard, so a guard is at `at`. The caller's share
            // keeps the regions.
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

    /// Frees the region of `len` bytes in a closed store, and subtracts its share. Returns `true`
    /// if that was the last share: then the caller must free the regions.
    ///
    /// # Safety
    /// The caller owns the region, and found the store closed.
    pub(crate) unsafe fn settle_late(self, guard: GuardPtr, len: usize) -> bool {
        guard.settle(len);
        // SAFETY: the drop of the ring counts this region, whether it finds the word taken or
        // settled.
        unsafe { self.drop_shares(1) }
    }

    /// Adds shares. Late releases may have subtracted theirs already; the count has then wrapped
    /// below zero, and this addition wraps it back.
    pub(crate) fn add_shares(self, count: usize) {
        self.shares().fetch_add(count, Ordering::Relaxed);
    }

    /// Subtracts shares. Returns `true` to the thread that subtracts the last ones. That thread
    /// sees all accesses of the other threads to the regions.
    ///
    /// # Safety
    /// The shares belong to the caller, and the caller does not use the regions again, unless this
    /// returns `true`.
    pub(crate) unsafe fn drop_shares(self, count: usize) -> bool {
        if leave(self.shares(), count) != count {
            return false;
        }
        // This is a load instead of a fence, because some race detectors do not see fences.
        // ORDERING: `LAST`. Pairs with `leave`.
        self.shares().load(LAST) == 0
    }

    /// Adds a share for a sweep. Returns `false` if no share is left: then the store has ended.
    pub(crate) fn hold(self) -> bool {
        let more = |shares| (shares != 0 || cfg!(ephemera_weaken = "hold_ended")).then(|| shares + 1);
        let (shares, relaxed) = (self.shares(), Ordering::Relaxed);
        let exchange = |old, new| shares.compare_exchange_weak(old, new, relaxed, relaxed);
        change_if(shares.load(relaxed), exchange, more)
    }

    /// Frees the regions.
    ///
    /// # Safety
    /// No other code uses them: either no region is taken and the store was never parked, or the
    /// caller subtracted the last share.
    pub(crate) unsafe fn free_regions(self) {
        self.end_regions();
        let plan = self.plan();
        // SAFETY: `create` made a valid layout from the same plan.
        let layout = unsafe { Layout::from_size_align_unchecked(plan.bytes(), plan.align) };
        // SAFETY: `create` acquired the block with this layout, and the caller guarantees that
        // nobody else uses it.
        unsafe { raw::release(&Global, self.block(), layout) };
    }

    /// Gives up one half of the header. Frees the header if the other half was given up before
    /// (E2).
    ///
    /// # Safety
    /// The half belongs to the caller, and the caller does not use the header again.
    pub(crate) unsafe fn leave_header(self) {
        // ORDERING: `HALVES`. Pairs with itself, in `RingStorePtr::leave_header`.
        if self.half_left().swap(true, HALVES) {
            // SAFETY: both halves are given up, so nobody else uses the header (E2).
            unsafe { self.free_header() };
        }
    }

    /// Frees the header.
    ///
    /// # Safety
    /// Nobody else uses the header.
    pub(crate) unsafe fn free_header(self) {
        self.end_header();
        // SAFETY: `create` acquired the block with this layout, and the caller guarantees that
        // nobody else uses it.
        unsafe { raw::release(&Global, self.as_non_null().cast(), Layout::new::<RingStore>()) };
    }
}

/// Subtracts `count` shares. Returns how many there were before.
fn leave(shares: &AtomicUsize, count: usize) -> usize {
    if cfg!(ephemera_weaken = "share_by_load_and_store") {
        let before = shares.load(Ordering::Relaxed);
        // ORDERING: `LEAVE`. Pairs with `RingStorePtr::drop_shares`.
        shares.store(before.wrapping_sub(count), LEAVE);
        return before;
    }
    // ORDERING: `LEAVE`. Pairs with `RingStorePtr::drop_shares`.
    shares.fetch_sub(count, LEAVE)
}
