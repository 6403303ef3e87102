//! S4, pareto: draws a slot, and empties it if it holds a block, or fills it otherwise. Every byte
//! is written and read. A fifth of the slots gets four fifths of the draws. A fifth of those slots
//! gets four fifths of these draws, and so on for six levels. Blocks in a few slots are therefore
//! short-lived, while most of the initial blocks stay live until the end.

use core::ptr::null_mut;

use rand::RngExt;
use rand::seq::SliceRandom;

use super::{BlockStock, layout};
use crate::blocks::{Contender, RawAlloc};
use crate::tally;
use crate::workloads::draws::{self, SplitMix64, stream};
use crate::workloads::stock::{Lasting, LiveItems};
use crate::workloads::{Cell, Context, mix};

/// The number of slots, half of which hold a block at the start.
const SLOTS: usize = 1 << 18;
/// The number of slot indices in the table.
const PLACES: usize = 1 << 17;
/// The number of sizes in the table. It does not divide [`PLACES`], so the two tables do not repeat
/// together.
const SIZES: usize = 8000;
/// The size of the largest block, in bytes.
const LARGEST: u16 = 1024;
/// The number of nested levels. A level contains a fifth of the slots of the level around it.
const LEVELS: u32 = 6;

#[derive(Clone, Copy)]
struct ParetoSlot {
    /// The block in the slot, or null if the slot is empty.
    block: *mut u8,
    size: u16,
    tag: u8,
}

/// The slots, the table of the slots to draw, and the table of the sizes of new blocks.
struct ParetoSlots {
    slots: Box<[ParetoSlot]>,
    places: Box<[u32]>,
    sizes: Box<[u16; SIZES]>,
    place_at: usize,
    size_at: usize,
}

/// Draws a slot. With a probability of four fifths, the slot is in the first fifth of the slots,
/// where the draw continues in the same way.
fn draw(rng: &mut SplitMix64) -> u32 {
    let (mut from, mut count) = (0.0, SLOTS as f64);
    for _ in 0..LEVELS {
        let fifth = count / 5.0;
        if rng.random_range(0..5_u64) == 0 {
            // The slot is not in the first fifth: the draw is uniform among the other slots of this
            // level.
            from += fifth;
            count -= fifth;
            break;
        }
        count = fifth;
    }
    (from + rng.random::<f64>() * count) as u32
}

impl ParetoSlots {
    /// Creates the slots and tables, and fills every other slot.
    fn fill<R: RawAlloc + Copy>(alloc: R, seed: u64) -> Self {
        let mut rng = stream(seed, 11);
        let mut order: Vec<u32> = (0..SLOTS as u32).collect();
        // The shuffle scatters the slots that are drawn often, as in a program.
        order.shuffle(&mut rng);
        let places = (0..PLACES).map(|_| order[draw(&mut rng) as usize]).collect();
        let slots = vec![ParetoSlot { block: null_mut(), size: 0, tag: 0 }; SLOTS].into();
        let sizes = draws::geometric::<SIZES>(seed, LARGEST);
        let mut filled = Self { slots, places, sizes, place_at: 0, size_at: 0 };
        for at in (0..SLOTS).step_by(2) {
            let size = filled.next_size();
            // SAFETY: no size of the table is zero.
            filled.slots[at] = unsafe { fresh(alloc, size, at as u8) };
        }
        filled
    }

    #[inline(always)]
    fn next_size(&mut self) -> u16 {
        let size = self.sizes[self.size_at];
        self.size_at = if self.size_at + 1 == SIZES { 0 } else { self.size_at + 1 };
        size
    }
}

impl<C: Contender> LiveItems<BlockStock<C>> for ParetoSlots {
    /// Draws `ops` slots, and fills or empties each. Returns a checksum of the bytes of the freed
    /// blocks.
    #[inline(never)]
    unsafe fn work(&mut self, stock: &mut BlockStock<C>, ops: u64) -> u64 {
        let alloc = stock.0.by_ref();
        let mut sum = 0_u64;
        for i in 0..ops {
            let place = self.places[self.place_at] as usize;
            self.place_at = (self.place_at + 1) % PLACES;
            let slot = self.slots[place];
            if slot.block.is_null() {
                let size = self.next_size();
                // SAFETY: no size of the table is zero.
                self.slots[place] = unsafe { fresh(alloc, size, i as u8) };
                continue;
            }
            // SAFETY: the block has this size, every byte was written, and only this slot uses it.
            let bytes = unsafe { core::slice::from_raw_parts(slot.block, usize::from(slot.size)) };
            let read: u64 = bytes.iter().map(|&byte| u64::from(byte)).sum();
            if C::Ref::<'_>::CHECKED && read != u64::from(slot.size) * u64::from(slot.tag) {
                tally::damaged();
            }
            sum = mix(sum, read);
            self.slots[place].block = null_mut();
            // SAFETY: this allocator returned the block for this layout, and the slot is empty now.
            unsafe { alloc.dealloc(slot.block, layout(usize::from(slot.size), 8)) };
        }
        sum
    }

    unsafe fn clear(self, stock: &mut BlockStock<C>) {
        for slot in self.slots.iter().filter(|slot| !slot.block.is_null()) {
            // SAFETY: the block is live, this allocator returned it for this layout, and the slots
            // are dropped here.
            unsafe { stock.0.by_ref().dealloc(slot.block, layout(usize::from(slot.size), 8)) };
        }
    }
}

/// Allocates a block and writes every byte.
///
/// # Safety
///
/// The size must be above zero.
#[inline(always)]
unsafe fn fresh<R: RawAlloc + Copy>(alloc: R, size: u16, tag: u8) -> ParetoSlot {
    // SAFETY: the caller passes a size above zero.
    let block = unsafe { alloc.alloc(layout(usize::from(size), 8)) };
    // SAFETY: the block has this size, and only this slot uses it.
    unsafe { block.write_bytes(tag, usize::from(size)) };
    ParetoSlot { block, size, tag }
}

/// Builds a cell of 2^18 slots, half of them filled.
pub(crate) fn cell<C: Contender>(context: &Context) -> Box<dyn Cell> {
    let fill = |stock: &mut BlockStock<C>| ParetoSlots::fill(stock.0.by_ref(), context.seed);
    Box::new(Lasting::new(BlockStock(C::create()), fill))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_fifths_of_the_draws_fall_to_one_fifth_of_the_slots() {
        let mut rng = stream(7, 0);
        let draws: Vec<u32> = (0..100_000).map(|_| draw(&mut rng)).collect();
        assert!(draws.iter().all(|&slot| (slot as usize) < SLOTS));
        let mut bound = SLOTS as f64;
        let mut share = 1.0;
        for _ in 0..LEVELS {
            (bound, share) = (bound / 5.0, share * 0.8);
            let below = draws.iter().filter(|&&slot| f64::from(slot) < bound).count() as f64 / 1e5;
            assert!((below - share).abs() < 0.01, "{below} of the draws below {bound}, not {share}");
        }
    }
}
