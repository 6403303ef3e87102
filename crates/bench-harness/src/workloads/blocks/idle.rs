//! S12, idle: the resident memory that stays after a burst of blocks, while the threads sleep or
//! one thread does a little work.
//!
//! The thread of the cell allocates the burst. Either this thread or a second one frees it. The
//! second thread starts before the first reading of memory and lives until the last, so no
//! allocator can rely on the end of a thread.

use core::ptr::null_mut;
use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde::Deserialize;

use super::{layout, touch};
use crate::blocks::{Contender, RawAlloc};
use crate::workloads::alone::{AfterBurst, AloneFigures, AloneOrder, MOMENTS, ResidentAt};
use crate::workloads::crew::{AcrossThreads, Mate, Travelling};
use crate::workloads::{Cell, Context, draws, mix};
use crate::{os, tally};

/// The smallest and the largest size of a block, in bytes.
const SIZES: (u16, u16) = (16, 1024);
/// The mean size of a block, in bytes.
pub(crate) const MEAN: u16 = (SIZES.0 + SIZES.1) / 2;
/// The number of sizes in the table. It is not a multiple of the distance between survivors.
const TABLE: usize = 8000;
/// The number of blocks per survivor. There is about one survivor in each 64 KiB.
const ONE_IN: usize = 127;
/// The number of blocks that a working thread allocates and frees each millisecond.
const LITTLE: usize = 16;

/// The thread that frees a burst, and the order in which it frees the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum BurstEnd {
    /// The allocating thread frees in the order of allocation.
    Local,
    /// Another thread frees in the order of allocation.
    Remote,
    /// Another thread frees, the newest block first.
    Reverse,
    /// Another thread frees in the order of allocation, but leaves every [`ONE_IN`]th block.
    Survivors,
}

/// The blocks of a burst, by number. The pointer of a freed block is null.
type BurstBlocks = Arc<Mutex<Travelling<Vec<*mut u8>>>>;

/// The order to free the burst. Any other order is a time in milliseconds, for which the second
/// thread calls [`work`].
const FREE: u64 = 0;

/// A burst and the threads that take part.
struct BurstCell<C: Contender> {
    /// The second thread, if it frees the burst. `drop` ends this thread before the other fields
    /// are dropped.
    other: Option<Mate>,
    blocks: BurstBlocks,
    sizes: Arc<[u16; TABLE]>,
    end: BurstEnd,
    /// The number of blocks that this thread has allocated since the burst.
    worked: usize,
    alloc: AcrossThreads<C>,
}

/// Reads the first and the last byte of a block, then frees it.
///
/// # Safety
///
/// `alloc` must have returned the block for this size, and [`touch`] must have written the tag. The
/// caller must not use the block again.
#[inline(always)]
unsafe fn finish<R: RawAlloc>(alloc: R, block: *mut u8, size: usize, tag: u8, sum: &mut u64) {
    // SAFETY: the block is not empty, and its first byte was written.
    let first = unsafe { block.read() };
    // SAFETY: `size - 1` is within the block.
    let last = unsafe { block.add(size - 1) };
    // SAFETY: that byte was written too.
    let last = unsafe { last.read() };
    if first != tag || last != tag {
        tally::damaged();
    }
    *sum = mix(*sum, u64::from(first) | u64::from(last) << 8 | (size as u64) << 16);
    // SAFETY: the caller passes a block of this size and does not use it again.
    unsafe { alloc.dealloc(block, layout(size, 8)) };
}

/// Frees the live blocks in the order of `end`, except for survivors, and returns a checksum.
///
/// # Safety
///
/// `alloc` must have returned the blocks for the sizes of the table, and [`touch`] must have
/// written the number of each block.
unsafe fn free_burst<R: RawAlloc + Copy>(
    alloc: R,
    blocks: &mut [*mut u8],
    sizes: &[u16; TABLE],
    end: BurstEnd,
) -> u64 {
    let mut sum = 0;
    for step in 0..blocks.len() {
        let index = if end == BurstEnd::Reverse { blocks.len() - 1 - step } else { step };
        if end == BurstEnd::Survivors && index % ONE_IN == ONE_IN - 1 {
            continue;
        }
        let block = core::mem::replace(&mut blocks[index], null_mut());
        if !block.is_null() {
            // SAFETY: `alloc` returned the block for this size, `touch` wrote its number, and the
            // list no longer has it.
            unsafe { finish(alloc, block, usize::from(sizes[index % TABLE]), index as u8, &mut sum) };
        }
    }
    sum
}

/// Allocates and frees a few blocks each millisecond until the moment `until`. `at` is the number
/// of blocks allocated so far.
fn work<R: RawAlloc + Copy>(alloc: R, sizes: &[u16; TABLE], at: &mut usize, until: Instant) {
    let mut few = [(null_mut(), 0); LITTLE];
    while Instant::now() < until {
        for place in &mut few {
            let size = usize::from(sizes[*at % TABLE]);
            // SAFETY: no size of the table is zero.
            *place = (unsafe { alloc.alloc(layout(size, 8)) }, size);
            // SAFETY: the block is new and has this size.
            unsafe { touch(place.0, size, *at as u8) };
            *at += 1;
        }
        for (block, size) in few {
            // SAFETY: `alloc` returned the block for this size just now.
            unsafe { alloc.dealloc(block, layout(size, 8)) };
        }
        std::thread::sleep(Duration::from_millis(1).min(until.saturating_duration_since(Instant::now())));
    }
}

