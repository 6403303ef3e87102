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
//!   by a sweep. The count starts at the first region that the drop of the ring did not find free.
//!   Each sweep in progress adds one share, and so does the call that parks the store. Only the
//!   thread that subtracts the last share frees the regions.
//! * **E2** The header has two halves. All shares together own one half, and the lists of
//!   `ParkedStores` own the other. The thread that gives up the second half frees the header.
//! * **E3** After the ring is dropped, no region becomes taken. Every word before `swept` is
//!   settled, or was free when the ring was dropped, or was found by a sweep.
//!
//! Sweeps start at the first region that the drop of the ring did not find free. The drop settles
//! every free region beyond that one, and a late release settles its own region. A free word that a
//! sweep finds therefore belongs to an early release whose share the drop has counted.

use ephemera_prim::sync::{Ordering, change_if};

use crate::store::RingStorePtr;

// ORDERING: Release. Pairs with the Acquire in `RingStorePtr::drop_shares`. Publishes: all accesses
// to the regions of these shares.
ordering!(leave_order = Release, Relaxed if "share_release_relaxed");
// ORDERING: Acquire. Pairs with the Release in `RingStorePtr::drop_shares`. Sees: all accesses of
// other threads to the regions.
ordering!(last_order = Acquire, Relaxed if "share_last_relaxed");
// ORDERING: AcqRel. Pairs with itself, in `RingStorePtr::leave_header`. Publishes: all accesses to
// the header by the owner of the first half.
ordering!(halves_order = AcqRel, Relaxed if "header_relaxed");

impl RingStorePtr {
    /// Returns whether the store is closed: whether its ring on the heap was dropped. A release
    /// calls this before its last access to the store.
    #[inline]
    pub(crate) fn is_closed(self) -> bool {
        self.witness().touch();
        self.regions().touch();
        self.closed().load(Ordering::Relaxed)
    }

    /// Closes the store. Moves `swept` to the first region that is taken or that a late release has
    /// settled, and settles the free regions after it. Returns how many regions are taken or were
    /// settled by a late release. If that is 0, every region is free.
    ///
    /// # Safety
    /// The caller is the ring, which does not allocate again.
    pub(crate) unsafe fn close(self) -> usize {
        self.closed().store(true, Ordering::Relaxed);
        let end = self.plan().end;
        let (mut at, mut held) = (0, 0);
        while at < end {
            // SAFETY: the words lead from guard to guard, so a guard is at `at`. Only the caller
            // can free the regions, and it has not done so.
            let guard = unsafe { self.guard(at) };
            let word = guard.look();
            if word.is_taken() || word.is_settled() {
                if held == 0 {
                    self.swept().set(at);
                }
                held += 1;
            } else if held != 0 {
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

    /// Subtracts shares. Returns `true` if these were the last shares. If so, the caller sees all
    /// accesses of other threads to the regions.
    ///
    /// # Safety
    /// The shares belong to the caller, and the caller does not use the regions again, unless this
    /// returns `true`.
    pub(crate) unsafe fn drop_shares(self, count: usize) -> bool {
        let shares = self.shares();
        let before = if weakened!("share_by_load_and_store") {
            let before = shares.load(Ordering::Relaxed);
            // ORDERING: `leave_order`. Pairs with the load in `RingStorePtr::drop_shares`.
            shares.store(before.wrapping_sub(count), leave_order());
            before
        } else {
            // ORDERING: `leave_order`. Pairs with the load in `RingStorePtr::drop_shares`.
            shares.fetch_sub(count, leave_order())
        };
        if before != count {
            return false;
        }
        // This is a load instead of a fence, because some race detectors ignore fences.
        // ORDERING: `last_order`. Pairs with the subtractions of other threads in
        // `RingStorePtr::drop_shares`.
        shares.load(last_order()) == 0
    }

    /// Adds a share for a sweep and returns `true`. If no share is left, returns `false` without
    /// adding one. The regions are then being freed or were freed.
    pub(crate) fn hold(self) -> bool {
        let more = |shares| (shares != 0 || weakened!("hold_ended")).then(|| shares + 1);
        let (shares, relaxed) = (self.shares(), Ordering::Relaxed);
        let exchange = |old, new| shares.compare_exchange_weak(old, new, relaxed, relaxed);
        change_if(shares.load(relaxed), exchange, more).is_ok()
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
}
