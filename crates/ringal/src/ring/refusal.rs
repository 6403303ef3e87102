//! A remembered refusal: the guards of a few taken regions, which prove that the ring has no room
//! for a request.
//!
//! After a search of the whole chain finds no room for `need` bytes, the ring keeps a few guards of
//! taken regions. These regions split the chain into stretches shorter than `need` bytes. While the
//! words of these guards are unchanged, no other release can make room, so a few loads show that
//! the ring still has no room for the request. If a word has changed, the next request searches
//! again.
//!
//! The check must be exact, because the ring must serve a request if an earlier release made room
//! for it. A release writes only to its own guard, so the ring learns of the release only from the
//! guards.
//!
//! About `2 * end / need` guards or fewer block every run of `need` bytes, so the ring can remember
//! the refusals of large requests. If [`WATCHED`] guards are not enough, the ring does not remember
//! the refusal, and every request of that size searches.
//!
//! A refusal covers both new buffers and extendable buffers that grow, because an open region
//! counts as free.

use crate::word::Word;

/// The maximum number of guards that a refusal keeps.
const WATCHED: usize = 32;

/// A refused size, and the guards that block every run of this size.
#[derive(Debug, Clone, Copy)]
pub(super) struct RefusedRequest {
    /// The smallest size in bytes that the refusal covers, or `usize::MAX` if it does not cover any
    /// request.
    need: usize,
    watched: [(usize, Word); WATCHED],
    count: usize,
}

impl RefusedRequest {
    pub(super) const fn none() -> Self {
        Self { need: usize::MAX, watched: [(0, Word::free(0)); WATCHED], count: 0 }
    }

    /// Returns whether the refusal covers `need` bytes and all its guards are unchanged. `word`
    /// returns the word at an offset.
    pub(super) fn stands(&self, need: usize, word: impl Fn(usize) -> Word) -> bool {
        let as_it_was = |&(at, then): &(usize, Word)| {
            let now = word(at);
            now == then || weakened!("refusal_by_bit") && now.is_taken()
        };
        need >= self.need && self.watched[..self.count].iter().all(as_it_was)
    }

    /// Returns the refusal of `need` bytes in a chain of `end` bytes. If [`WATCHED`] guards cannot
    /// prove the refusal, the result does not cover any request. `word` returns the word at an
    /// offset.
    pub(super) fn of(need: usize, end: usize, word: impl Fn(usize) -> Word) -> Self {
        let refusal = Self { need, ..Self::none() };
        let mut blockers = Blockers { refusal, open: 0, last: None, since_last: 0 };
        let mut at = 0;
        while at < end {
            let word = word(at);
            if blockers.see(at, word).is_none() {
                return Self::none();
            }
            at += word.len();
        }
        blockers.refusal
    }

    #[inline]
    pub(super) const fn forget(&mut self) {
        self.need = usize::MAX;
    }
}

/// The state of a walk along the chain that chooses the guards of a refusal.
struct Blockers {
    /// The refused size, and the guards that the walk has chosen.
    refusal: RefusedRequest,
    /// The number of bytes from the end of the last chosen region, or from the start of the chain,
    /// to the current position of the walk.
    open: usize,
    /// The last taken region after the last chosen region, or `None` if there is none. The walk can
    /// still choose this region.
    last: Option<(usize, Word)>,
    /// The number of bytes from the end of the last taken region to the current position.
    since_last: usize,
}

impl Blockers {
    /// Continues the walk with the region at `at`. Chooses the last taken region if the stretch
    /// without a chosen region would otherwise be long enough for the request. Returns `None` if
    /// the proof has failed: if a free run is long enough, or if more than [`WATCHED`] guards are
    /// necessary.
    fn see(&mut self, at: usize, word: Word) -> Option<()> {
        let len = word.len();
        self.open += len;
        if word.is_taken() {
            self.last = Some((at, word));
            self.since_last = 0;
        } else {
            self.since_last += len;
        }
        if self.open < self.refusal.need {
            return Some(());
        }
        if self.since_last >= self.refusal.need {
            return None;
        }
        let place = self.refusal.watched.get_mut(self.refusal.count)?;
        *place = self.last.take()?;
        self.refusal.count += 1;
        self.open = self.since_last;
        Some(())
    }
}
