//! What a refusal remembers: the taken guards that stand in the way.
//!
//! A search of the whole chain that found nothing is worth remembering, but a release says nothing
//! to the ring: it is one store to its own guard. So a refusal keeps a few taken guards, chosen
//! such that no run of `need` bytes fits between two of them. While their words are the same, no
//! other release can serve such a request, and a few loads show that. Once one of them changed, the
//! next request searches. So no request is refused because of what was true before a release that
//! it could have seen.
//!
//! To block runs of `need` bytes everywhere takes about `end / need` guards, so this serves large
//! requests. Where [`WATCHED`] guards are not enough, each request searches.
//!
//! Requests for buffers and growing extendable buffers share what is remembered: an open region is
//! free, as far as guards say.

use super::chain::Chain;
use crate::word::Word;

/// Guards that a refusal can keep.
const WATCHED: usize = 32;

/// A request that was refused, and why the next like it will be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refusal {
    /// Requests of this many bytes and more; `usize::MAX` for none.
    need: usize,
    watched: [(usize, Word); WATCHED],
    count: usize,
}

impl Refusal {
    pub(super) const fn none() -> Self {
        let watched = [(0, Word::free(0)); WATCHED];
        Self { need: usize::MAX, watched, count: 0 }
    }

    #[inline]
    pub(super) const fn forget(&mut self) {
        self.need = usize::MAX;
    }
}

/// Chooses the guards to keep, going along the chain once.
struct Blockers {
    need: usize,
    watched: [(usize, Word); WATCHED],
    count: usize,
    /// Bytes since the end of the last chosen guard's region, and the same since that of the last
    /// taken region, which may still be chosen.
    open: usize,
    last: Option<(usize, Word)>,
    since_last: usize,
    /// A run is long enough after all, or there are more blockers than we keep.
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

impl Chain {
    /// Whether all guards are as they were when a request of at most `need` bytes was refused.
    pub(super) fn refusal_stands(&self, need: usize) -> bool {
        let Refusal { need: refused, watched, count } = &self.refusal;
        let as_it_was = |&(at, word): &(usize, Word)| {
            let now = self.guard(at).look();
            now == word || cfg!(ephemera_weaken = "refusal_by_bit") && now.is_taken()
        };
        need >= *refused && watched[..*count].iter().all(as_it_was)
    }

    /// Remembers that no run has `need` bytes, if a few guards show it.
    pub(super) fn refuse(&mut self, need: usize) {
        let watched = [(0, Word::free(0)); WATCHED];
        let mut blockers =
            Blockers { need, watched, count: 0, open: 0, last: None, since_last: 0, failed: false };
        let mut at = 0;
        while at < self.end && !blockers.failed {
            let word = self.guard(at).look();
            blockers.see(at, word);
            at += word.len();
        }
        let Blockers { watched, count, failed, .. } = blockers;
        self.refusal = Refusal { need: if failed { usize::MAX } else { need }, watched, count };
    }
}
