//! The end of a store on the heap: who frees it.
//!
//! ```text
//!   drop of the ring:   closed <- true;  count the taken regions;  shares += count;  park
//!   a late release:     closed is seen;  word <- settled;  shares -= 1;  the last one frees
//!   an early release:   closed is not seen;  word <- free
//!   a look:             shares += 1;  count the words that are free;  shares -= 1 + count
//! ```
//!
//! # Invariants
//! * **E1** Once a store is parked, `shares` is the number of its regions that are neither settled
//!   nor found, and one for each look that is under way. The thread that takes the last share off
//!   frees the regions, and no other does.
//! * **E2** The header has two halves: the shares' together, and the lists' of `Parked`. The second
//!   one to leave frees it.
//! * **E3** When the ring is gone, a region that is not taken is taken no more. Behind `swept` each
//!   word is settled, or was free when the ring was dropped, or was found by a look.
//!
//! A region that is free at the drop is settled by it, and so is a region by its late release. So a
//! free word that a look finds belongs to an early release that the drop counted.

use core::alloc::Layout;

use allocator_api2::alloc::Global;
use ephemera_prim::raw;
use ephemera_prim::sync::{AtomicUsize, Ordering};

use crate::guard::GuardPtr;
use crate::store::{Store, StorePtr};

// ORDERING: Release. Pairs with the Acquire in `StorePtr::drop_shares`. Publishes: the end of use
// of the regions by the holders of these shares.
const LEAVE: Ordering =
    if cfg!(ephemera_weaken = "share_release_relaxed") { Ordering::Relaxed } else { Ordering::Release };
// ORDERING: Acquire. Pairs with the Release in `leave`: all others are done with the regions.
const LAST: Ordering =
    if cfg!(ephemera_weaken = "share_last_relaxed") { Ordering::Relaxed } else { Ordering::Acquire };
// ORDERING: AcqRel. Pairs with itself, in `StorePtr::leave_header`. Publishes: the end of use of
// the header by the first half.
const HALVES: Ordering =
    if cfg!(ephemera_weaken = "header_relaxed") { Ordering::Relaxed } else { Ordering::AcqRel };

impl StorePtr {
    /// The end of the ring: frees the store if nothing is held, else parks it. Waits for nothing.
    ///
    /// # Safety
    /// The store is from [`StorePtr::create`], and its ring does nothing any more.
    pub(crate) unsafe fn retire(self) {
        let parked = self.parked();
        // SAFETY: the lists of parked stores outlive all stores.
        let parked = unsafe { parked.as_ref() };
        // SAFETY: the ring's, which allocates no more.
        let held = if unsafe { self.skip_free() } {
            0
        } else {
            self.close();
            // SAFETY: closed just now, by the ring.
            unsafe { self.settle() }
        };
        if held != 0 {
            // SAFETY: closed and settled, and the ring is dropped once.
            unsafe { parked.park(self, held) };
            return;
        }
        // SAFETY: no region is taken, so nobody else uses them.
        unsafe { self.free_regions() };
        // SAFETY: no buffer is left, and the header is in no list.
        unsafe { self.free_header() };
        parked.look();
    }

    /// Moves `swept` over the free regions at the start. `true` if there are no others.
    ///
    /// # Safety
    /// The caller is the ring, which allocates no more.
    unsafe fn skip_free(self) -> bool {
        let end = self.plan().end;
        let mut at = 0;
        while at < end {
            // SAFETY: `at` is the offset of a guard, as the words say, and the regions are not
            // freed yet.
            let word = unsafe { self.guard(at) }.look();
            if word.is_taken() {
                break;
            }
            at += word.len();
        }
        self.swept().set(at);
        at >= end
    }

