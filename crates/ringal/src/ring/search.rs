//! The slow way to a region: skip, merge, wrap, restart, refuse.
//!
//! A search goes one turn at most: from the head to the end, then from the start to where it began, and on to the end of
//! the free run that it is in. So it finds every run of free regions that is long enough, wherever the chain stopped, and
//! each release that happened before the call is seen.
//!
//! To stay where the cache lines are, the head **restarts** at `low` whenever the region there is free, which is looked at
//! every `stride` bytes of progress: in a first-in-first-out stream that is when the oldest buffer came home, and the
//! window in use stays what is alive and a stride. Above the head lies the **frontier** then, where the restart left off; after
//! a few taken regions in a row the head goes on from there, and does not skip along behind a thread that is still
//! releasing.

use core::ptr::NonNull;

use ephemera_prim::poison::{poison, unpoison};

use super::chain::{Chain, NOWHERE};
use crate::geometry::{GRANULE, Want, pace};
use crate::guard::GuardPtr;

/// Regions that a search looks at below the frontier before it goes on from there.
const BRIEF: usize = 8;

/// Looks back in a row that found `low` taken, after which another place to restart is looked for.
const PATIENCE: u32 = 16;

/// Regions looked at then.
const SIGHT: usize = 64;

/// A free region that serves: at `at`, `len` bytes, of which `lead` stay in front.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) at: usize,
    pub(super) len: usize,
    lead: usize,
}

impl Chain {
    /// A taken region of `need` bytes, when the region at the head is not free or too short, or a look back is due.
    #[cold]
    #[inline(never)]
    pub(super) fn take_slow(&mut self, need: usize) -> Option<GuardPtr> {
        match self.head_or_merge(need) {
            Some((guard, len)) => {
                self.cut(guard, self.head, len, need);
                Some(guard)
            }
            None => self.take_wanted(Want::plain(need)),
        }
    }

    /// What most slow ways come to: a look back, and a merge at the head. The free region there then, if it has `need` bytes.
    fn head_or_merge(&mut self, need: usize) -> Option<(GuardPtr, usize)> {
        if need > self.end {
            return None;
        }
        self.turn(need);
        let guard = self.guard(self.head);
        let word = guard.look();
        if word.is_taken() {
            return None;
        }
        let len = self.merge(self.head, word.len(), |_, len| len >= need);
        if len < need {
            return None;
        }
        self.raise_low(self.head);
        Some((guard, len))
    }

    /// A taken region for this want.
    pub(super) fn take_wanted(&mut self, want: Want) -> Option<GuardPtr> {
        let found = self.search(want)?;
        let (guard, at, len) = self.place(found);
        // Asked by `align_offset`, which also tells Miri that the address is no accident.
        let off = guard.payload().as_ptr().align_offset(want.align);
        ephemera_prim::invariant!(off == 0, "the lead aligns the buffer");
        self.cut(guard, at, len, want.need);
        self.raise_low(at);
        Some(guard)
    }

    /// A free region of at least `need` bytes at the new head, not taken yet.
    #[cold]
    #[inline(never)]
    pub(super) fn open_slow(&mut self, need: usize) -> Option<(GuardPtr, usize)> {
        if let Some(open) = self.head_or_merge(need) {
            return Some(open);
        }
        let found = self.search(Want::plain(need))?;
        let (guard, at, len) = self.place(found);
        self.head = at;
        self.raise_low(at);
        Some((guard, len))
    }

    /// Splits off the lead. The guard, offset and length of the rest.
    pub(super) fn place(&mut self, found: Found) -> (GuardPtr, usize, usize) {
        let Found { at, len, lead } = found;
        if at < self.head {
            self.note_high();
        }
        if lead == 0 {
            return (self.guard(at), at, len);
        }
        let guard = self.guard(at + lead);
        // SAFETY: in the free region that was found, with `len - lead` bytes of it behind (C2).
        unsafe { guard.create(len - lead) };
        self.guard(at).resize(lead);
        (guard, at + lead, len - lead)
    }

    /// The first region of a lap is where restarts begin.
    fn raise_low(&mut self, at: usize) {
        if self.low == NOWHERE {
            self.low = at;
        }
    }

    /// Remembers how far up regions were used, before the head goes back.
    fn note_high(&mut self) {
        self.high = self.high.max(self.head);
    }

    /// A free region that serves, by one turn at most.
    fn search(&mut self, want: Want) -> Option<Found> {
        if want.need > self.end || self.refusal_stands(want.need) {
            return None;
        }
        self.refusal.forget();
        self.turn(want.need);
        if self.frontier != NOWHERE {
            match self.scan(self.head, self.frontier, BRIEF, want) {
                Ok(found) => return Some(found),
                // The frontier is gone where the last run reached beyond it.
                Err(at) => self.head = if self.frontier == NOWHERE { at } else { self.frontier },
            }
            self.frontier = NOWHERE;
            self.stop = self.end.min(self.head + pace(self.stride, want.need));
        }
        let start = self.head;
        if let Ok(found) = self.scan(start, self.end, usize::MAX, want) {
            return Some(found);
        }
        self.wrap(want.need);
        if let Ok(found) = self.scan(0, start, usize::MAX, want) {
            return Some(found);
        }
        self.low = 0;
        self.refuse(want.need);
        None
    }

