//! The open region: the free region at the head into which an extendable buffer writes.
//!
//! The open region is not marked as taken: the buffer borrows the ring, so no other code can
//! allocate from the region. A dropped or leaked buffer therefore never leaves a region taken.

use core::ptr::NonNull;

use ephemera_prim::poison::{poison, unpoison};

use super::chain::{Chain, NOWHERE};
use super::window::SIGHT;
use crate::geometry::GRANULE;
use crate::guard::GuardPtr;

impl Chain {
    /// Merges the free regions after the open region into it. Stops when the open region has at
    /// least `least` bytes and twice its old length, or when no free region follows. Returns the
    /// new length, which may be less than `least`.
    pub(super) fn extend(&mut self, guard: GuardPtr, least: usize) -> usize {
        let len = guard.held().len();
        let aim = least.max(len.saturating_mul(2));
        let longer = self.merge(self.offset(guard), len, |_, len| len >= aim);
        if longer != len {
            // SAFETY: the region has grown to `longer` bytes, so this address is in the region.
            let fresh = unsafe { guard.payload().add(len - GRANULE) };
            // SAFETY: these bytes hold no data. They were just merged into the open region, which
            // only the ring accesses (C2).
            unsafe { unpoison(fresh, longer - len) };
        }
        longer
    }

    /// Returns the offset and length of the longest free run, or zeros if no region is free. Does
    /// not merge the regions.
    pub(super) fn longest(&self) -> (usize, usize) {
        let (mut start, mut run) = (0, 0);
        let mut longest = (0, 0);
        self.walk(|at, word| {
            if word.is_taken() {
                run = 0;
                return;
            }
            start = if run == 0 { at } else { start };
            run += word.len();
            if run > longest.1 {
                longest = (start, run);
            }
        });
        longest
    }

    /// Returns the length of the free run that starts at `low`, or 0 if no free region starts
    /// there. Counts at most [`SIGHT`] regions, and stops once the run has `aim` bytes.
    fn run_at_low(&self, aim: usize) -> usize {
        let mut run = 0;
        for _ in 0..SIGHT {
            let at = self.low.saturating_add(run);
            if at >= self.end || run >= aim {
                break;
            }
            let word = self.guard(at).look();
            if word.is_taken() {
                break;
            }
            run += word.len();
        }
        run
    }

    /// Finds a free run of at least `least` bytes for an extendable buffer that must move. Uses the
    /// run at `low` if that run has twice this length. Otherwise loads every guard and uses the
    /// longest run. Merges the regions of the run into one, moves the head there, and returns the
    /// guard and the length of the region. If even the longest run is too short, remembers the
    /// refusal and returns `None`. If `least` exceeds the chain or a remembered refusal stands,
    /// returns `None` at once.
    pub(super) fn open_elsewhere(&mut self, least: usize) -> Option<(GuardPtr, usize)> {
        if least > self.end || self.refusal_stands(least) {
            return None;
        }
        let aim = least.saturating_mul(2);
        let (mut at, mut run) = (self.low, self.run_at_low(aim));
        if run < aim {
            (at, run) = self.longest();
        }
        if run < least {
            self.refuse(least);
            return None;
        }
        let guard = self.guard(at);
        let len = self.merge(at, guard.look().len(), |_, len| len >= run);
        self.note_high();
        self.head = at;
        self.frontier = NOWHERE;
        self.start_run(at);
        self.stop = self.end.min(at + self.interval);
        Some((guard, len))
    }

    /// Unpoisons the payload of the open region and returns its address.
    #[inline]
    pub(super) fn open_payload(guard: GuardPtr, len: usize) -> NonNull<u8> {
        let data = guard.payload();
        // SAFETY: the region is free, so only the ring accesses it (C2).
        unsafe { unpoison(data, len - GRANULE) };
        data
    }

    /// Takes the first `need` bytes of the open region at the head for the finalized buffer. The
    /// region may be longer than the buffer's room, because a failed attempt to grow still merges
    /// regions.
    #[inline]
    pub(super) fn close(&mut self, guard: GuardPtr, need: usize) {
        let len = guard.held().len();
        ephemera_prim::invariant!(self.offset(guard) == self.head, "the open region is at the head");
        self.cut(guard, self.head, len, need);
        if len > need + GRANULE {
            // SAFETY: these bytes follow the guard that `cut` just created, in a free region, which
            // only the ring accesses (C2).
            unsafe { poison(self.guard(self.head).payload(), len - need - GRANULE) };
        }
    }

    /// Records that the first `need` bytes of the open region at the head were used. The buffer
    /// calls this before it shrinks or leaves the region.
    pub(super) fn note_open(&mut self, need: usize) {
        self.high = self.high.max(self.head + need);
    }

    /// Poisons the payload of an open region that a buffer leaves: `room` bytes at `data`.
    #[inline]
    pub(super) fn abandon(data: NonNull<u8>, room: usize) {
        // SAFETY: the bytes are in a free region, which only the ring accesses (C2).
        unsafe { poison(data, room) };
    }
}
