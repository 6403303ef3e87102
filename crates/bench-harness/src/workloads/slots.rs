//! S3, slots: keeps a fixed number of items live, and replaces a random one in each operation.
//! Lifetimes mix, so items are not freed in the order of their allocation.

use core::mem::MaybeUninit;

use super::draws;
use super::stock::{LiveItems, Stock};

/// The number of sizes in the table. It is not a multiple of [`PLACES`], so the two tables do not
/// repeat together.
pub(super) const SIZES: usize = 8000;
/// The number of slot indices in the table.
pub(super) const PLACES: usize = 4096;

/// The distribution of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
pub(crate) enum SizeSpread {
    /// All sizes are equal.
    Fixed(u16),
    /// The sizes are uniformly distributed from the first size to the second, inclusive.
    Uniform(u16, u16),
    /// The sizes range from the first to the second, inclusive. Their density falls with the square
    /// of the size.
    InverseSquare(u16, u16),
}

impl SizeSpread {
    /// Draws the table of sizes from `seed`.
    pub(super) fn sizes(self, seed: u64) -> Box<[u16; SIZES]> {
        match self {
            Self::Fixed(size) => Box::new([size; SIZES]),
            Self::Uniform(low, high) => draws::uniform(seed, low, high),
            Self::InverseSquare(low, high) => draws::inverse_square(seed, low, high),
        }
    }
}

struct LiveItem<I> {
    item: I,
    size: u16,
    tag: u32,
}

/// The live items, the table of the slots to replace, and the table of the new sizes.
pub(super) struct Slots<I> {
    /// Every slot has a value, except during a call of `work`. A `MaybeUninit` never drops its
    /// value, so a panic in that call leaks items but does not drop any item twice.
    slots: Box<[MaybeUninit<LiveItem<I>>]>,
    sizes: Box<[u16; SIZES]>,
    places: Box<[u16; PLACES]>,
    size_at: usize,
    /// The tag of the next item. It also selects the entry of `places` that names the item's slot.
    next_tag: u64,
}

impl<I: 'static> Slots<I> {
    /// Fills `count` slots. The first replacement reads both tables at entry `start`, which is 0 or
    /// `count`. If `start` is `count`, the items that fill the slots take the sizes before that
    /// entry. If `start` is 0, they take the sizes from the end of the table backwards.
    pub(super) fn fill<S: Stock<Item = I>>(
        stock: &mut S,
        seed: u64,
        count: u16,
        spread: SizeSpread,
        start: usize,
    ) -> Self {
        let sizes = spread.sizes(seed);
        let live = |i: usize| {
            let size = sizes[if start == 0 { SIZES - 1 - i % SIZES } else { i }];
            // SAFETY: no spread has a size of zero, and the contender was made for all slots.
            let item = unsafe { stock.take(i as u64, size) };
            MaybeUninit::new(LiveItem { item, size, tag: i as u32 })
        };
        let slots = (0..usize::from(count)).map(live).collect();
        let places = draws::places(seed, count);
        Self { slots, sizes, places, size_at: start, next_tag: start as u64 }
    }
}

impl<S: Stock> LiveItems<S> for Slots<S::Item> {
    /// Replaces the item in the slot that `places` names next, `ops` times.
    #[inline(never)]
    unsafe fn work(&mut self, stock: &mut S, ops: u64) -> u64 {
        let slots = &mut *self.slots;
        let (sizes, places) = (&*self.sizes, &*self.places);
        let mut size_at = self.size_at;
        let mut sum = 0;
        for tag in self.next_tag..self.next_tag + ops {
            let place = usize::from(places[tag as usize % PLACES]);
            // SAFETY: the indices in `places` are below the number of slots.
            let slot = unsafe { slots.get_unchecked_mut(place) };
            // SAFETY: the slot has a value, and a new value is written below.
            let LiveItem { item, size: old, tag: its } = unsafe { slot.assume_init_read() };
            // SAFETY: `stock` took the item with this tag and size.
            unsafe { stock.verify(&item, u64::from(its), old, &mut sum) };
            // SAFETY: `stock` took the item with this size, and the slot no longer has it.
            unsafe { stock.free(item, old) };
            let size = if S::SIZED { sizes[size_at] } else { 0 };
            // SAFETY: no spread has a size of zero, a stock that is not `SIZED` accepts any size,
            // and an item has just been freed.
            let item = unsafe { stock.take(tag, size) };
            slot.write(LiveItem { item, size, tag: tag as u32 });
            if S::SIZED {
                size_at = if size_at + 1 == SIZES { 0 } else { size_at + 1 };
            }
        }
        self.size_at = size_at;
        self.next_tag += ops;
        sum
    }

    unsafe fn clear(self, stock: &mut S) {
        for slot in self.slots {
            // SAFETY: every slot has a value except during `work`.
            let live = unsafe { slot.assume_init() };
            // SAFETY: `stock` took the item with this size, and nothing else has the item.
            unsafe { stock.free(live.item, live.size) };
        }
    }
}