    /// Settles the regions behind `swept` that are free, and counts the others: those that are
    /// taken, and those that a late release has settled.
    ///
    /// # Safety
    /// The caller is the ring, which allocates no more, and has closed the store.
    unsafe fn settle(self) -> usize {
        let end = self.plan().end;
        let (mut at, mut held) = (self.swept().get(), 0);
        while at < end {
            // SAFETY: as in `skip_free`.
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

    /// Moves `swept` up to the first region that is taken, past as many guards as there are in
    /// `budget`, and returns how many early releases it has found.
    ///
    /// # Safety
    /// The caller is behind the gate of the store's lists, and holds a share.
    pub(crate) unsafe fn find_released(self, budget: &mut usize) -> usize {
        let end = self.plan().end;
        let (mut at, mut found) = (self.swept().get(), 0);
        while at < end && *budget != 0 {
            *budget -= 1;
            // SAFETY: as in `skip_free`; the share keeps the regions.
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

    /// Gives the region of `len` bytes back in a store that is closed, and takes its share off.
    /// `true` if that was the last one: the regions are the caller's to free.
    ///
    /// # Safety
    /// The caller holds the region, and found the store closed.
    pub(crate) unsafe fn settle_late(self, guard: GuardPtr, len: usize) -> bool {
        guard.settle(len);
        // SAFETY: the drop of the ring counts this region, whether its word is taken or settled.
        unsafe { self.drop_shares(1) }
    }

    /// So many shares more. Late releases may have taken theirs off before: the count goes below
    /// zero then.
    pub(crate) fn add_shares(self, count: usize) {
        self.shares().fetch_add(count, Ordering::Relaxed);
    }

    /// Takes shares off. `true` for the thread that takes the last ones: it sees what the others
    /// did with the regions.
    ///
    /// # Safety
    /// The shares are the caller's, who does not use the regions any more.
    pub(crate) unsafe fn drop_shares(self, count: usize) -> bool {
        if leave(self.shares(), count) != count {
            return false;
        }
        // A load, and no fence, so that every tool sees it.
        // ORDERING: `LAST`. Pairs with `leave`.
        self.shares().load(LAST) == 0
    }

    /// Takes a share for a look. `false` if none is left: the store ended.
    pub(crate) fn hold(self) -> bool {
        let more = |shares| (shares != 0 || cfg!(ephemera_weaken = "hold_ended")).then(|| shares + 1);
        self.shares().fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Frees the regions.
    ///
    /// # Safety
    /// Nobody else uses them: no region is taken and the store was not parked, or the caller took
    /// the last share off.
    pub(crate) unsafe fn free_regions(self) {
        self.end_regions();
        let plan = self.plan();
        // SAFETY: the block was made with this layout.
        let layout = unsafe { Layout::from_size_align_unchecked(plan.bytes(), plan.align) };
        // SAFETY: acquired in `create`; nobody else uses it, by the caller.
        unsafe { raw::release(&Global, self.block(), layout) };
    }

    /// One half leaves the header, and frees it if the other half has left (E2).
    ///
    /// # Safety
    /// The half is the caller's, who does not use the header any more.
    pub(crate) unsafe fn leave_header(self) {
        // ORDERING: `HALVES`. Pairs with itself, in `StorePtr::leave_header`.
        if self.half_left().swap(true, HALVES) {
            // SAFETY: the other half left before.
            unsafe { self.free_header() };
        }
    }

    /// Frees the header.
    ///
    /// # Safety
    /// Nobody else uses it.
    unsafe fn free_header(self) {
        self.end_header();
        // SAFETY: acquired in `create` for this type; nobody else uses it, by the caller.
        unsafe { raw::release(&Global, self.as_non_null().cast(), Layout::new::<Store>()) };
    }
}

/// Takes `count` shares off, and returns how many there were.
fn leave(shares: &AtomicUsize, count: usize) -> usize {
    if cfg!(ephemera_weaken = "share_by_load_and_store") {
        let before = shares.load(Ordering::Relaxed);
        // ORDERING: `LEAVE`. Pairs with `StorePtr::drop_shares`.
        shares.store(before.wrapping_sub(count), LEAVE);
        return before;
    }
    // ORDERING: `LEAVE`. Pairs with `StorePtr::drop_shares`.
    shares.fetch_sub(count, LEAVE)
}
