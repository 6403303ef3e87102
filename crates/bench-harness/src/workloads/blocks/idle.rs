//! S12, idle: the resident memory that stays after a burst of blocks, while the threads sleep or
//! one thread does a little work.
//!
//! The thread of the cell allocates the burst. Either this thread or a second one frees it. The
//! second thread starts before the first reading of memory and lives until the last, so no
//! allocator can rely on thread exit.

use core::ptr::null_mut;
use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde::Deserialize;

use super::{check, layout, touch};
use crate::blocks::{Contender, RawAlloc as _};
use crate::os;
use crate::workloads::alone::{AfterBurst, AloneFigures, AloneOrder, HeldAt, MOMENTS};
use crate::workloads::crew::{Mate, Travelling};
use crate::workloads::{Cell, Context, draws, mix};

/// The smallest and the largest size of a block, in bytes.
const SIZES: (u16, u16) = (16, 1024);
/// The mean size of a block, in bytes.
pub(crate) const MEAN: u16 = (SIZES.0 + SIZES.1) / 2;
/// The number of sizes in the table. It is not a multiple of the distance between survivors.
const TABLE: usize = 8000;
/// One block in this number survives, which is about one in each 64 KiB.
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

/// The order to free the burst. Any other order is a time in milliseconds, for which the second
/// thread calls [`Burst::work`].
const FREE: u64 = 0;

/// The blocks of a burst and their contender.
struct Burst<C: Contender> {
    /// The blocks, by number. The pointer of a freed block is null. `alloc` returned the other
    /// blocks for the sizes of the table, and each block has its number in its first and last byte.
    blocks: Vec<*mut u8>,
    sizes: Box<[u16; TABLE]>,
    /// The number of blocks that `work` has allocated.
    worked: usize,
    alloc: C,
}

impl<C: Contender> Burst<C> {
    /// Makes room for the addresses of `blocks` blocks. This happens before memory is read, so that
    /// no figure includes the list.
    fn prepare(&mut self, blocks: u64) {
        self.blocks.clear();
        self.blocks.resize(blocks as usize, null_mut());
    }

    /// Allocates all blocks, and returns their size in bytes.
    fn fill(&mut self) -> u64 {
        let alloc = self.alloc.by_ref();
        let mut live = 0;
        for (index, place) in self.blocks.iter_mut().enumerate() {
            let size = usize::from(self.sizes[index % TABLE]);
            // SAFETY: no size of the table is zero.
            *place = unsafe { alloc.alloc(layout(size, 8)) };
            // SAFETY: the block is new and has this size.
            unsafe { touch(*place, size, index as u8) };
            live += size as u64;
        }
        live
    }

    /// Frees the live blocks that `end` names, in its order, and returns a checksum. Then resets
    /// the contender if it is an arena. Arenas run only [`BurstEnd::Local`], so none of their
    /// blocks is live at a reset, here or in `work`.
    fn free(&mut self, end: BurstEnd) -> u64 {
        let (blocks, sizes) = (&mut *self.blocks, &*self.sizes);
        let alloc = self.alloc.by_ref();
        let mut sum = 0;
        for step in 0..blocks.len() {
            let index = if end == BurstEnd::Reverse { blocks.len() - 1 - step } else { step };
            if end == BurstEnd::Survivors && index % ONE_IN == ONE_IN - 1 {
                continue;
            }
            let block = core::mem::replace(&mut blocks[index], null_mut());
            if !block.is_null() {
                let size = usize::from(sizes[index % TABLE]);
                // SAFETY: `fill` touched the block with this size and its number.
                unsafe { check(block, size, index as u8, &mut sum) };
                // SAFETY: the contender returned the block for this size, and the list no longer
                // has it.
                unsafe { alloc.dealloc(block, layout(size, 8)) };
            }
        }
        self.alloc.reset();
        sum
    }

    /// Returns the bytes of the live blocks.
    fn live(&self) -> u64 {
        let live = self.blocks.iter().enumerate().filter(|(_, block)| !block.is_null());
        live.map(|(index, _)| u64::from(self.sizes[index % TABLE])).sum()
    }

    /// Allocates and frees a few blocks each millisecond until the moment `until`. Resets the
    /// contender each time if it is an arena.
    fn work(&mut self, until: Instant) {
        let mut few = [(null_mut(), 0); LITTLE];
        while Instant::now() < until {
            let alloc = self.alloc.by_ref();
            for place in &mut few {
                let size = usize::from(self.sizes[self.worked % TABLE]);
                // SAFETY: no size of the table is zero.
                *place = (unsafe { alloc.alloc(layout(size, 8)) }, size);
                // SAFETY: the block is new and has this size.
                unsafe { touch(place.0, size, self.worked as u8) };
                self.worked += 1;
            }
            for (block, size) in few {
                // SAFETY: `alloc` returned the block for this size just now.
                unsafe { alloc.dealloc(block, layout(size, 8)) };
            }
            std::thread::sleep(Duration::from_millis(1).min(until.saturating_duration_since(Instant::now())));
            self.alloc.reset();
        }
    }
}

