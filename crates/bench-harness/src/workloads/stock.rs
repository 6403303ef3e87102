//! The interface between the generic workloads (slots, stragglers) and the classes of contenders.
//!
//! A [`Stock`] hands out items of one class: blocks, objects or buffers. A workload that is the
//! same for all classes is written once, over this trait.

use super::Cell;

/// A contender as a generic workload uses it.
///
/// Each item has a tag, which is written into it, and a size. Objects have a fixed size, so their
/// stock ignores the parameter `size`.
pub(super) trait Stock {
    /// Whether items differ in size. If not, the slots workload does not read its table of sizes.
    const SIZED: bool;

    /// The value that a workload keeps for an item: a pointer, a handle or a buffer.
    type Item: 'static;

    /// Takes an item from the contender and writes `tag` into it.
    ///
    /// # Safety
    ///
    /// If [`SIZED`](Self::SIZED) is `true`, `size` must not be zero. Including the new item, the
    /// number of live items must not exceed the number that the contender was made for.
    unsafe fn take(&mut self, tag: u64, size: u16) -> Self::Item;

    /// In a counted run, compares the contents of an item with its tag, and folds them into `sum`.
    ///
    /// # Safety
    ///
    /// This stock must have returned the item for this tag and size, and the item must be live.
    unsafe fn verify(&self, item: &Self::Item, tag: u64, size: u16, sum: &mut u64);

    /// Frees an item.
    ///
    /// # Safety
    ///
    /// This stock must have returned the item for this size.
    unsafe fn free(&mut self, item: Self::Item, size: u16);
}

/// Items that live from one sample to the next.
pub(super) trait LiveItems<S: Stock> {
    /// Performs `ops` operations. In a counted run, returns a checksum of all items that it
    /// verified.
    ///
    /// # Safety
    ///
    /// `stock` must have made the items. After a panic they must not be used again.
    unsafe fn work(&mut self, stock: &mut S, ops: u64) -> u64;

    /// Frees all items.
    ///
    /// # Safety
    ///
    /// `stock` must have made the items.
    unsafe fn clear(self, stock: &mut S);
}

/// A cell that consists of a contender and items from it. Dropping the cell frees the items.
pub(super) struct Lasting<S: Stock, L: LiveItems<S>> {
    items: Option<L>,
    stock: S,
}

impl<S: Stock, L: LiveItems<S>> Lasting<S, L> {
    /// Creates a cell whose items `fill` takes from the stock.
    pub(super) fn new(mut stock: S, fill: impl FnOnce(&mut S) -> L) -> Self {
        Self { items: Some(fill(&mut stock)), stock }
    }
}

impl<S: Stock, L: LiveItems<S>> Cell for Lasting<S, L> {
    fn run(&mut self, units: u64) -> u64 {
        // If `work` panics, the cell stays empty, so its drop does not clear items that `work` left
        // half updated.
        let Some(mut items) = self.items.take() else { return 0 };
        // SAFETY: this cell's stock made the items, and after a panic the cell has none.
        let sum = unsafe { items.work(&mut self.stock, units) };
        self.items = Some(items);
        sum
    }
}

impl<S: Stock, L: LiveItems<S>> Drop for Lasting<S, L> {
    fn drop(&mut self) {
        if let Some(items) = self.items.take() {
            // SAFETY: this cell's stock made the items.
            unsafe { items.clear(&mut self.stock) };
        }
    }
}
