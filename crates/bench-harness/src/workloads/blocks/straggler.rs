//! S6, straggler: a FIFO window in which a few blocks live a hundred times longer. The bad case of every ring and arena:
//! what a chunk costs that one block keeps alive shows in the bytes held per byte alive.

use core::ptr::null_mut;
use std::collections::VecDeque;

use super::{layout, touch, verify};
use crate::blocks::{Contender, RawAlloc};
use crate::workloads::{Cell, Context, rng};

/// Live blocks of the window.
pub const WINDOW: usize = 4096;
/// How many times longer a straggler lives.
pub const LONGER: usize = 100;
/// Sizes in the table.
const TABLE: usize = 4096;

#[derive(Clone, Copy, Debug)]
struct Late {
    due: usize,
    block: *mut u8,
    size: u16,
    tag: u8,
}

/// The window, and the blocks that outlive it.
#[derive(Debug)]
pub struct Stragglers {
    slots: Box<[*mut u8; WINDOW]>,
    sizes: Box<[u16; TABLE]>,
    late: VecDeque<Late>,
    /// The next block of the window that will stay.
    next_late: usize,
    /// One block in so many stays; zero for none.
    one_in: usize,
    next: usize,
}

impl Stragglers {
    /// Fills the window with blocks of 64 to 1,024 bytes.
    pub fn fill<R: RawAlloc + Copy>(alloc: R, seed: u64, one_in: usize) -> Self {
        let sizes = rng::uniform::<TABLE>(seed, 64, 1024);
        let mut slots = Box::new([null_mut(); WINDOW]);
        for (i, slot) in slots.iter_mut().enumerate() {
            let size = usize::from(sizes[i]);
            // SAFETY: sizes start at 64.
            *slot = unsafe { alloc.alloc(layout(size, 8)) };
            // SAFETY: the block is that long and the window's own.
            unsafe { touch(*slot, size, i as u8) };
        }
        // Room for all that are late at a time, so that the loop never grows it.
        let room = (WINDOW * LONGER).checked_div(one_in).map_or(0, |late| late + 2);
        let next_late = if one_in == 0 { usize::MAX } else { one_in - 1 };
        Self { slots, sizes, late: VecDeque::with_capacity(room), next_late, one_in, next: WINDOW }
    }

    /// Frees all blocks.
    ///
    /// # Safety
    ///
    /// `alloc` is the allocator of [`fill`](Self::fill) and [`churn`].
    pub unsafe fn clear<R: RawAlloc + Copy>(self, alloc: R) {
        for i in self.next - WINDOW..self.next {
            let size = usize::from(self.sizes[i % TABLE]);
            // SAFETY: the block is live, came from this allocator for this layout, and the window ends here.
            unsafe { alloc.dealloc(self.slots[i % WINDOW], layout(size, 8)) };
        }
        for late in self.late {
            // SAFETY: as above; a late block is no longer in the window.
            unsafe { alloc.dealloc(late.block, layout(usize::from(late.size), 8)) };
        }
    }
}

/// Moves the window on by `ops` blocks.
///
/// # Safety
///
/// `alloc` is the allocator that filled it.
#[inline(never)]
pub unsafe fn churn<R: RawAlloc + Copy>(alloc: R, state: &mut Stragglers, ops: u64) -> u64 {
    let mut sum = 0;
    for _ in 0..ops {
        let i = state.next;
        let oldest = i - WINDOW;
        let size = state.sizes[oldest & (TABLE - 1)];
        let block = state.slots[i & (WINDOW - 1)];
        if oldest == state.next_late {
            state.next_late += state.one_in;
            let due = i + WINDOW * (LONGER - 1);
            state.late.push_back(Late { due, block, size, tag: oldest as u8 });
        } else {
            // SAFETY: the block was touched when it came.
            unsafe { verify::<R>(block, usize::from(size), oldest as u8, &mut sum) };
            // SAFETY: it came from this allocator for this layout, and its slot is overwritten below.
            unsafe { alloc.dealloc(block, layout(usize::from(size), 8)) };
        }
        if let Some(&late) = state.late.front()
            && late.due <= i
        {
            state.late.pop_front();
            // SAFETY: the block was touched when it came.
            unsafe { verify::<R>(late.block, usize::from(late.size), late.tag, &mut sum) };
            // SAFETY: it came from this allocator for this layout, and is on no list any more.
            unsafe { alloc.dealloc(late.block, layout(usize::from(late.size), 8)) };
        }
        let size = usize::from(state.sizes[i & (TABLE - 1)]);
        // SAFETY: sizes start at 64.
        let block = unsafe { alloc.alloc(layout(size, 8)) };
        // SAFETY: the block is that long and the window's own.
        unsafe { touch(block, size, i as u8) };
        state.slots[i & (WINDOW - 1)] = block;
        state.next = i + 1;
    }
    sum
}

struct Straggle<C: Contender> {
    state: Option<Stragglers>,
    alloc: C,
}

impl<C: Contender> Cell for Straggle<C> {
    fn run(&mut self, units: u64) -> u64 {
        let Some(state) = &mut self.state else { return 0 };
        // SAFETY: the cell's own allocator filled the window.
        unsafe { churn(self.alloc.by_ref(), state, units) }
    }
}

impl<C: Contender> Drop for Straggle<C> {
    fn drop(&mut self) {
        if let Some(state) = self.state.take() {
            // SAFETY: the cell's own allocator filled the window.
            unsafe { state.clear(self.alloc.by_ref()) };
        }
    }
}

/// Operations until as many blocks are late as ever will be.
pub(crate) fn steady(one_in: usize) -> u64 {
    (if one_in == 0 { 2 * WINDOW } else { WINDOW * (LONGER + 2) }) as u64
}

/// Allocations that [`cell`] makes before it returns.
#[must_use]
pub fn made_beforehand(one_in: usize) -> u64 {
    WINDOW as u64 + steady(one_in)
}

/// A cell in which one block in `one_in` is late (none for zero), brought to its steady state.
pub fn cell<C: Contender>(one_in: usize, context: &Context) -> Box<dyn Cell> {
    let alloc = C::create();
    let mut state = Stragglers::fill(alloc.by_ref(), context.seed, one_in);
    // SAFETY: the window was filled the line before by the same allocator.
    unsafe { churn(alloc.by_ref(), &mut state, steady(one_in)) };
    Box::new(Straggle { state: Some(state), alloc })
}
