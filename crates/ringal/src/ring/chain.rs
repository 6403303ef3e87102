//! Defines the chain of regions in a store, and the fast path of an allocation.
//!
//! The ring allocates from the region at the *head* and moves the head along. When the region at
//! *low*, where the current pass began, is free again, the head usually *restarts* there (see
//! `window`). The *frontier* is the position that the head left at the restart. A *free run* is a
//! sequence of adjacent free regions.
//!
//! ```text
//!   0            low                    head           frontier                       end
//!   | taken | .. | free | taken | free  | free ........| taken | free | taken | ..... |
//!                ^restart here          ^next          ^where a restart left off
//! ```
//!
//! # Invariants
//! * **C1** `base` points at the first guard of `end` bytes, in a store that lives as long as the
//!   chain, and may access the whole store. The words of the guards lead from offset 0 to `end`
//!   exactly.
//! * **C2** A free region belongs to the chain: no other code reads or writes it. A taken region
//!   belongs to its buffer: the chain writes neither its guard nor its payload.
//! * **C3** `head`, `low`, `frontier` and `probe` are offsets of guards, or `end`, or [`NOWHERE`].
//!   `stop` is at most `end` and at most `frontier`, so a `head` below `stop` is the offset of a
//!   guard.
//! * **C4** A method that takes `&self` only reads. It reads plain fields, which no code writes
//!   while the chain is borrowed, and guards' words, which are atomics, so several threads may walk
//!   a borrowed chain at once.

use core::ptr::NonNull;

use ephemera_prim::prefetch;

use super::refusal::RefusedRequest;
use crate::geometry::interval;
use crate::guard::GuardPtr;
use crate::word::Word;

/// The value of an unset `low`, `frontier`, `probe` or `probe_from`. It is larger than every
/// offset.
pub(super) const NOWHERE: usize = usize::MAX;

/// The minimum number of bytes that the head places before `probe` without a jump. It is twice the
/// largest distance between two checks of `low`.
pub(super) const BURST: usize = 128 << 10;

/// The chain of regions of one ring.
#[derive(Debug)]
pub(super) struct Chain {
    base: NonNull<u8>,
    /// The offset of the region to try next.
    pub(super) head: usize,
    /// The offset where the fast path ends: the end of the chain, the frontier, or the point where
    /// the next check of `low` is due.
    pub(super) stop: usize,
    pub(super) end: usize,
    /// The offset where the head usually restarts when the region there is free. This is the offset
    /// of the first region placed in this pass, or of a later region if the first one stayed taken
    /// for long. It is 0 in a new chain, and [`NOWHERE`] from a wrap until the pass places a
    /// region.
    pub(super) low: usize,
    /// The offset that the head left when it last restarted, until the head reaches this offset
    /// again. [`NOWHERE`] if not set.
    pub(super) frontier: usize,
    /// The offset of a region that was placed long after the one at `low` (see `window`), or `end`
    /// if the region of the probe was freed before the one at `low`. [`NOWHERE`] if not set.
    pub(super) probe: usize,
    /// The next region that a slow path places at this offset or later becomes `probe`. [`NOWHERE`]
    /// after that, until a new run starts (see `window`).
    pub(super) probe_from: usize,
    /// The number of checks in a row that have found `low` taken, up to 256 (see `window`).
    pub(super) misses: u32,
    pub(super) interval: usize,
    /// The highest offset from which the head has moved back, or up to which an open region was
    /// used.
    pub(super) high: usize,
    pub(super) refusal: RefusedRequest,
}

impl Chain {
    /// Creates a chain over `end` bytes from `base` on.
    ///
    /// # Safety
    /// C1 holds, and `base` is formatted as one free region of `end` bytes.
    pub(super) unsafe fn new(base: NonNull<u8>, end: usize) -> Self {
        let interval = interval(end);
        Self {
            base,
            head: 0,
            stop: interval.min(end),
            end,
            low: 0,
            frontier: NOWHERE,
            probe: NOWHERE,
            probe_from: BURST,
            misses: 0,
            interval,
            high: 0,
            refusal: RefusedRequest::none(),
        }
    }

    /// Returns the guard at an offset.
    #[inline]
    pub(super) fn guard(&self, at: usize) -> GuardPtr {
        // SAFETY: `at` is below `end`, so it is in the store (C1, C3).
        let place = unsafe { self.base.add(at) };
        // SAFETY: the store lives as long as the chain (C1). A guard is at `at`, or the caller
        // creates one next.
        unsafe { GuardPtr::new(place) }
    }

    /// Allocates a region of `need` bytes, whose payload is aligned to the granule, and returns its
    /// guard. Returns `None` if no free run has `need` bytes.
    #[inline]
    pub(super) fn take(&mut self, need: usize) -> Option<GuardPtr> {
        let at = self.head;
        if at < self.stop {
            let guard = self.guard(at);
            let word = guard.look();
            if word.fits(need) {
                self.cut(guard, at, word.len(), need);
                return Some(guard);
            }
        }
        self.take_slow(need)
    }

    /// Takes the first `need` bytes of the free region of `len` bytes at `at`, and makes any
    /// remainder a separate region. Moves the head to the end of the taken region.
    #[inline]
    pub(super) fn cut(&mut self, guard: GuardPtr, at: usize, len: usize, need: usize) {
        let next = at + need;
        if len != need {
            // SAFETY: the remainder is part of the free region, and at least a granule long (C2).
            unsafe { self.guard(next).create(len - need) };
        }
        guard.take(need);
        self.head = next;
        prefetch::for_write(self.base.as_ptr().wrapping_add(next));
    }

    /// Returns the guard and the length in bytes of the region at the head. Returns `None` if the
    /// head has reached `stop`, or if the region is taken or shorter than `need` bytes.
    #[inline]
    pub(super) fn peek(&self, need: usize) -> Option<(GuardPtr, usize)> {
        if self.head >= self.stop {
            return None;
        }
        let guard = self.guard(self.head);
        let word = guard.look();
        word.fits(need).then(|| (guard, word.len()))
    }

    /// Returns whether the remembered refusal covers `need` bytes and all its guards are unchanged.
    pub(super) fn refusal_stands(&self, need: usize) -> bool {
        self.refusal.stands(need, |at| self.guard(at).look())
    }

    /// Remembers that no free run has `need` bytes, if a few guards prove it. Otherwise forgets the
    /// remembered refusal.
    pub(super) fn refuse(&mut self, need: usize) {
        self.refusal = RefusedRequest::of(need, self.end, |at| self.guard(at).look());
    }

    /// Calls `see(at, word, run)` for each region, with its offset and its word. `run` is the
    /// length of the free run that ends where the region ends, or 0 if the region is taken.
    pub(super) fn walk(&self, mut see: impl FnMut(usize, Word, usize)) {
        let (mut at, mut run) = (0, 0);
        while at < self.end {
            let word = self.guard(at).look();
            run = if word.is_taken() { 0 } else { run + word.len() };
            see(at, word, run);
            at += word.len();
        }
    }
}
