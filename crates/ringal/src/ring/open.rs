//! The open region: the free region at the head into which an extendable buffer writes.
//!
//! The open region is not marked as taken: the buffer borrows the ring, so no other code can
//! allocate from the region. A dropped or leaked buffer therefore never leaves a region taken.

use core::ptr::NonNull;

use ephemera_prim::poison::{poison, unpoison};

use super::chain::{Chain, NOWHERE};
use super::window::SIGHT;
use crate::geometry::{GRANULE, OVERHEAD, region, region_of, room};
use crate::guard::GuardPtr;

/// The part of the open region that the buffer may use.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenRegion {
    pub(super) data: NonNull<u8>,
    pub(super) room: usize,
}

impl OpenRegion {
    /// Poisons the region, which the buffer leaves. The region stays free.
    #[inline]
    pub(super) fn abandon(self) {
        // SAFETY: the bytes are in a free region, which only the ring accesses (C2).
        unsafe { poison(self.data, self.room) };
    }
}

impl Chain {
    /// Moves the head to a free region of at least `need` bytes, if it is not there already, and
    /// opens this region. Returns `None` if no free run is long enough.
    #[inline]
    pub(super) fn open(&mut self, need: usize) -> Option<OpenRegion> {
        // `or_else` would add a null check to the fast path.
        let (guard, len) = match self.peek(need) {
            Some(open) => open,
            None => self.open_slow(need)?,
        };
        let data = guard.payload();
        // SAFETY: the region is free, so only the ring accesses it (C2).
        unsafe { unpoison(data, len - GRANULE) };
        Some(OpenRegion { data, room: len - OVERHEAD })
    }

    /// Makes room for `more` bytes after the first `len` bytes of the open region. Returns the new
    /// open region, which may be elsewhere, or `None` if the ring has no room. The arguments are
    /// passed by value, so the fields of an inlined buffer stay in registers.
    #[cold]
    #[inline(never)]
    pub(super) fn grow(&mut self, open: OpenRegion, len: usize, more: usize) -> Option<OpenRegion> {
        let need = region(len.checked_add(more)?)?;
        let longer = self.extend(need);
        let open = OpenRegion { room: room(longer), ..open };
        if longer >= need { Some(open) } else { self.relocate(open, len, need) }
    }

    /// Merges the free regions after the open region into it. Stops when the open region has at
    /// least `need` bytes and twice its old length, or when no free region follows. Returns the new
    /// length, which may be less than `need`.
    fn extend(&mut self, need: usize) -> usize {
        let guard = self.guard(self.head);
        let len = guard.held().len();
        let aim = need.max(len.saturating_mul(2));
        let longer = self.merge(self.head, len, |_, len| len >= aim);
        if longer != len {
            // SAFETY: the region has grown to `longer` bytes, so this address is in the region.
            let fresh = unsafe { guard.payload().add(len - GRANULE) };
            // SAFETY: these bytes hold no data. They were just merged into the open region, which
            // only the ring accesses (C2).
            unsafe { unpoison(fresh, longer - len) };
        }
        longer
    }

    /// Moves the first `len` bytes of the open region to a free run of at least `need` bytes, and
    /// returns that run as the new open region. Returns `None` if there is no such run.
    #[cold]
    #[inline(never)]
    fn relocate(&mut self, from: OpenRegion, len: usize, need: usize) -> Option<OpenRegion> {
        self.note_used(len);
        let (guard, region) = self.open_elsewhere(need)?;
        let to = OpenRegion { data: guard.payload(), room: room(region) };
        // The new run may contain the old region. `unpoison` may make bytes uninitialised, so the
        // code below does not unpoison the bytes that move.
        let (old, new) = (from.data.addr().get(), to.data.addr().get());
        let (end, inside) = (new + to.room, (new..new + to.room).contains(&old));
        let (before, after) = if inside { (old - new, end - old - len) } else { (to.room, 0) };
        // SAFETY: `before` bytes from `to.data` on are in the new open region, which only the ring
        // accesses (C2).
        unsafe { unpoison(to.data, before) };
        // SAFETY: the first `len` bytes of the old region are written, so `len` is at most the room
        // of that region.
        let rest = unsafe { from.data.add(len) };
        if after != 0 {
            // SAFETY: `after` bytes from `rest` on are in the new open region, which only the ring
            // accesses (C2). They follow the bytes that move.
            unsafe { unpoison(rest, after) };
        }
        // SAFETY: `len` bytes at `from` are written, and `to` has room for more than `len` bytes.
        // Both lie in free regions, which only the ring accesses (C2).
        unsafe { from.data.copy_to(to.data, len) };
        if !inside {
            from.abandon();
        }
        Some(to)
    }

    /// Returns the offset and length of the longest free run, or zeros if no region is free. Does
    /// not merge the regions.
    pub(super) fn longest(&self) -> (usize, usize) {
        let mut longest = (0, 0);
        self.walk(|at, word, run| {
            if run > longest.1 {
                longest = (at + word.len() - run, run);
            }
        });
        longest
    }

    /// Returns the length of the free run that starts at `low`, or 0 if no free region starts
    /// there. Counts at most [`SIGHT`] regions, and stops once the run has `aim` bytes.
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

    /// Finds a free run of at least `need` bytes for an extendable buffer that must move. Uses the
    /// run at `low` if that run has twice this length. Otherwise loads every guard and uses the
    /// longest run. Merges the regions of the run into one, moves the head there, and returns the
    /// guard and the length of the region. If even the longest run is too short, remembers the
    /// refusal and returns `None`. If `need` exceeds the chain or a remembered refusal stands,
    /// returns `None` at once.
    fn open_elsewhere(&mut self, need: usize) -> Option<(GuardPtr, usize)> {
        if need > self.end || self.refusal_stands(need) {
            return None;
        }
        let aim = need.saturating_mul(2);
        let (mut at, mut run) = (self.low, self.run_at_low(aim));
        if run < aim {
            (at, run) = self.longest();
        }
        if run < need {
            self.refuse(need);
            return None;
        }
        let guard = self.guard(at);
        let len = self.merge(at, guard.look().len(), |_, len| len >= run);
        self.note_high();
        self.head = at;
        self.frontier = NOWHERE;
        self.start_run(at);
        self.stop = self.end.min(at + self.interval);
        Some((guard, len))
    }

    /// Takes the first `need` bytes of the open region at the head for the finalized buffer. The
    /// region may be longer than the buffer's room, because a failed attempt to grow still merges
    /// regions.
    #[inline]
    pub(super) fn close(&mut self, guard: GuardPtr, need: usize) {
        let len = guard.held().len();
        ephemera_prim::invariant!(guard == self.guard(self.head), "the open region is at the head");
        self.cut(guard, self.head, len, need);
        if len > need + GRANULE {
            // SAFETY: these bytes follow the guard that `cut` just created, in a free region, which
            // only the ring accesses (C2).
            unsafe { poison(self.guard(self.head).payload(), len - need - GRANULE) };
        }
    }

    /// Records that a buffer used `bytes` bytes of the open region. The buffer calls this before it
    /// shrinks or leaves the region.
    pub(super) fn note_used(&mut self, bytes: usize) {
        self.high = self.high.max(self.head + region_of(bytes));
    }
}
