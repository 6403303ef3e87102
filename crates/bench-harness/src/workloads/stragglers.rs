//! S6, straggler: a FIFO window in which a few items live a hundred times as long as the others.
//!
//! This is a bad case for every ring, arena and page pool. The bytes held per live byte show how
//! much memory one straggler keeps allocated. A bounded ring can refuse requests until the
//! straggler is freed.

use core::mem::MaybeUninit;
use std::collections::VecDeque;

use super::stock::{Lasting, LiveItems, Stock};
use super::{Cell, draws};

/// The number of live items in the window, which is also the number of sizes in the table.
pub(crate) const WINDOW: usize = 4096;
/// The lifetime of a straggler, as a multiple of the lifetime of any other item.
pub(crate) const LONGER: usize = 100;
/// The smallest and the largest size, in bytes.
pub(super) const SIZES: (u16, u16) = (64, 1024);

/// A straggler that has left the window and is still live.
struct LateItem<I> {
    due: usize,
    tag: usize,
    item: I,
}

/// The window, and the live stragglers that have left it.
struct Stragglers<I> {
    /// Every slot of the window has a value, except during a call of `work`. A `MaybeUninit`
    /// never drops its value, so a panic in that call leaks items but does not drop any item twice.
    window: Box<[MaybeUninit<I>; WINDOW]>,
    sizes: Box<[u16; WINDOW]>,
    late: VecDeque<LateItem<I>>,
    /// The number of the next straggler to leave the window, or `usize::MAX` if there is none.
    next_late: usize,
    /// The number of items per straggler, or 0 if there are no stragglers.
    one_in: usize,
    next: usize,
}

/// Returns an upper bound on the number of stragglers that are live at once. One item in `one_in`
/// is a straggler, or none if `one_in` is 0.
pub(super) fn most_late(one_in: usize) -> usize {
    (WINDOW * LONGER).checked_div(one_in).map_or(0, |late| late + 2)
}

impl<I: 'static> Stragglers<I> {
    fn fill<S: Stock<Item = I>>(stock: &mut S, seed: u64, one_in: usize) -> Self {
        let sizes = draws::uniform::<WINDOW>(seed, SIZES.0, SIZES.1);
        // SAFETY: no size is zero, and the contender was made for at least a window of live items.
        let take = |i: usize| MaybeUninit::new(unsafe { stock.take(i as u64, sizes[i]) });
        let window: Box<[_]> = (0..WINDOW).map(take).collect();
        let window = window.try_into().unwrap_or_else(|_| unreachable!("it has this length"));
        // The list has room for all live stragglers, so `work` never grows it.
        let late = VecDeque::with_capacity(most_late(one_in));
        let next_late = if one_in == 0 { usize::MAX } else { one_in - 1 };
        Self { window, sizes, late, next_late, one_in, next: WINDOW }
    }
}

impl<S: Stock> LiveItems<S> for Stragglers<S::Item> {
    /// Moves the window forward by `ops` items.
    #[inline(never)]
    unsafe fn work(&mut self, stock: &mut S, ops: u64) -> u64 {
        let mut sum = 0;
        for _ in 0..ops {
            let i = self.next;
            let oldest = i - WINDOW;
            let place = i & (WINDOW - 1);
            // The table of sizes is as long as the window, so the oldest item and its replacement
            // have the same size.
            let size = self.sizes[place];
            // SAFETY: the slot has a value, and a new value is written below.
            let item = unsafe { self.window[place].assume_init_read() };
            if oldest == self.next_late {
                self.next_late += self.one_in;
                self.late.push_back(LateItem { due: i + WINDOW * (LONGER - 1), tag: oldest, item });
            } else {
                // SAFETY: `stock` took the item with this tag and size.
                unsafe { stock.verify(&item, oldest as u64, size, &mut sum) };
                // SAFETY: `stock` took the item with this size, and its slot no longer has it.
                unsafe { stock.free(item, size) };
            }
            if self.late.front().is_some_and(|late| late.due <= i)
                && let Some(LateItem { tag, item, .. }) = self.late.pop_front()
            {
                let size = self.sizes[tag & (WINDOW - 1)];
                // SAFETY: `stock` took the item with this tag and size.
                unsafe { stock.verify(&item, tag as u64, size, &mut sum) };
                // SAFETY: `stock` took the item with this size, and the list no longer has it.
                unsafe { stock.free(item, size) };
            }
            // SAFETY: no size is zero, and the contender was made for a window and the stragglers.
            let item = unsafe { stock.take(i as u64, size) };
            self.window[place] = MaybeUninit::new(item);
            self.next = i + 1;
        }
        sum
    }

    unsafe fn clear(self, stock: &mut S) {
        for (slot, &size) in self.window.iter().zip(self.sizes.iter()) {
            // SAFETY: every slot has a value except during `work`, and nothing reads the slot
            // again.
            let item = unsafe { slot.assume_init_read() };
            // SAFETY: `stock` took the item. The table has one size for each slot of the window, so
            // this is the item's size.
            unsafe { stock.free(item, size) };
        }
        for late in self.late {
            // SAFETY: `stock` took the item with this size, and it is no longer in the window.
            unsafe { stock.free(late.item, self.sizes[late.tag % WINDOW]) };
        }
    }
}

/// Builds a cell whose window is full and in its steady state. One item in `one_in` is a straggler,
/// or none if `one_in` is 0.
pub(super) fn cell<S: Stock + 'static>(stock: S, seed: u64, one_in: usize) -> Box<dyn Cell> {
    let mut cell = Lasting::new(stock, |stock| Stragglers::fill(stock, seed, one_in));
    let until_steady = if one_in == 0 { 2 * WINDOW } else { WINDOW * (LONGER + 2) };
    cell.run(until_steady as u64);
    Box::new(cell)
}