impl<C: Contender> BurstCell<C> {
    fn new(end: BurstEnd, context: &Context) -> Self {
        let alloc = AcrossThreads(Arc::new(C::create()));
        let sizes: Arc<[u16; TABLE]> = draws::uniform(context.seed, SIZES.0, SIZES.1).into();
        let blocks: BurstBlocks = Arc::new(Mutex::new(Travelling(Vec::new())));
        let (theirs, list, table) = (alloc.clone(), Arc::clone(&blocks), Arc::clone(&sizes));
        let other = (end != BurstEnd::Local).then(|| {
            Mate::new(context.second_cpu, move || {
                let mut worked = 0;
                move |order| {
                    let alloc = theirs.by_ref();
                    if order == FREE {
                        let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
                        // SAFETY: `burst` filled the list from this contender, which frees on any
                        // thread.
                        return unsafe { free_burst(alloc, &mut list.0, &table, end) };
                    }
                    work(alloc, &table, &mut worked, Instant::now() + Duration::from_millis(order));
                    0
                }
            })
        });
        Self { other, blocks, sizes, end, worked: 0, alloc }
    }

    /// Makes room for the addresses of a burst before memory is read, so that no figure includes
    /// the list.
    fn prepare(&self, units: u64) {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.0.clear();
        blocks.0.resize(units as usize, null_mut());
    }

    /// Allocates a burst and returns its size in bytes.
    fn burst(&self) -> u64 {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let alloc = self.alloc.by_ref();
        let mut live = 0;
        for (index, place) in blocks.0.iter_mut().enumerate() {
            let size = usize::from(self.sizes[index % TABLE]);
            // SAFETY: no size of the table is zero.
            *place = unsafe { alloc.alloc(layout(size, 8)) };
            // SAFETY: the block is new and has this size.
            unsafe { touch(*place, size, index as u8) };
            live += size as u64;
        }
        live
    }

    /// Frees the burst on the thread that the variant of [`BurstEnd`] names, and returns a
    /// checksum.
    fn free(&mut self) -> u64 {
        if let Some(other) = &self.other {
            other.order(FREE);
            return other.answer();
        }
        let sum = {
            let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: `burst` filled the list from this contender.
            unsafe { free_burst(self.alloc.by_ref(), &mut blocks.0, &self.sizes, self.end) }
        };
        self.reset();
        sum
    }

    /// Returns the bytes of the survivors.
    fn live(&self) -> u64 {
        let blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let live = blocks.0.iter().enumerate().filter(|(_, block)| !block.is_null());
        live.map(|(index, _)| u64::from(self.sizes[index % TABLE])).sum()
    }

    /// Resets the contender if it is an arena. Arenas run only the variant without a second thread
    /// and without survivors.
    fn reset(&mut self) {
        if let Some(alloc) = Arc::get_mut(&mut self.alloc.0) {
            alloc.reset();
        }
    }

    /// Sleeps or works until the moment `until`, depending on `after`.
    fn pass(&mut self, until: Instant, after: AfterBurst) {
        let left = until.saturating_duration_since(Instant::now());
        match (after, &self.other) {
            (AfterBurst::Asleep, _) => std::thread::sleep(left),
            (AfterBurst::Working, Some(other)) if left.as_millis() > 0 => {
                other.order(left.as_millis() as u64);
                other.answer();
            }
            (AfterBurst::Working, Some(_)) => {}
            (AfterBurst::Working, None) => {
                // An arena is reset after each batch.
                while Instant::now() < until {
                    let soon = (Instant::now() + Duration::from_millis(1)).min(until);
                    work(self.alloc.by_ref(), &self.sizes, &mut self.worked, soon);
                    self.reset();
                }
            }
        }
    }

    /// Frees the survivors on this thread, and returns a checksum.
    fn clear(&mut self) -> u64 {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: `burst` filled the list from this contender, and the other thread waits for an
        // order.
        unsafe { free_burst(self.alloc.by_ref(), &mut blocks.0, &self.sizes, BurstEnd::Local) }
    }
}

impl<C: Contender> Cell for BurstCell<C> {
    fn run(&mut self, units: u64) -> u64 {
        self.prepare(units);
        self.burst();
        let sum = self.free();
        mix(sum, self.clear())
    }

