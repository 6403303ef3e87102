//! The open region: the free one at the head that an extendable buffer writes into.
//!
//! Nothing marks it, so nothing has to be taken back; what is written there is the ring's until the
//! buffer is finalized.

use core::ptr::NonNull;

use ephemera_prim::poison::{poison, unpoison};

use super::chain::{Chain, NOWHERE};
use super::search::SIGHT;
use crate::geometry::GRANULE;
use crate::guard::GuardPtr;

impl Chain {
    /// Makes the open region longer: to `least` bytes, and to twice its length if that is to be
    /// had. Returns its length.
    pub(super) fn extend(&mut self, guard: GuardPtr, least: usize) -> usize {
        let len = guard.held().len();
        let aim = least.max(len.saturating_mul(2));
        let longer = self.merge(self.offset(guard), len, |_, len| len >= aim);
        if longer != len {
            // SAFETY: the open region is free, and only its guard and its first `len` bytes hold
            // anything (C2).
            let fresh = unsafe { guard.payload().add(len - GRANULE) };
            // SAFETY: as above.
            unsafe { unpoison(fresh, longer - len) };
        }
        longer
    }

    /// The longest free run, merged or not: where it starts, and its bytes.
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

    /// The free run that starts at `low`, merged or not: its bytes, or as many as `aim` and more. A
    /// few regions are looked at.
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

    /// A free run of `least` bytes for an open region that has to move: the one where the lap
    /// began, if that has twice as many, else the longest of all, which takes a look at every
    /// guard. Merged, it becomes the open region, at the head. Where even the longest is too short,
    /// nothing changes, and the ring remembers the refusal.
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
        self.stop = self.end.min(at + self.stride);
        Some((guard, len))
    }

    /// The payload of the open region, for its writer.
    #[inline]
    pub(super) fn open_payload(guard: GuardPtr, len: usize) -> NonNull<u8> {
        let data = guard.payload();
        // SAFETY: the region is free, hence the ring's (C2).
        unsafe { unpoison(data, len - GRANULE) };
        data
    }

    /// The open region at the head is done: `need` bytes of it are taken. It may be longer than its
    /// writer knows, since it may have grown in vain.
    #[inline]
    pub(super) fn close(&mut self, guard: GuardPtr, need: usize) {
        let len = guard.held().len();
        ephemera_prim::invariant!(self.offset(guard) == self.head, "the open region is at the head");
        self.cut(guard, self.head, len, need);
        if len > need + GRANULE {
            // SAFETY: behind the guard that was just made, free again, hence the ring's (C2).
            unsafe { poison(self.guard(self.head).payload(), len - need - GRANULE) };
        }
    }

    /// Remembers how far up the open region at the head was used, before that is given up.
    pub(super) fn note_open(&mut self, need: usize) {
        self.high = self.high.max(self.head + need);
    }

    /// The payload that was opened stays free, or is free again.
    #[inline]
    pub(super) fn abandon(data: NonNull<u8>, room: usize) {
        // SAFETY: in a free region, hence the ring's (C2).
        unsafe { poison(data, room) };
    }
}
