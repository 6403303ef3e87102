//! Litters a heap before a workload starts: leaves live blocks in it, with small holes between
//! them.
//!
//! Littering allocates five times as many blocks as the workload holds, with the workload's sizes,
//! and frees a random half of these blocks. The other half remains until the process ends. The
//! litter is in the heap that the contender names as its `Backing`. The system's allocator and the
//! libraries in C and C++ name themselves, and the other contenders name the system's heap.

use core::alloc::Layout;
use core::any::TypeId;
use core::cell::RefCell;
use core::mem;
use core::ptr::NonNull;
use std::collections::{BTreeMap, BTreeSet};

use allocator_api2::alloc::{AllocError, Allocator, Global};
use rand::seq::SliceRandom;

use crate::blocks::{Contender, RawAlloc};
use crate::workloads::draws::{SplitMix64, stream};

/// The number of blocks that littering allocates for each block that the workload holds.
const MULTIPLIER: usize = 5;
/// One allocated block in this number remains as litter.
const ONE_IN: usize = 2;

thread_local! {
    /// The types of the heaps that this thread has littered. Contenders over the same heap share
    /// its litter.
    static LITTERED: RefCell<BTreeSet<TypeId>> = const { RefCell::new(BTreeSet::new()) };
}

/// The contents of a workload at its peak: layouts, each with the number of blocks.
pub(super) type Histogram = Vec<(Layout, u64)>;

/// Returns the histogram of buffers of these lengths, none of which may be zero.
pub(super) fn of_lengths(lengths: Vec<usize>) -> Histogram {
    let census = Census::default();
    lengths
        .into_iter()
        .filter_map(|length| Layout::array::<u8>(length).ok())
        .for_each(|layout| census.add(layout));
    census.held()
}

/// The number of live blocks of each layout. As an allocator, it counts the blocks that it hands
/// out, for workloads whose histogram is known only after a run.
#[derive(Debug, Default)]
pub(super) struct Census(RefCell<BTreeMap<(usize, usize), u64>>);

impl Census {
    pub(super) fn add(&self, layout: Layout) {
        *self.0.borrow_mut().entry((layout.size(), layout.align())).or_default() += 1;
    }

    pub(super) fn remove(&self, layout: Layout) {
        if let Some(count) = self.0.borrow_mut().get_mut(&(layout.size(), layout.align())) {
            *count -= 1;
        }
    }

    /// Returns the histogram of the live blocks.
    pub(super) fn held(&self) -> Histogram {
        let held = self.0.borrow();
        let layout = |&(size, align): &(usize, usize)| Layout::from_size_align(size, align).ok();
        let held = held.iter().filter(|&(_, &count)| count > 0);
        held.filter_map(|(key, &count)| Some((layout(key)?, count))).collect()
    }
}

// SAFETY: every call goes to the global heap. `grow` and `shrink` are the trait's provided methods.
unsafe impl Allocator for &Census {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.add(layout);
        Global.allocate(layout)
    }

    unsafe fn deallocate(&self, ptr: NonNull<u8>, layout: Layout) {
        self.remove(layout);
        // SAFETY: the caller upholds the callee's contract.
        unsafe { Global.deallocate(ptr, layout) }
    }
}

/// If the workload runs on a littered heap, litters the heap of `C` with the blocks of a histogram,
/// unless the heap is littered already. Returns the number of new blocks that remain.
pub(super) fn scatter<C: Contender>(
    littered: bool,
    histogram: impl FnOnce() -> Histogram,
    seed: u64,
) -> usize {
    if !littered || !LITTERED.with_borrow_mut(|heaps| heaps.insert(TypeId::of::<C>())) {
        return 0;
    }
    // The compiler instantiates this function for every closure of a workload, but `scatter_blocks`
    // only for each of the few heaps.
    scatter_blocks::<C>(&histogram(), &mut stream(seed, 9))
}

/// Allocates [`MULTIPLIER`] blocks for each block of the histogram, in random order. Frees a random
/// part of them, and returns the number of blocks that remain.
fn scatter_blocks<C: Contender>(histogram: &Histogram, rng: &mut SplitMix64) -> usize {
    let repeat = |&(layout, count): &(Layout, u64)| core::iter::repeat_n(layout, MULTIPLIER * count as usize);
    let mut layouts: Vec<Layout> = histogram.iter().flat_map(repeat).collect();
    layouts.shuffle(rng);
    let heap = C::create();
    let alloc = |layout: Layout| {
        // SAFETY: no layout of a histogram is empty.
        let block = unsafe { heap.by_ref().alloc(layout) };
        // SAFETY: the block has at least one byte and is new.
        unsafe { block.write(1) };
        (block, layout)
    };
    let mut blocks: Vec<(*mut u8, Layout)> = layouts.into_iter().map(alloc).collect();
    blocks.shuffle(rng);
    let stay = blocks.len() / ONE_IN;
    for &(block, layout) in &blocks[stay..] {
        // SAFETY: the block was allocated above with this layout and is freed once.
        unsafe { heap.by_ref().dealloc(block, layout) };
    }
    // The litter is never freed, so its heap must not be dropped.
    mem::forget(heap);
    stay
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;
    use crate::card::{Caps, Info};
    use crate::contenders::blocks::Api02;

    thread_local! {
        static MADE: Cell<usize> = const { Cell::new(0) };
        static FREED: Cell<usize> = const { Cell::new(0) };
    }

    /// The global heap, with counters for this test alone.
    #[derive(Clone, Copy)]
    struct Noted;

    // SAFETY: every call goes to the global heap.
    unsafe impl Allocator for Noted {
        fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
            MADE.set(MADE.get() + 1);
            Global.allocate(layout)
        }

        unsafe fn deallocate(&self, ptr: NonNull<u8>, layout: Layout) {
            FREED.set(FREED.get() + 1);
            // SAFETY: the caller upholds the callee's contract.
            unsafe { Global.deallocate(ptr, layout) }
        }
    }

    impl Contender for Noted {
        const INFO: Info = Info::new("", "", Caps::GENERAL, "");
        type Metered = Self;
        type Backing = Self;
        type Ref<'a> = Api02<Self>;

        fn create() -> Self {
            Self
        }

        fn by_ref(&self) -> Api02<Self> {
            Api02(Self)
        }
    }

    #[test]
    fn a_census_counts_held_blocks() {
        let census = Census::default();
        let mut long = allocator_api2::vec::Vec::with_capacity_in(10, &census);
        long.resize(20, 7_u64);
        let boxed = allocator_api2::boxed::Box::new_in(7_u64, &census);
        let [eight, list] = [Layout::new::<u64>(), Layout::new::<[u64; 20]>()];
        assert_eq!(census.held(), [(eight, 1), (list, 1)]);
        drop(long);
        assert_eq!(census.held(), [(eight, 1)]);
        drop(boxed);
        assert_eq!(census.held(), []);
    }

    #[test]
    fn half_of_the_litter_remains_and_a_heap_is_littered_once() {
        let histogram = vec![(Layout::new::<u64>(), 100), (Layout::new::<[u64; 5]>(), 40)];
        assert_eq!(scatter::<Noted>(true, || histogram, 1), 350);
        assert_eq!((MADE.get(), FREED.get()), (700, 350));
        assert_eq!(scatter::<Noted>(true, || unreachable!("it is known"), 1), 0);
        assert_eq!((MADE.get(), FREED.get()), (700, 350));
    }
}