    fn alone(&mut self, order: &AloneOrder) -> Option<AloneFigures> {
        let after = order.after?;
        self.prepare(order.units);
        let mut held = Vec::with_capacity(MOMENTS.len());
        os::trim();
        let before = os::resident()?;
        let grown = || os::resident().map_or(0, |now| now.saturating_sub(before));
        let begun = Instant::now();
        let peak_live = self.burst();
        let peak = grown();
        let sum = self.free();
        let ended = Instant::now();
        let first = grown();
        let live = self.live();
        for at in MOMENTS.into_iter().filter(|&at| at <= order.until) {
            if at == 0.0 {
                held.push(ResidentAt { at, taken: first, live });
            } else {
                self.pass(ended + Duration::from_secs_f64(at), after);
                held.push(ResidentAt { at, taken: grown(), live });
            }
        }
        let checksum = mix(mix(sum, self.clear()), order.units);
        let seconds = (ended - begun).as_secs_f64();
        Some(AloneFigures { checksum, ops: 2 * order.units, seconds, peak_live, peak, held, calls: None })
    }
}

impl<C: Contender> Drop for BurstCell<C> {
    fn drop(&mut self) {
        self.other = None;
    }
}

/// Builds a cell whose bursts are freed as `end` says.
pub(crate) fn cell<C: Contender>(end: BurstEnd, context: &Context) -> Box<dyn Cell> {
    Box::new(BurstCell::<C>::new(end, context))
}

#[cfg(test)]
mod tests {
    use core::alloc::Layout;

    #[cfg(target_os = "linux")]
    use ephemera_testkit::child;

    use super::*;
    use crate::card::{Caps, Info};
    use crate::contenders::blocks::System;
    use crate::workloads::{Document, Sources};

    /// The system's allocator without `dealloc`.
    #[derive(Clone, Copy)]
    struct Leaking;

    // SAFETY: the system's allocator upholds the contract, and a leaked block stays valid.
    unsafe impl RawAlloc for Leaking {
        unsafe fn raw_alloc(&self, layout: Layout) -> *mut u8 {
            // SAFETY: the caller upholds the callee's contract.
            unsafe { System.by_ref().raw_alloc(layout) }
        }

        unsafe fn raw_alloc_zeroed(&self, layout: Layout) -> *mut u8 {
            // SAFETY: the caller upholds the callee's contract.
            unsafe { System.by_ref().raw_alloc_zeroed(layout) }
        }

        unsafe fn raw_dealloc(&self, _ptr: *mut u8, _layout: Layout) {}

        unsafe fn raw_resize<const GROW: bool>(&self, _: *mut u8, _: Layout, _: Layout) -> *mut u8 {
            null_mut()
        }
    }

    impl Contender for Leaking {
        const INFO: Info = Info::new("leaking", "none", Caps::GENERAL, "");
        type Metered = Self;
        type Backing = System;
        type Ref<'a> = Self;

        fn create() -> Self {
            Self
        }

        fn by_ref(&self) -> Self {
            *self
        }
    }

    fn context() -> Context {
        Context {
            seed: 1,
            document: Document::generated(1, 10).into(),
            sources: Sources::new(None).into(),
            second_cpu: None,
        }
    }

    const ENDS: [BurstEnd; 4] = [BurstEnd::Local, BurstEnd::Remote, BurstEnd::Reverse, BurstEnd::Survivors];

    fn order(after: AfterBurst) -> AloneOrder {
        AloneOrder { units: (32 << 20) / u64::from(MEAN), after: Some(after), until: 0.03, lane: 0 }
    }

    /// This test reads the resident memory of the process, so it runs in a process without other
    /// tests.
    #[test]
    #[cfg(target_os = "linux")]
    fn conc_kept_memory_is_seen_after_local_and_remote_frees() {
        const NAME: &str =
            "workloads::blocks::idle::tests::conc_kept_memory_is_seen_after_local_and_remote_frees";
        if child::part().is_none() {
            let ended = child::run(NAME, "burst");
            assert!(ended.well(), "{}", ended.said);
            return;
        }
        for (end, after) in ENDS.into_iter().zip([AfterBurst::Asleep, AfterBurst::Working].iter().cycle()) {
            let figures = cell::<Leaking>(end, &context()).alone(&order(*after)).expect("a burst");
            assert_eq!(figures.held.iter().map(|held| held.at).collect::<Vec<_>>(), [0.0, 0.01, 0.03]);
            for held in &figures.held {
                assert!(held.taken > figures.peak_live / 2, "{end:?}, {after:?}: {held:?}");
            }
            let live = figures.held[0].live;
            assert_eq!(end == BurstEnd::Survivors, live > 0, "{live} bytes are live after {end:?}");
        }
    }

    #[test]
    fn conc_a_seed_gives_the_same_work_in_each_process() {
        for end in ENDS {
            let units = 10_000;
            let sum = |after| {
                let order = AloneOrder { units, after: Some(after), until: 0.0, lane: 0 };
                cell::<System>(end, &context()).alone(&order).map(|figures| figures.checksum)
            };
            assert_eq!(sum(AfterBurst::Asleep), sum(AfterBurst::Working));
            let mut twice = cell::<System>(end, &context());
            assert_eq!(twice.run(units), twice.run(units), "a cell frees all of its blocks");
        }
    }
}
