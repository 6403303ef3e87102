//! A remembered refusal: a few taken guards that prove that a request has no room.
//!
//! The ring remembers a search of the whole chain that found nothing. A release does not notify the
//! ring: it writes only to its own guard. So a refusal keeps a few taken guards, chosen so that no
//! run of `need` bytes fits between two of them. While their words are unchanged, no other release
//! can make room for such a request, and a few loads show that. Once one of them has changed, the
//! next request searches again. So the ring refuses a request only if no release that it could have
//! seen made room.
//!
//! About `end / need` guards are enough to block every run of `need` bytes, so this helps large
//! requests. Where [`WATCHED`] guards are not enough, each request searches.
//!
//! A refusal covers new buffers and growing extendable buffers alike, because the guard of an open
//! region says "free".

use crate::word::Word;

/// The most guards that a refusal can keep.
const WATCHED: usize = 32;

/// A refused request, and the guards that block it.
#[derive(Debug, Clone, Copy)]
pub(super) struct RefusedRequest {
    /// The refusal covers requests of at least this many bytes; `usize::MAX` for none.
    need: usize,
    watched: [(usize, Word); WATCHED],
    count: usize,
}

impl RefusedRequest {
    pub(super) const fn none() -> Self {
        let watched = [(0, Word::free(0)); WATCHED];
        Self { need: usize::MAX, watched, count: 0 }
    }

    /// Returns whether the refusal covers `need` bytes and all its guards are unchanged. `word`
    /// returns the word at an offset.
    pub(super) fn stands(&self, need: usize, word: impl Fn(usize) -> Word) -> bool {
        let as_it_was = |&(at, then): &(usize, Word)| {
            let now = word(at);
            now == then || cfg!(ephemera_weaken = "refusal_by_bit") && now.is_taken()
        };
        need >= self.need && self.watched[..self.count].iter().all(as_it_was)
    }

    /// Returns the refusal of `need` bytes in a chain of `end` bytes. It covers nothing if
    /// [`WATCHED`] guards cannot prove it. `word` returns the word at an offset.
    pub(super) fn of(need: usize, end: usize, word: impl Fn(usize) -> Word) -> Self {
        let watched = [(0, Word::free(0)); WATCHED];
        let mut blockers =
            Blockers { need, watched, count: 0, open: 0, last: None, since_last: 0, failed: false };
        let mut at = 0;
        while at < end && !blockers.failed {
            let word = word(at);
            blockers.see(at, word);
            at += word.len();
        }
        let Blockers { watched, count, failed, .. } = blockers;
        Self { need: if failed { usize::MAX } else { need }, watched, count }
    }

    #[inline]
    pub(super) const fn forget(&mut self) {
        self.need = usize::MAX;
    }
}

/// Chooses the guards to keep, in one walk along the chain.
struct Blockers {
    need: usize,
    watched: [(usize, Word); WATCHED],
    count: usize,
    /// The number of bytes since the end of the last chosen region.
    open: usize,
    /// The last taken region after the last chosen one. It may still be chosen.
    last: Option<(usize, Word)>,
    /// The number of bytes since the end of the last taken region.
    since_last: usize,
    /// Whether the proof failed: some run is long enough, or more than [`WATCHED`] guards are
    /// needed.
    failed: bool,
}

impl Blockers {
    fn choose(&mut self, blocker: (usize, Word), since: usize) {
        match self.watched.get_mut(self.count) {
            Some(place) => {
                *place = blocker;
                self.count += 1;
            }
            None => self.failed = true,
        }
        self.open = since;
        self.last = None;
    }

    fn see(&mut self, at: usize, word: Word) {
        let len = word.len();
        if word.is_taken() {
            if self.open + len >= self.need {
                self.choose((at, word), 0);
            } else {
                self.last = Some((at, word));
                self.open += len;
            }
            self.since_last = 0;
            return;
        }
        self.open += len;
        self.since_last += len;
        if self.open >= self.need {
            match self.last {
                Some(blocker) if self.since_last < self.need => self.choose(blocker, self.since_last),
                _ => self.failed = true,
            }
        }
    }
}
