//! S13, ageing: requests that allocate short-lived blocks and replace random entries of a cache,
//! while the sizes of the entries drift.
//!
//! A request allocates half of its short-lived blocks, replaces two entries of the cache, allocates
//! the other half, and frees the blocks, so entries lie between short-lived blocks. The sizes of
//! new entries grow and shrink twice in a run. If each size class of an allocator keeps its peak
//! memory, the allocator ends up with the peaks of all classes. The draws are made in the loop, at
//! the same cost for every contender.

use std::time::Instant;

use hdrhistogram::Histogram;
use rand::RngExt;

use super::{layout, touch, verify};
use crate::blocks::{Contender, RawAlloc as _};
use crate::os;
use crate::workloads::alone::{AloneFigures, AloneOrder, HeldAt, READINGS};
use crate::workloads::draws::{self, SplitMix64, stream};
use crate::workloads::{Cell, Context, load, mix};

const ENTRIES: usize = 30_000;
/// The smallest centre of the sizes of entries, in bytes.
const LEAST: f64 = 64.0;
/// The number of times that the centre of the sizes doubles as it grows.
const DOUBLINGS: f64 = 4.0;
/// The number of times that the sizes of entries grow and shrink again in a run.
const DRIFTS: f64 = 2.0;
/// The number of short-lived blocks in an ordinary request.
const GARBAGE: usize = 40;
/// The number of short-lived blocks in a heavy request.
const HEAVY: usize = 16 * GARBAGE;
/// On average, one request in this number is heavy.
const HEAVY_ONE_IN: u64 = 64;
/// The number of entries that a request replaces.
const REPLACED: usize = 2;
/// The number of sizes in the table for short-lived blocks.
const TABLE: usize = 8000;
/// The number of calls from one timed call to the next. It shares no factor with the number of
/// calls in a request.
const TIMED_ONE_IN: u32 = 31;

/// A live block.
#[derive(Clone, Copy, Debug)]
struct AgedBlock {
    at: *mut u8,
    size: u16,
    tag: u8,
}

/// Times one in every [`TIMED_ONE_IN`] calls.
struct CallClock {
    left: u32,
    calls: Histogram<u64>,
}

/// The allocator under test, with counters of its calls and bytes. If it has a clock, one call in
/// [`TIMED_ONE_IN`] is timed.
struct AgeingHeap<C: Contender> {
    alloc: C,
    clock: Option<CallClock>,
    ops: u64,
    live: u64,
    peak_live: u64,
    sum: u64,
}

impl<C: Contender> AgeingHeap<C> {
    /// Makes a call to the allocator, and times the call if it is the [`TIMED_ONE_IN`]th since the
    /// last timed one.
    #[inline(always)]
    fn call<T>(&mut self, call: impl FnOnce(&C) -> T) -> T {
        self.ops += 1;
        if let Some(clock) = &mut self.clock {
            clock.left -= 1;
            if clock.left == 0 {
                clock.left = TIMED_ONE_IN;
                let begun = Instant::now();
                let made = call(&self.alloc);
                clock.calls.saturating_record(begun.elapsed().as_nanos() as u64);
                return made;
            }
        }
        call(&self.alloc)
    }

    #[inline(always)]
    fn take(&mut self, size: u16) -> AgedBlock {
        let bytes = usize::from(size);
        // SAFETY: no size is zero.
        let at = self.call(|alloc| unsafe { alloc.by_ref().alloc(layout(bytes, 8)) });
        let tag = self.ops as u8;
        // SAFETY: the block is new and has this size.
        unsafe { touch(at, bytes, tag) };
        self.live += u64::from(size);
        AgedBlock { at, size, tag }
    }

    /// Adds the first byte of a block to the checksum, verifies the block in a counted run, and
    /// frees it.
    ///
    /// # Safety
    ///
    /// `take` must have returned the block, and the caller must not use it again.
    #[inline(always)]
    unsafe fn free(&mut self, block: AgedBlock) {
        let bytes = usize::from(block.size);
        // SAFETY: `take` touched the block, so its first byte was written.
        let first = unsafe { block.at.read() };
        // SAFETY: `take` touched the block with this tag.
        unsafe { verify::<C::Ref<'_>>(block.at, bytes, block.tag, &mut self.sum) };
        self.sum = mix(self.sum, u64::from(first) | u64::from(block.size) << 16);
        self.live -= u64::from(block.size);
        // SAFETY: this contender returned the block for this size.
        self.call(|alloc| unsafe { alloc.by_ref().dealloc(block.at, layout(bytes, 8)) });
    }
}

/// The cache and the state of the requests.
struct AgeingCell<C: Contender> {
    cache: Vec<AgedBlock>,
    garbage: Vec<AgedBlock>,
    sizes: Box<[u16; TABLE]>,
    size_at: usize,
    rng: SplitMix64,
    heap: AgeingHeap<C>,
}

/// Returns the centre of the sizes of new entries, in bytes, after `share` of the requests.
fn centre(share: f64) -> u64 {
    let phase = (share * DRIFTS).fract();
    let up = 1.0 - (2.0 * phase - 1.0).abs();
    (LEAST * (DOUBLINGS * up).exp2()) as u64
}

impl<C: Contender> AgeingCell<C> {
    /// Draws the size of an entry, between half of the centre and one and a half times the centre.
    fn entry(&mut self, centre: u64) -> u16 {
        (centre / 2 + self.rng.random_range(0..centre)) as u16
    }

