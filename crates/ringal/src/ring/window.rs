//! The window of a ring: where the head moves.
//!
//! The head moves through the store in *passes*. A pass ends when the head wraps from the end to
//! the start.
//!
//! The head stays near recently used cache lines. At intervals, the ring checks the region at
//! `low`, the first region that it placed in this pass. If that region is free, the head
//! **restarts** there. In a first-in-first-out stream, this happens after the oldest buffer is
//! freed, so the head moves within a *window* that is about as long as the live buffers plus one
//! interval.
//!
//! The **frontier** is the position that the head left when it restarted. If the restarted head
//! finds no room within a few regions, it continues from the frontier. Otherwise it would follow
//! closely after a thread that is still releasing those regions.
//!
//! A window of 256 KiB or more **rests** if its buffers are freed in bursts, for example by another
//! thread that frees batches. While the window rests, the head does not restart at `low`. The rest
//! ends when the window is 4 MiB long or reaches the end of the store. Windows rest because the
//! other thread's core has modified the cache lines of the freed guards. An allocation that uses
//! such a line before that core evicts the line must wait for the transfer of the line.
//!
//! A release does not tell the ring which thread it runs on, so the ring compares two regions of a
//! window: the one at `low`, and a later one at **`probe`**. The head has placed at least 128 KiB
//! right before `probe` without a *jump*, a move over memory that it does not place. A stream that
//! frees its buffers one by one frees the region at `low` long before the one at `probe`. If one
//! check finds `low` taken and the next one finds both regions free, a burst freed them.

use core::ops::Range;

use super::chain::{BURST, Chain, NOWHERE};
use crate::geometry::pace;

/// The number of checks in a row that must find `low` taken before the head restarts at another
/// region. At the end of a pass, one check is enough.
const PATIENCE: u32 = 16;

/// The number of checks in a row that must find `low` taken before the region where the head
/// restarts becomes `low`. Buffers placed at the frontier before a restart are often freed shortly
/// before the buffer at `low`. With a smaller number, `low` and the window would therefore climb to
/// the end of the store.
const GIVE_UP: u32 = 16 * PATIENCE;

/// The maximum number of regions that the ring visits from `low` on in three cases: before a full
/// round, to find another region for a restart, and to measure the free run at `low` for an
/// extendable buffer.
pub(super) const SIGHT: usize = 64;

/// The lengths in bytes at which a window may rest. A shorter window fits into the second-level
/// cache of the core that allocates, and a longer one does not fit into the second-level cache of
/// the core that frees.
const RESTING: Range<usize> = 256 << 10..4 << 20;

impl Chain {
    /// Handles a head that has reached `stop`. Checks `low`, and restarts or wraps the head if
    /// necessary. Does nothing if the head is below `stop`.
    pub(super) fn handle_stop(&mut self, need: usize) {
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

    /// Returns the offset where the head restarts, or `None` if it does not restart now. The offset
    /// is `low` if the region there is free and the window does not [rest](Self::rests). After
    /// [`PATIENCE`] checks in a row that found `low` taken, or at the end of a pass, it is the
    /// offset of the first free region within [`SIGHT`] regions of `low`. After [`GIVE_UP`]
    /// checks, that offset becomes `low`.
    fn restart(&mut self) -> Option<usize> {
        if self.low >= self.head {
            return None;
        }
        if !self.guard(self.low).look().is_taken() {
            self.misses = 0;
            return (!self.rests()).then_some(self.low);
        }
        if self.probe < self.head && !self.guard(self.probe).look().is_taken() {
            self.probe = self.end;
        }
        self.misses += 1;
        if self.misses % PATIENCE != 0 && self.head < self.end {
            return None;
        }
        let given_up = self.misses >= GIVE_UP;
        if given_up {
            self.misses = GIVE_UP - PATIENCE;
        }
        let mut at = self.low;
        for _ in 0..SIGHT {
            let word = self.guard(at).look();
            if !word.is_taken() {
                if given_up {
                    self.low = at;
                    self.probe = NOWHERE;
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

    /// Returns whether the window rests: whether its length is in [`RESTING`] and a burst freed its
    /// buffers. The caller has found the region at `low` free. A window at the end of the store
    /// does not rest, because the wrap would forget `low`.
    fn rests(&self) -> bool {
        let at_end = self.head >= self.end && !weakened!("windows_rest_at_the_end");
        if self.probe >= self.head || at_end {
            return false;
        }
        if !RESTING.contains(&(self.head - self.low)) && !weakened!("windows_rest_forever") {
            return false;
        }
        !self.guard(self.probe).look().is_taken() || weakened!("windows_rest_without_bursts")
    }

    /// Starts a new pass: moves the head to the start of the store.
    pub(super) fn wrap(&mut self, need: usize) {
        self.note_high();
        self.head = 0;
        self.low = NOWHERE;
        self.frontier = NOWHERE;
        self.start_run(0);
        self.misses = 0;
        self.stop_ahead(need);
    }

    /// Moves the head back to `at`. The position that the head leaves becomes the frontier. If the
    /// frontier of an earlier restart stayed instead, the window would climb to the end of the
    /// store.
    pub(super) fn go_back(&mut self, at: usize) {
        self.note_high();
        if self.frontier == NOWHERE || !weakened!("frontier_stays") {
            self.frontier = self.head;
        }
        self.head = at;
        self.start_run(at);
    }

    /// Forgets the probe and starts a run at `at`. A run is a sequence of regions that the head
    /// places without a jump.
    pub(super) fn start_run(&mut self, at: usize) {
        self.probe = NOWHERE;
        self.probe_from = at + BURST;
    }

    /// Starts a new run at `at` if the head jumps there before the window has a probe. Does nothing
    /// if the head is at `at` already.
    pub(super) fn note_jump(&mut self, at: usize) {
        if at != self.head && self.probe == NOWHERE {
            self.start_run(at);
        }
    }

    /// Sets `stop` to the offset where the next check of `low` is due, in a stream of requests of
    /// `need` bytes. If the frontier or the end comes before that offset, sets `stop` to the
    /// frontier or the end.
    pub(super) fn stop_ahead(&mut self, need: usize) {
        let window = self.head.saturating_sub(self.low);
        let distance = pace(self.interval, window, need);
        self.stop = self.end.min(self.frontier).min(self.head + distance);
    }

    /// Records that a slow path places a region at `at`. Sets `low` if this is the first region of
    /// a pass. Sets `probe` if the run has none and `at` is [`BURST`] bytes or more after the start
    /// of the run.
    pub(super) fn note_placed(&mut self, at: usize) {
        if self.low == NOWHERE {
            self.low = at;
        }
        if at >= self.probe_from {
            self.probe = at;
            self.probe_from = NOWHERE;
        }
    }

    /// Records the position of the head, which is about to move back.
    pub(super) fn note_high(&mut self) {
        self.high = self.high.max(self.head);
    }

    /// Updates the chain after a merge that removed the guards strictly between `from` and `to`
    /// (C3). Forgets the remembered refusal. Changes each position strictly between `from` and
    /// `to`: `head` and `low` become `from`, and `frontier` and `probe` become [`NOWHERE`].
    pub(super) fn forget_positions(&mut self, from: usize, to: usize) {
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
        if from < self.probe && self.probe < to && !weakened!("merge_keeps_probe") {
            self.probe = NOWHERE;
        }
    }
}
