//! The chain of regions and the fast way of taking one.
//!
//! ```text
//!   0            low                    head           frontier                       end
//!   | taken | .. | free | taken | free  | free ........| taken | free | taken | ..... |
//!                ^restart here          ^next          ^where a restart left off
//! ```
//!
//! # Invariants
//! * **C1** `base` points at the first guard of `end` bytes that belong to a store which lives as
//!   long as the chain, with the right to the whole store. The words of guards lead from offset 0
//!   to `end` exactly.
//! * **C2** A region that is not taken belongs to the chain: nobody else reads or writes it. A
//!   taken one belongs to its holder, and the chain writes neither its guard nor its payload.
//! * **C3** `head`, `low` and `frontier` are offsets of guards, or `end`, or nowhere; below `stop`,
//!   `head` is a guard, since `stop` is neither above `end` nor above `frontier`.
//! * **C4** A shared reference reads alone: the chain's plain fields, which nobody writes
//!   meanwhile, and guards' words, which are atomics. So any number of threads may walk along a
//!   chain that is borrowed.

use core::ptr::NonNull;

use ephemera_prim::prefetch;

use super::refusal::Refusal;
use crate::geometry::stride;
use crate::guard::GuardPtr;

/// No offset: larger than all of them.
pub(super) const NOWHERE: usize = usize::MAX;

/// A chain of regions, in the hands of one ring.
#[derive(Debug)]
pub(super) struct Chain {
    base: NonNull<u8>,
    /// Where the next region is looked for.
    pub(super) head: usize,
    /// Where the fast way ends: the end of the chain, the frontier, or the next look back.
    pub(super) stop: usize,
    pub(super) end: usize,
    /// Where to restart when that region is free; nowhere while a lap has not placed its first
    /// region.
    pub(super) low: usize,
    /// Where the last restart left off, while the head is below it.
    pub(super) frontier: usize,
    /// Looks back in a row that found `low` taken.
    pub(super) misses: u32,
    pub(super) stride: usize,
    /// The highest offset that a region ended at, as of the last time that the head went back; and
    /// that an open region was used to.
    pub(super) high: usize,
    pub(super) refusal: Refusal,
}

impl Chain {
    /// A chain over `end` bytes from `base` on.
    ///
    /// # Safety
    /// C1: `base` was formatted as one free region of `end` bytes.
    pub(super) unsafe fn new(base: NonNull<u8>, end: usize) -> Self {
        let stride = stride(end);
        Self {
            base,
            head: 0,
            stop: stride.min(end),
            end,
            low: 0,
            frontier: NOWHERE,
            misses: 0,
            stride,
            high: 0,
            refusal: Refusal::none(),
        }
    }

    /// The guard at an offset.
    #[inline]
    pub(super) fn guard(&self, at: usize) -> GuardPtr {
        // SAFETY: offsets are below `end`, or are where a guard is about to be made there (C1, C3).
        let place = unsafe { self.base.add(at) };
        // SAFETY: G1 by C1.
        unsafe { GuardPtr::new(place) }
    }

    /// The offset of a guard of this chain.
    pub(super) fn offset(&self, guard: GuardPtr) -> usize {
        guard.addr() - self.base.addr().get()
    }

    /// A taken region of `need` bytes, whose payload is aligned to the granule.
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

    /// Takes `need` bytes of the free region of `len` bytes at `at`; what is left becomes a region
    /// of its own. The head goes on behind.
    #[inline]
    pub(super) fn cut(&mut self, guard: GuardPtr, at: usize, len: usize, need: usize) {
        let next = at + need;
        if len != need {
            // SAFETY: in the region, which is free, and at least a granule long (C2).
            unsafe { self.guard(next).create(len - need) };
        }
        guard.take(need);
        self.head = next;
        prefetch::for_write(self.base.as_ptr().wrapping_add(next));
    }

    /// The free region at the head, if it has `need` bytes, as it is: nothing is written. For
    /// extendable buffers.
    #[inline]
    pub(super) fn peek(&self, need: usize) -> Option<(GuardPtr, usize)> {
        if self.head >= self.stop {
            return None;
        }
        let guard = self.guard(self.head);
        let word = guard.look();
        word.fits(need).then(|| (guard, word.len()))
    }

    /// Calls `see` with each region: its offset, and its guard's word.
    pub(super) fn walk(&self, mut see: impl FnMut(usize, crate::word::Word)) {
        let mut at = 0;
        while at < self.end {
            let word = self.guard(at).look();
            see(at, word);
            at += word.len();
        }
    }
}