/// A burst that two threads share. One of them waits while the other uses it.
type SharedBurst<C> = Arc<Mutex<Travelling<Burst<C>>>>;

/// A burst and the threads that take part.
struct BurstCell<C: Contender> {
    /// The second thread, if it frees the burst. It is dropped first, which ends the thread before
    /// the burst is dropped.
    other: Option<Mate>,
    end: BurstEnd,
    burst: SharedBurst<C>,
}

fn locked<C: Contender>(burst: &SharedBurst<C>) -> MutexGuard<'_, Travelling<Burst<C>>> {
    burst.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<C: Contender> BurstCell<C> {
    /// Frees the burst on the thread that the variant of [`BurstEnd`] names, and returns a
    /// checksum.
    fn free(&self) -> u64 {
        let Some(other) = &self.other else { return locked(&self.burst).0.free(self.end) };
        other.order(FREE);
        other.answer()
    }

    /// Waits until the moment `until`. Depending on `after`, this thread sleeps, or the thread that
    /// freed the burst works.
    fn pass(&self, until: Instant, after: AfterBurst) {
        let left = until.saturating_duration_since(Instant::now());
        match (after, &self.other) {
            (AfterBurst::Asleep, _) => std::thread::sleep(left),
            (AfterBurst::Working, Some(other)) if left.as_millis() > 0 => {
                other.order(left.as_millis() as u64);
                other.answer();
            }
            (AfterBurst::Working, Some(_)) => {}
            (AfterBurst::Working, None) => locked(&self.burst).0.work(until),
        }
    }

    /// Frees the survivors on this thread, and returns a checksum.
    fn clear(&self) -> u64 {
        locked(&self.burst).0.free(BurstEnd::Local)
    }
}

impl<C: Contender> Cell for BurstCell<C> {
    fn run(&mut self, units: u64) -> u64 {
        locked(&self.burst).0.prepare(units);
        locked(&self.burst).0.fill();
        let sum = self.free();
        mix(sum, self.clear())
    }

    fn alone(&mut self, order: &AloneOrder) -> Option<AloneFigures> {
        let after = order.after?;
        locked(&self.burst).0.prepare(order.units);
        let mut held = Vec::with_capacity(MOMENTS.len());
        os::trim();
        let before = os::resident()?;
        let grown = || os::resident().map_or(0, |now| now.saturating_sub(before));
        let begun = Instant::now();
        let peak_live = locked(&self.burst).0.fill();
        let peak = grown();
        let sum = self.free();
        let ended = Instant::now();
        let first = grown();
        let live = locked(&self.burst).0.live();
        for at in MOMENTS.into_iter().filter(|&at| at <= order.until) {
            let taken = if at == 0.0 {
                first
            } else {
                self.pass(ended + Duration::from_secs_f64(at), after);
                grown()
            };
            held.push(HeldAt { at, taken, live });
        }
        let checksum = mix(mix(sum, self.clear()), order.units);
        let seconds = (ended - begun).as_secs_f64();
        Some(AloneFigures { checksum, ops: 2 * order.units, seconds, peak_live, peak, held, calls: None })
    }
}

/// Builds a cell whose bursts are freed as `end` says.
pub(crate) fn cell<C: Contender>(end: BurstEnd, context: &Context) -> Box<dyn Cell> {
    let sizes = draws::uniform(context.seed, SIZES.0, SIZES.1);
    let burst = Burst { blocks: Vec::new(), sizes, worked: 0, alloc: C::create() };
    let burst = Arc::new(Mutex::new(Travelling(burst)));
    let theirs = Arc::clone(&burst);
    let other = (end != BurstEnd::Local).then(|| {
        Mate::new(context.second_cpu, move || {
            move |order| {
                let burst = &mut locked(&theirs).0;
                if order == FREE {
                    return burst.free(end);
                }
                burst.work(Instant::now() + Duration::from_millis(order));
                0
            }
        })
    });
    Box::new(BurstCell { other, end, burst })
}

#[cfg(test)]
mod tests {
    use core::alloc::Layout;

    #[cfg(target_os = "linux")]
    use ephemera_testkit::child;

    use super::*;
    use crate::blocks::RawAlloc;
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
        AloneOrder { units: (32 << 20) / u64::from(MEAN), after: Some(after), until: 0.03 }
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
            assert!(ended.succeeded(), "{}", ended.stderr);
            return;
        }
        for (end, after) in ENDS.into_iter().zip([AfterBurst::Asleep, AfterBurst::Working].iter().cycle()) {
            let figures =
                cell::<Leaking>(end, &context()).alone(&order(*after)).expect("the cell runs a burst");
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
                let order = AloneOrder { units, after: Some(after), until: 0.0 };
                cell::<System>(end, &context()).alone(&order).map(|figures| figures.checksum)
            };
            assert_eq!(sum(AfterBurst::Asleep), sum(AfterBurst::Working));
            let mut twice = cell::<System>(end, &context());
            assert_eq!(twice.run(units), twice.run(units), "a cell frees all of its blocks");
        }
    }
}
