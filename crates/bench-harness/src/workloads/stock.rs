//! The interface between the generic workloads (slots, stragglers) and the classes of contenders.
//!
//! A [`Stock`] hands out items of one class: blocks, objects or buffers. A workload that is the
//! same for all classes is written once over it.

/// A contender as a generic workload uses it.
///
/// Each item has a tag, which is written into it, and a size. Objects have one size and ignore it.
pub(super) trait Stock {
    /// Whether items differ in size. If not, a workload reads no table of sizes.
    const SIZED: bool;

    /// The value that a workload keeps for an item: a pointer, a handle or a buffer.
    type Item: 'static;

    /// Takes an item from the contender and writes `tag` into it.
    ///
    /// # Safety
    ///
    /// `size` is not zero. With the new item, no more is live than the contender was made for.
    unsafe fn take(&mut self, tag: u64, size: u16) -> Self::Item;

    /// In a check run, compares an item with its tag and folds it into `sum`.
    ///
    /// # Safety
    ///
    /// This stock returned the item for this tag and size, and it is live.
    unsafe fn verify(&self, item: &Self::Item, tag: u64, size: u16, sum: &mut u64);

    /// Frees an item.
    ///
    /// # Safety
    ///
    /// This stock returned the item for this size.
    unsafe fn free(&mut self, item: Self::Item, size: u16);

    /// Returns the number of requests that the contender refused so far and the heap served.
    fn refused(&self) -> u64 {
        0
    }
}
