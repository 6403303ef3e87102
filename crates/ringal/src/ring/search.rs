//! The slow path of an allocation: the search for a free region when the fast path cannot use the
//! region at the head.
//!
//! A search makes at most one full round. It goes from the head to the end, then from the start to
//! where the round began, and on to the end of the free run there. The search therefore finds a
//! sufficiently long run of free regions if one exists, and sees every release that happened before
//! the call.
//!
//! A full round loads every guard, so a search first visits a few regions at the head, a few at the
//! frontier, and a few from `low` on.

use super::chain::{Chain, NOWHERE};
use super::window::SIGHT;
use crate::geometry::Want;
use crate::guard::GuardPtr;

/// The maximum number of regions that a search visits at the frontier before it continues at `low`.
/// At the head, the maximum is higher for large requests (see [`WORTH`]).
const BRIEF: usize = 8;

/// A search visits one more region at the head for each `WORTH` requested bytes, but at most 128
/// more. Writing a large buffer takes longer than the search, and even longer in a part of the
/// store that was not used recently.
const WORTH: usize = 1024;

/// The number of bytes that the ring merges at the head in addition to the requested size. In a
/// stream of mixed sizes, the next requests then take the fast path, instead of each merging an
/// unpredictable number of old regions. We measured values from 0 to 16 KiB. Values above 4 KiB
/// gained little more.
const AHEAD: usize = 4096;

/// A free region that serves a request. It has `len` bytes at offset `at`. Its first `lead` bytes
/// stay free.
#[derive(Debug, Clone, Copy)]
struct FreeRegion {
    at: usize,
    len: usize,
    lead: usize,
}

impl Chain {
    /// Allocates a region of `need` bytes when the fast path cannot: the region at the head is
    /// taken or too short, or the head has reached `stop`. Returns the guard of the region, or
    /// `None` if no free run has `need` bytes.
    #[cold]
    #[inline(never)]
    pub(super) fn take_slow(&mut self, need: usize) -> Option<GuardPtr> {
        let (guard, len) = match self.head_or_merge(need) {
            Some(region) => region,
            None => self.find(Want::plain(need))?,
        };
        self.cut(guard, self.head, len, need);
        Some(guard)
    }

    /// Handles the two common cases: a head at `stop`, and a merge at the head. Returns the guard
    /// and the length of the region at the head. Returns `None` if `need` exceeds the chain, or if
    /// that region is taken or, even after the merge, shorter than `need` bytes.
    #[inline]
    fn head_or_merge(&mut self, need: usize) -> Option<(GuardPtr, usize)> {
        if need > self.end {
            return None;
        }
        self.handle_stop(need);
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
        self.note_placed(self.head);
        Some((guard, len))
    }

    /// Allocates a region for `want` and returns its guard. Returns `None` if no free run serves
    /// `want`.
    pub(super) fn take_wanted(&mut self, want: Want) -> Option<GuardPtr> {
        let (guard, len) = self.find(want)?;
        self.cut(guard, self.head, len, want.need);
        Some(guard)
    }

    /// Finds a free region of at least `need` bytes, moves the head there, and returns the guard
    /// and the length. Does not take the region. Returns `None` if no free run is long enough.
    #[cold]
    #[inline(never)]
    pub(super) fn open_slow(&mut self, need: usize) -> Option<(GuardPtr, usize)> {
        self.head_or_merge(need).or_else(|| self.find(Want::plain(need)))
    }

    /// Finds a free region that serves `want`, splits off its lead, and moves the head to the rest.
    /// Returns the guard and the length of the rest, which stays free. Returns `None` if no free
    /// run serves `want`.
    fn find(&mut self, want: Want) -> Option<(GuardPtr, usize)> {
        let FreeRegion { mut at, mut len, lead } = self.search(want)?;
        if lead != 0 {
            // SAFETY: `at + lead` is in the free region, and `len - lead` bytes of that region
            // follow (C2).
            unsafe { self.guard(at + lead).create(len - lead) };
            self.guard(at).resize(lead);
            at += lead;
            len -= lead;
        }
        let guard = self.guard(at);
        // Under Miri, `align_offset` also tells the symbolic alignment check that this address is
        // aligned.
        let off = guard.payload().as_ptr().align_offset(want.align);
        ephemera_prim::invariant!(off == 0, "the lead aligns the buffer");
        self.note_jump(at);
        self.head = at;
        self.note_placed(at);
        Some((guard, len))
    }

    /// Finds a free region that serves `want`. Makes at most one full round. If that round finds no
    /// such region, remembers the refusal if a few guards prove it, and returns `None`.
    fn search(&mut self, want: Want) -> Option<FreeRegion> {
        if want.need > self.end || self.refusal_stands(want.need) {
            return None;
        }
        self.refusal.forget();
        self.handle_stop(want.need);
        let found = match self.search_near(want) {
            None => self.search_all(want),
            near => near,
        };
        if found.is_none() {
            self.refuse(want.need);
        }
        found
    }

    /// Searches a few regions at the head, then at the frontier, then from `low` on. The ring thus
    /// finds a small window among long-lived buffers again without visiting all of those buffers.
    /// Returns `None` if none of these regions serves `want`.
    fn search_near(&mut self, want: Want) -> Option<FreeRegion> {
        let brief = BRIEF + (want.need / WORTH).min(2 * SIGHT);
        let ahead = self.scan(self.head, self.end.min(self.frontier), brief, want);
        if ahead.is_some() {
            return ahead;
        }
        if self.frontier != NOWHERE {
            self.note_jump(self.frontier);
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
    /// Returns `None` if no free run serves `want`.
    fn search_all(&mut self, want: Want) -> Option<FreeRegion> {
        let ahead = self.scan(self.head, self.end, usize::MAX, want);
        if ahead.is_some() {
            return ahead;
        }
        let found = self.scan(0, self.head, usize::MAX, want)?;
        self.wrap(want.need);
        Some(found)
    }

    /// Visits at most `budget` taken regions and free runs that start in `from..upto`. Merges the
    /// regions of each free run until the run serves `want`. Returns the first free run that serves
    /// `want`, or `None` if there is none.
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
            if word.is_taken() && !weakened!("merge_taken") {
                break;
            }
            next.remove_guard();
            longer += word.len();
        }
        if longer != len {
            guard.resize(longer);
            self.forget_positions(at, at + longer);
        }
        longer
    }
}
