//! The slow path of an allocation: the search for a free region when the region at the head does
//! not fit.
//!
//! The head moves through the store in *passes*. A pass ends when the head wraps from the end to
//! the start.
//!
//! A search makes at most one full round. It goes from the head to the end, then from the start to
//! where the round began, and on to the end of the free run there. The search therefore finds every
//! sufficiently long run of free regions, and sees every release that happened before the call.
//!
//! The head stays near recently used cache lines. At intervals, the ring checks the region at
//! `low`, the first region that it placed in this pass. If that region is free, the head
//! **restarts** there. In a first-in-first-out stream, this happens after the oldest buffer is
//! freed, so the head moves within a *window* that is about as long as the live buffers plus one
//! interval.
//!
//! The **frontier** is the position that the head left when it restarted. If the restarted head
//! meets a few taken regions, it continues from the frontier. Otherwise it would follow closely
//! after a thread that is still releasing those regions.
//!
//! A full round loads every guard, so a search first visits a few regions at the head, a few at the
//! frontier, and a few from `low` on.

use super::chain::{Chain, NOWHERE};
use crate::geometry::{Want, pace_in};
use crate::guard::GuardPtr;

/// The number of regions that a search visits at the head before it continues at the frontier, and
/// at the frontier before it continues at `low`.
const BRIEF: usize = 8;

/// The number of checks in a row that must find `low` taken before the head restarts at another
/// region.
const PATIENCE: u32 = 16;

/// The number of checks in a row that must find `low` taken before the region where the head
/// restarts becomes `low`. Buffers placed at the frontier before a restart are often freed shortly
/// before the buffer at `low`, so with a smaller number, `low` and the window would climb to the
/// end of the store.
const FAREWELL: u32 = 16 * PATIENCE;

/// The number of regions that the ring visits from `low` on, to find another region for a restart
/// or before a full round.
pub(super) const SIGHT: usize = 64;

/// The number of requested bytes for which a search visits one more region at the head. Writing a
/// large buffer takes longer than the search, and even longer in a part of the store that was not
/// used recently.
const WORTH: usize = 1024;

/// The number of bytes that the ring merges at the head in addition to the requested size. In a
/// stream of mixed sizes, the next requests then take the fast path instead of merging an
/// unpredictable number of old regions each. Of the measured values from 0 to 16 KiB, those above 4
/// KiB gain little more.
const AHEAD: usize = 4096;

/// A free region that serves a request. It has `len` bytes at offset `at`. Its first `lead` bytes
/// stay free.
#[derive(Debug, Clone, Copy)]
pub(super) struct FreeRegion {
    pub(super) at: usize,
    pub(super) len: usize,
    lead: usize,
}

impl Chain {
    /// Allocates a region of `need` bytes when the fast path cannot: the region at the head is
    /// taken or too short, or the head has reached `stop`.
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

    /// Handles the two common cases: a head at `stop`, and a merge at the head. Returns the region
    /// at the head if it is free and has `need` bytes.
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

    /// Allocates a region for `want`.
    pub(super) fn take_wanted(&mut self, want: Want) -> Option<GuardPtr> {
        let found = self.search(want)?;
        let (guard, at, len) = self.place(found);
        // Under Miri, `align_offset` also promises the alignment of this address.
        let off = guard.payload().as_ptr().align_offset(want.align);
        ephemera_prim::invariant!(off == 0, "the lead aligns the buffer");
        self.cut(guard, at, len, want.need);
        self.raise_low(at);
        Some(guard)
    }

    /// Finds a free region of at least `need` bytes and moves the head there. Does not take the
    /// region.
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