    /// At the stop: wraps, or looks back and perhaps restarts.
    fn turn(&mut self, need: usize) {
        if self.head < self.stop {
            return;
        }
        if self.head >= self.frontier {
            self.frontier = NOWHERE;
        }
        if self.head >= self.end {
            self.wrap(need);
            return;
        }
        if let Some(at) = self.restart() {
            self.note_high();
            if self.frontier == NOWHERE {
                self.frontier = self.head;
            }
            self.head = at;
            self.misses = 0;
        }
        self.stop = self.end.min(self.frontier).min(self.head + pace(self.stride, need));
    }

    /// A new lap.
    fn wrap(&mut self, need: usize) {
        self.note_high();
        self.head = 0;
        self.low = NOWHERE;
        self.frontier = NOWHERE;
        self.misses = 0;
        self.stop = self.end.min(pace(self.stride, need));
    }

    /// Where to restart, if that region is free now. Who holds it for long makes room for another place.
    fn restart(&mut self) -> Option<usize> {
        if self.low >= self.head {
            return None;
        }
        if !self.guard(self.low).look().is_taken() {
            return Some(self.low);
        }
        self.misses += 1;
        if self.misses < PATIENCE {
            return None;
        }
        self.misses = 0;
        let mut at = self.low;
        for _ in 0..SIGHT {
            let word = self.guard(at).look();
            if !word.is_taken() {
                self.low = at;
                return Some(at);
            }
            at += word.len();
            if at >= self.head {
                break;
            }
        }
        None
    }

    /// Looks for a region that serves among the runs that start in `from..upto`, at most `budget` of them. Merges the free
    /// regions that it passes. `Err` says where it ended.
    fn scan(&mut self, from: usize, upto: usize, budget: usize, want: Want) -> Result<Found, usize> {
        let mut at = from;
        for _ in 0..budget {
            if at >= upto {
                break;
            }
            let word = self.guard(at).look();
            let mut len = word.len();
            if !word.is_taken() {
                len = self.merge(at, len, |addr, len| want.lead(addr, len).is_some());
                if let Some(lead) = want.lead(self.guard(at).addr(), len) {
                    return Ok(Found { at, len, lead });
                }
            }
            at += len;
        }
        Err(at)
    }

    /// Merges the free region at `at` with the free ones behind it until `enough(address, length)`. Returns its length.
    pub(super) fn merge(&mut self, at: usize, len: usize, enough: impl Fn(usize, usize) -> bool) -> usize {
        let guard = self.guard(at);
        let mut longer = len;
        while !enough(guard.addr(), longer) && at + longer < self.end {
            let next = self.guard(at + longer);
            let word = next.look();
            if word.is_taken() && !cfg!(ephemera_weaken = "merge_taken") {
                break;
            }
            next.swallow();
            longer += word.len();
        }
        if longer != len {
            guard.resize(longer);
            self.forget_marks(at, at + longer);
        }
        longer
    }

    /// Guards strictly between the two offsets are gone: nothing may point at them (C3).
    fn forget_marks(&mut self, from: usize, to: usize) {
        self.refusal.forget();
        if from < self.low && self.low < to {
            self.low = from;
        }
        if from < self.frontier && self.frontier < to {
            self.frontier = NOWHERE;
        }
    }

    /// Makes the open region longer: to `least` bytes, and to twice its length if that is to be had. Returns its length.
    pub(super) fn extend(&mut self, guard: GuardPtr, least: usize) -> usize {
        let len = guard.held().len();
        let aim = least.max(len.saturating_mul(2));
        let longer = self.merge(self.offset(guard), len, |_, len| len >= aim);
        if longer != len {
            // SAFETY: the open region is free, and only its guard and its first `len` bytes hold anything (C2).
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

    /// The longest free run of all, if it has `least` bytes: merged, it becomes the open region, at the head. Nothing changes
    /// otherwise: the region that was open before is a part of one of the runs.
    pub(super) fn open_longest(&mut self, least: usize) -> Option<(GuardPtr, usize)> {
        let (at_longest, longest) = self.longest();
        if longest < least {
            return None;
        }
        let guard = self.guard(at_longest);
        let len = self.merge(at_longest, guard.look().len(), |_, len| len >= longest);
        self.note_high();
        self.head = at_longest;
        self.frontier = NOWHERE;
        self.stop = self.end.min(at_longest + self.stride);
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

    /// The open region at the head is done: `need` bytes of it are taken. It may be longer than its writer knows, since it may
    /// have grown in vain.
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

    /// The payload that was opened stays free, or is free again.
    #[inline]
    pub(super) fn abandon(data: NonNull<u8>, room: usize) {
        // SAFETY: in a free region, hence the ring's (C2).
        unsafe { poison(data, room) };
    }
}
