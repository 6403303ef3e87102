//! The slow way to a region: skip, merge, wrap, restart, refuse.
//!
//! A search goes one turn at most: from the head to the end, then from the start to where it began,
//! and on to the end of the free run that it is in. So it finds every run of free regions that is
//! long enough, wherever the chain stopped, and each release that happened before the call is seen.
//!
//! To stay where the cache lines are, the head **restarts** at `low` whenever the region there is
//! free, which is looked at every `stride` bytes of progress: in a first-in-first-out stream that
//! is when the oldest buffer came home, and the window in use stays what is alive and a stride.
//! Above the head lies the **frontier** then, where the restart left off; after a few taken regions
//! in a row the head goes on from there, and does not skip along behind a thread that is still
//! releasing.
//!
//! A turn looks at every guard, so before one begins the search tries where free regions were last:
//! beyond a few taken ones at the head and at the frontier it looks back at `low`, whatever
//! progress was made.

use super::chain::{Chain, NOWHERE};
use crate::geometry::{Want, pace_in};
use crate::guard::GuardPtr;

/// Regions that a search looks at before it tries elsewhere: at the head, and at the frontier.
const BRIEF: usize = 8;

/// Looks back in a row that found `low` taken, after which another place to restart is looked for.
const PATIENCE: u32 = 16;

/// Looks back in a row, after which that other place becomes `low`. Sooner would be wrong: what was
/// placed at the frontier before a restart is given back before `low` is, and then `low` is not
/// held for long. It would climb, and the window with it.
const FAREWELL: u32 = 16 * PATIENCE;

/// Regions looked at then, and from `low` on before a turn.
pub(super) const SIGHT: usize = 64;

/// So many bytes asked for are worth another look at the head: to write them takes longer, and
/// longer still where the store was not used lately.
const WORTH: usize = 1024;

/// Bytes merged at the head beyond what was asked for. In a stream of many sizes the next requests
/// then go the fast way, where each would merge some regions of the lap before, and a processor
/// cannot foresee how many. Measured from 0 to 16 KiB: from 4 KiB on there is little more to win.
const AHEAD: usize = 4096;

/// A free region that serves: at `at`, `len` bytes, of which `lead` stay in front.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) at: usize,
    pub(super) len: usize,
    lead: usize,
}

impl Chain {
    /// A taken region of `need` bytes, when the region at the head is not free or too short, or a
    /// look back is due.
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

    /// What most slow ways come to: a look back, and a merge at the head. The free region there
    /// then, if it has `need` bytes.
    #[inline]
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
        let mut len = word.len();
        if len < need {
            len = self.merge(self.head, len, |_, len| len >= need + AHEAD);
        }
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
    pub(super) fn note_high(&mut self) {
        self.high = self.high.max(self.head);
    }

    /// A free region that serves, by one turn at most.
    fn search(&mut self, want: Want) -> Option<Found> {
        if want.need > self.end || self.refusal_stands(want.need) {
            return None;
        }
        self.refusal.forget();
        self.turn(want.need);
        let found = match self.search_near(want) {
            None => self.search_all(want),
            near => near,
        };
        if found.is_none() {
            self.refuse(want.need);
        }
        found
    }

    /// Where free regions are to be expected: a few at the head, then at the frontier, then where
    /// the lap began. So a window among regions that stay is found again without a look at all of
    /// these.
    fn search_near(&mut self, want: Want) -> Option<Found> {
        let brief = BRIEF + (want.need / WORTH).min(2 * SIGHT);
        let ahead = self.scan(self.head, self.end.min(self.frontier), brief, want);
        if ahead.is_some() {
            return ahead;
        }
        if self.frontier != NOWHERE {
            self.head = self.frontier;
            self.frontier = NOWHERE;
            self.stop_ahead(want.need);
            let ahead = self.scan(self.head, self.end, BRIEF, want);
            if ahead.is_some() {
                return ahead;
            }
        }
        if self.low >= self.head {
            return None;
        }
        let found = self.scan(self.low, self.head, SIGHT, want)?;
        // A run that reaches to the head took it along.
        if found.at < self.head {
            self.go_back(found.at);
        }
        self.stop_ahead(want.need);
        Some(found)
    }

    /// Anywhere: on from the head, then from the start to where that began.
    fn search_all(&mut self, want: Want) -> Option<Found> {
        let ahead = self.scan(self.head, self.end, usize::MAX, want);
        if ahead.is_some() {
            return ahead;
        }
        let found = self.scan(0, self.head, usize::MAX, want)?;
        self.wrap(want.need);
        Some(found)
    }

    /// At the stop: wraps, or looks back and perhaps restarts.
    fn turn(&mut self, need: usize) {
        if self.head < self.stop {
            return;
        }
        if self.head >= self.frontier {
            self.frontier = NOWHERE;
        }
        if let Some(at) = self.restart() {
            self.go_back(at);
        } else if self.head >= self.end {
            self.wrap(need);
            return;
        }
        self.stop_ahead(need);
    }

    /// A new lap.
    fn wrap(&mut self, need: usize) {
        self.note_high();
        self.head = 0;
        self.low = NOWHERE;
        self.frontier = NOWHERE;
        self.misses = 0;
        self.stop_ahead(need);
    }

    /// The head restarts below.
    fn go_back(&mut self, at: usize) {
        self.note_high();
        if self.frontier == NOWHERE {
            self.frontier = self.head;
        }
        self.head = at;
    }

    /// The next look back is after some progress from the head on.
    fn stop_ahead(&mut self, need: usize) {
        let window = self.head.saturating_sub(self.low);
        let pace = pace_in(self.stride, window, need);
        self.stop = self.end.min(self.frontier).min(self.head + pace);
    }

    /// Where to restart: at `low`, if that region is free now; where a lap ends, at one soon behind
    /// it. Who holds `low` for long makes room for another place.
    fn restart(&mut self) -> Option<usize> {
        if self.low >= self.head {
            return None;
        }
        if !self.guard(self.low).look().is_taken() {
            self.misses = 0;
            return Some(self.low);
        }
        self.misses += 1;
        if self.misses % PATIENCE != 0 && self.head < self.end {
            return None;
        }
        let given_up = self.misses >= FAREWELL;
        if given_up {
            self.misses = FAREWELL - PATIENCE;
        }
        let mut at = self.low;
        for _ in 0..SIGHT {
            let word = self.guard(at).look();
            if !word.is_taken() {
                if given_up {
                    self.low = at;
                    self.misses = 0;
                }
                return Some(at);
            }
            at += word.len();
            if at >= self.head {
                break;
            }
        }
        None
    }

    /// Looks for a region that serves among the runs that start in `from..upto`, at most `budget`
    /// of them. Merges the free regions that it passes.
    fn scan(&mut self, from: usize, upto: usize, budget: usize, want: Want) -> Option<Found> {
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
                    return Some(Found { at, len, lead });
                }
            }
            at += len;
        }
        None
    }

    /// Merges the free region at `at` with the free ones behind it until `enough(address, length)`.
    /// Returns its length.
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
        if from < self.head && self.head < to {
            self.note_high();
            self.head = from;
        }
        if from < self.low && self.low < to {
            self.low = from;
        }
        if from < self.frontier && self.frontier < to {
            self.frontier = NOWHERE;
        }
    }
}