    /// Splits the lead off the found region. Returns the guard, offset and length of the rest.
    pub(super) fn place(&mut self, found: FreeRegion) -> (GuardPtr, usize, usize) {
        let FreeRegion { at, len, lead } = found;
        if lead == 0 {
            return (self.guard(at), at, len);
        }
        let guard = self.guard(at + lead);
        // SAFETY: `at + lead` is in the free region, and `len - lead` bytes of that region follow
        // (C2).
        unsafe { guard.create(len - lead) };
        self.guard(at).resize(lead);
        (guard, at + lead, len - lead)
    }

    /// Sets `low` to `at`, unless this pass has already placed a region.
    fn raise_low(&mut self, at: usize) {
        if self.low == NOWHERE {
            self.low = at;
        }
    }

    /// Records the position of the head, which is about to move back.
    pub(super) fn note_high(&mut self) {
        self.high = self.high.max(self.head);
    }

    /// Finds a free region that serves `want`. Makes at most one full round.
    fn search(&mut self, want: Want) -> Option<FreeRegion> {
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

    /// Searches a few regions at the head, then at the frontier, then from `low` on, so that the
    /// ring finds a small window among long-lived buffers again without visiting all of those
    /// buffers.
    fn search_near(&mut self, want: Want) -> Option<FreeRegion> {
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
        // If the run includes the head, the merge has already moved the head to the start of the
        // run.
        if found.at < self.head {
            self.go_back(found.at);
        }
        self.stop_ahead(want.need);
        Some(found)
    }

    /// Searches the whole chain, from the head to the end and then from the start to the head.
    fn search_all(&mut self, want: Want) -> Option<FreeRegion> {
        let ahead = self.scan(self.head, self.end, usize::MAX, want);
        if ahead.is_some() {
            return ahead;
        }
        let found = self.scan(0, self.head, usize::MAX, want)?;
        self.wrap(want.need);
        Some(found)
    }

    /// Handles a head that has reached `stop`. Checks `low`, and restarts or wraps the head if
    /// necessary. Does nothing if the head is below `stop`.
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

    /// Starts a new pass: moves the head to the start of the store.
    fn wrap(&mut self, need: usize) {
        self.note_high();
        self.head = 0;
        self.low = NOWHERE;
        self.frontier = NOWHERE;
        self.misses = 0;
        self.stop_ahead(need);
    }

    /// Moves the head back to `at`. The position that the head leaves becomes the frontier, unless
    /// a frontier is already set.
    fn go_back(&mut self, at: usize) {
        self.note_high();
        if self.frontier == NOWHERE {
            self.frontier = self.head;
        }
        self.head = at;
    }

    /// Sets `stop` to the offset where the next check of `low` is due, in a stream of requests of
    /// `need` bytes. If the frontier or the end comes first, `stop` is there.
    fn stop_ahead(&mut self, need: usize) {
        let window = self.head.saturating_sub(self.low);
        let pace = pace_in(self.interval, window, need);
        self.stop = self.end.min(self.frontier).min(self.head + pace);
    }

    /// Returns the offset where the head restarts, if any. This is `low` if the region there is
    /// free. After [`PATIENCE`] checks in a row that found `low` taken, or at the end of a pass, it
    /// is the first free region within [`SIGHT`] regions of `low`. After [`FAREWELL`] checks, that
    /// region becomes `low`.
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

    /// Visits at most `budget` taken regions and free runs that start in `from..upto`. Merges the
    /// regions of each free run until the run serves `want`. Returns the first free run that serves
    /// `want`.
    fn scan(&mut self, from: usize, upto: usize, budget: usize, want: Want) -> Option<FreeRegion> {
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
                    return Some(FreeRegion { at, len, lead });
                }
            }
            at += len;
        }
        None
    }

    /// Merges the free region of `len` bytes at `at` with the free regions after it until
    /// `enough(address, length)` returns `true`. Returns the new length.
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

    /// Updates the chain after a merge that removed the guards strictly between `from` and `to`
    /// (C3). Forgets the remembered refusal. If `head` or `low` is between `from` and `to`, it
    /// moves to `from`. If `frontier` is between them, it becomes [`NOWHERE`].
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