    /// Fills the cache, unless it is already full.
    fn fill(&mut self) {
        while self.cache.len() < ENTRIES {
            let size = self.entry(centre(0.0));
            let block = self.heap.take(size);
            self.cache.push(block);
        }
    }

    fn make_garbage(&mut self, count: usize) {
        for _ in 0..count {
            let size = self.sizes[self.size_at];
            self.size_at = if self.size_at + 1 == TABLE { 0 } else { self.size_at + 1 };
            let block = self.heap.take(size);
            self.garbage.push(block);
        }
    }

    /// Serves a request. The sizes of new entries lie around `centre`.
    fn request(&mut self, centre: u64) {
        let count = if self.rng.random_range(0..HEAVY_ONE_IN) == 0 { HEAVY } else { GARBAGE };
        self.make_garbage(count / 2);
        for _ in 0..REPLACED {
            let place = self.rng.random_range(0..ENTRIES as u64) as usize;
            let old = self.cache[place];
            // SAFETY: `take` returned the entry, which is overwritten below.
            unsafe { self.heap.free(old) };
            let size = self.entry(centre);
            self.cache[place] = self.heap.take(size);
        }
        self.make_garbage(count - count / 2);
        self.heap.peak_live = self.heap.peak_live.max(self.heap.live);
        // Half of the garbage is freed in the order of allocation, and the rest newest first.
        for index in 0..count / 2 {
            // SAFETY: `take` returned the block, and the list is cleared below.
            unsafe { self.heap.free(self.garbage[index]) };
        }
        for index in (count / 2..count).rev() {
            // SAFETY: `take` returned the block, and the list is cleared below.
            unsafe { self.heap.free(self.garbage[index]) };
        }
        self.garbage.clear();
    }
}

impl<C: Contender> Cell for AgeingCell<C> {
    fn run(&mut self, units: u64) -> u64 {
        self.fill();
        for unit in 0..units {
            self.request(centre(unit as f64 / units as f64));
        }
        self.heap.sum
    }

    fn alone(&mut self, order: &AloneOrder) -> Option<AloneFigures> {
        let mut held = Vec::with_capacity(READINGS as usize + 1);
        self.heap.clock = Some(CallClock { left: TIMED_ONE_IN, calls: load::latencies() });
        os::trim();
        os::reset_peak();
        let before = os::resident()?;
        self.fill();
        self.heap.ops = 0;
        let mut seconds = 0.0;
        for reading in 0..READINGS {
            let at = (reading + 1) as f64 / READINGS as f64;
            let centre = centre(at);
            let begun = Instant::now();
            for _ in order.units * reading / READINGS..order.units * (reading + 1) / READINGS {
                self.request(centre);
            }
            seconds += begun.elapsed().as_secs_f64();
            let taken = os::resident()?.saturating_sub(before);
            held.push(HeldAt { at, taken, live: self.heap.live });
        }
        let peak = os::resident_peak()?.saturating_sub(before);
        Some(AloneFigures {
            checksum: mix(self.heap.sum, self.heap.ops),
            ops: self.heap.ops,
            seconds,
            peak_live: self.heap.peak_live,
            peak,
            held,
            calls: self.heap.clock.take().map(|clock| clock.calls),
        })
    }
}

impl<C: Contender> Drop for AgeingCell<C> {
    fn drop(&mut self) {
        for block in core::mem::take(&mut self.cache) {
            // SAFETY: `take` returned the entry, and the cache is dropped here.
            unsafe { self.heap.free(block) };
        }
    }
}

/// Builds a cell whose cache is empty until its first run.
pub(crate) fn cell<C: Contender>(context: &Context) -> Box<dyn Cell> {
    Box::new(AgeingCell::<C> {
        cache: Vec::with_capacity(ENTRIES),
        garbage: Vec::with_capacity(HEAVY),
        sizes: draws::geometric(context.seed, 1024),
        size_at: 0,
        rng: stream(context.seed, 15),
        heap: AgeingHeap { alloc: C::create(), clock: None, ops: 0, live: 0, peak_live: 0, sum: 0 },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contenders::blocks::System;
    use crate::workloads::{Document, Sources};

    #[test]
    #[cfg(target_os = "linux")]
    fn an_ageing_heap_is_read_sixty_times_and_its_calls_are_timed() {
        let context = Context {
            seed: 1,
            document: Document::generated(1, 10).into(),
            sources: Sources::new(None).into(),
            second_cpu: None,
        };
        let order = AloneOrder { units: 1200, after: None, until: 0.0 };
        let aged = || cell::<System>(&context).alone(&order).expect("the system reports resident memory");
        let figures = aged();
        let at: Vec<f64> = figures.held.iter().map(|held| held.at).collect();
        assert_eq!((at.len() as u64, at.last()), (READINGS, Some(&1.0)));
        assert!(at.is_sorted() && figures.held.iter().all(|held| held.live > 0));
        let calls = figures.calls.expect("calls are timed").len();
        assert!(calls >= figures.ops / u64::from(TIMED_ONE_IN), "{calls} of {}", figures.ops);
        assert!(figures.ops > order.units * 2 * (GARBAGE + REPLACED) as u64);
        assert_eq!(figures.checksum, aged().checksum, "a seed gives the same work");
    }

    #[test]
    fn sizes_grow_and_shrink_twice() {
        let centres = [0.0, 0.25, 0.5, 0.75, 1.0].map(centre);
        assert_eq!(centres, [64, 1024, 64, 1024, 64]);
    }
}
