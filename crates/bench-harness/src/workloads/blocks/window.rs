//! W, window: keeps a fixed number of blocks live, and frees the oldest before each allocation.
//! This is the best case of a ring.

use core::ptr::null_mut;

use super::{BlockStock, layout, touch, verify};
use crate::blocks::{Contender, RawAlloc};
use crate::workloads::stock::{Lasting, LiveItems};
use crate::workloads::{Cell, Context, by_const, draws};

/// The number of sizes in the table, a multiple of the length of every window.
const TABLE: usize = 4096;

/// A window of `W` live blocks. `W` is a power of two.
struct Window<const W: usize> {
    slots: Box<[*mut u8; W]>,
    sizes: Box<[u16; TABLE]>,
    next: usize,
}

impl<const W: usize> Window<W> {
    const VALID: () = assert!(
        W.is_power_of_two() && W <= TABLE,
        "indices are masked, so the table of sizes repeats with the window"
    );

    /// Allocates the first `W` blocks, with sizes uniform from 8 to `high`.
    fn fill<R: RawAlloc + Copy>(alloc: R, seed: u64, high: u16) -> Self {
        const { Self::VALID };
        let sizes = draws::uniform::<TABLE>(seed, 8, high);
        let mut slots = Box::new([null_mut(); W]);
        for (i, slot) in slots.iter_mut().enumerate() {
            let size = usize::from(sizes[i]);
            // SAFETY: sizes start at eight.
            *slot = unsafe { alloc.alloc(layout(size, 8)) };
            // SAFETY: the block has this size, and only this window uses it.
            unsafe { touch(*slot, size, i as u8) };
        }
        Self { slots, sizes, next: W }
    }
}

impl<C: Contender, const W: usize> LiveItems<BlockStock<C>> for Window<W> {
    /// Replaces the oldest block of the window, `ops` times.
    #[inline(never)]
    unsafe fn work(&mut self, stock: &mut BlockStock<C>, ops: u64) -> u64 {
        let alloc = stock.0.by_ref();
        let slots = &mut *self.slots;
        let sizes = &*self.sizes;
        let mut i = self.next;
        let mut sum = 0;
        for _ in 0..ops {
            let slot = &mut slots[i & (W - 1)];
            let old = usize::from(sizes[i.wrapping_sub(W) & (TABLE - 1)]);
            // SAFETY: the block in the slot was allocated and touched `W` operations ago.
            unsafe { verify::<C::Ref<'_>>(*slot, old, i.wrapping_sub(W) as u8, &mut sum) };
            // SAFETY: this allocator returned the block for this layout, and the slot is
            // overwritten below.
            unsafe { alloc.dealloc(*slot, layout(old, 8)) };
            let size = usize::from(sizes[i & (TABLE - 1)]);
            // SAFETY: sizes start at eight.
            let block = unsafe { alloc.alloc(layout(size, 8)) };
            // SAFETY: the block has this size, and only this window uses it.
            unsafe { touch(block, size, i as u8) };
            *slot = block;
            i = i.wrapping_add(1);
        }
        self.next = i;
        sum
    }

    unsafe fn clear(self, stock: &mut BlockStock<C>) {
        for i in self.next - W..self.next {
            let size = usize::from(self.sizes[i % TABLE]);
            // SAFETY: the block is live, this allocator returned it for this layout, and the window
            // is dropped here.
            unsafe { stock.0.by_ref().dealloc(self.slots[i % W], layout(size, 8)) };
        }
    }
}

fn boxed<C: Contender, const W: usize>(context: &Context, high: u16) -> Box<dyn Cell> {
    let fill = |stock: &mut BlockStock<C>| Window::<W>::fill(stock.0.by_ref(), context.seed, high);
    Box::new(Lasting::new(BlockStock(C::create()), fill))
}

/// Builds a cell of 16 or 1,024 live blocks with sizes up to `high`.
///
/// # Panics
///
/// Panics for any other number of blocks.
pub(crate) fn cell<C: Contender>(blocks: usize, high: u16, context: &Context) -> Box<dyn Cell> {
    by_const!(blocks, [16, 1024], W => boxed::<C, W>(context, high))
}
