//! Keeps the shards of a store in segments. Each segment is twice as large as the one before, and
//! never moves. A thread finds its shard with two loads, even while other threads add their shards.

use core::alloc::Layout;
use core::ptr;

use ephemera_prim::sync::{AtomicPtr, Ordering};
use ephemera_prim::witness::Witness;
use ephemera_prim::word::OwnerPtr;

use crate::account::StoreAccount;
use crate::error::{RefusalCause, Refused};
use crate::shard::{Shard, ShardPtr};

/// The number of shards in the first segment.
const FIRST: usize = if cfg!(ephemera_loom) { 3 } else { 8 };

/// The number of segments: enough for more shards than any system has threads.
const SEGMENTS: usize = if cfg!(ephemera_loom) { 1 } else { 32 };

/// The position of a record's shard in every store: the number of the segment, and the index of the
/// cell in that segment. No record has cell 0 of segment 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seat {
    pub(crate) segment: usize,
    pub(crate) at: usize,
}

impl Seat {
    /// Returns the seat with this number.
    pub(crate) const fn numbered(number: usize) -> Self {
        let segment = (number / FIRST + 1).ilog2() as usize;
        Self { segment, at: number - FIRST * ((1 << segment) - 1) }
    }

    /// The seat that no record has.
    pub(crate) const NOBODYS: Self = Self { segment: 0, at: 0 };
}

/// A cell of a segment: the pointer to one shard, or null.
#[derive(Debug)]
pub(super) struct SegmentCell {
    pub(super) shard: OwnerPtr<Shard>,
    witness: Witness,
}

impl SegmentCell {
    fn new() -> Self {
        let this = Self { shard: OwnerPtr::null(), witness: Witness::new() };
        this.witness.write();
        this
    }
}

/// The segments of a store. They live as long as the store.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct Segments([AtomicPtr<SegmentCell>; SEGMENTS]);

impl Segments {
    /// Creates an array without segments.
    pub(super) fn none() -> Self {
        Self(core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())))
    }

    /// Returns the shard in this seat, if there is one. Only the thread that has the seat may call
    /// this.
    #[inline]
    pub(super) fn shard(&self, seat: Seat) -> Option<ShardPtr> {
        // ORDERING: `see_order`. Pairs with the Release in `StoreAccount::publish_array`.
        let segment = self.0[seat.segment % SEGMENTS].load(see_order());
        if segment.is_null() {
            return None;
        }
        // SAFETY: this thread sees the published segment, `seat.at` is within its bounds, and the
        // cell is used only in this call.
        let cell = unsafe { cell(segment, seat.at) };
        // SAFETY: shards live as long as the store (S1).
        unsafe { ShardPtr::from_raw(cell.shard.get()) }
    }

    /// Returns the cell of this seat. Makes its segment first if there is none.
    ///
    /// # Errors
    /// Returns [`Refused`] if no segment has this seat, or if the limit or the global allocator
    /// refuses the memory for the segment.
    pub(super) fn make_cell(&self, account: &StoreAccount, seat: Seat) -> Result<&SegmentCell, Refused> {
        if seat == Seat::NOBODYS || seat.segment >= SEGMENTS {
            return Err(account.refused(usize::MAX, RefusalCause::AddressSpace));
        }
        let head = &self.0[seat.segment];
        // ORDERING: `see_order`. Pairs with the Release in `StoreAccount::publish_array`.
        let mut segment = head.load(see_order());
        if segment.is_null() {
            let (cells, orders) = (FIRST << seat.segment, (publish_order(), see_order()));
            segment = account.publish_array(head, cells, SegmentCell::new, orders)?;
        }
        // SAFETY: this thread sees the published segment, and `seat.at` is within its bounds. The
        // result borrows the segments.
        Ok(unsafe { cell(segment, seat.at) })
    }

    /// Returns the cells of a segment, or none if this thread does not see the segment.
    fn cells(&self, number: usize) -> impl Iterator<Item = &SegmentCell> {
        // ORDERING: `see_order`. Pairs with the Release in `StoreAccount::publish_array`.
        let segment = self.0[number].load(see_order());
        let cells = if segment.is_null() { 0 } else { FIRST << number };
        // SAFETY: this thread sees the published segment, which has `FIRST << number` cells. The
        // iterator borrows the segments, so the store is live.
        (0..cells).map(move |at| unsafe { cell(segment, at) })
    }

    /// Returns all shards that this thread sees.
    pub(super) fn shards(&self) -> impl Iterator<Item = ShardPtr> {
        let cells = (0..SEGMENTS).flat_map(|number| self.cells(number));
        // SAFETY: shards live as long as the store (S1).
        cells.filter_map(|cell| unsafe { ShardPtr::from_raw(cell.shard.observe()) })
    }

    /// Frees all shards and segments.
    ///
    /// # Safety
    /// No other thread uses the store again, no shard has a group, and `account` is the store's.
    pub(super) unsafe fn release(&self, account: &StoreAccount) {
        for shard in self.shards() {
            // SAFETY: the shard was acquired with this layout, and no code uses it.
            unsafe { account.release(shard.as_non_null().cast(), Layout::new::<Shard>()) };
        }
        for (number, segment) in self.0.iter().enumerate() {
            if cfg!(ephemera_loom) {
                self.cells(number).for_each(|cell| cell.witness.end());
            }
            // SAFETY: each segment was published with this number of cells, and no code uses it.
            unsafe { account.release_array(segment, FIRST << number) };
        }
    }
}

/// Returns the cell `at` of a segment.
///
/// # Safety
/// This thread made the segment or sees it published, and the segment has more than `at` cells. The
/// result is not used after the store is freed.
#[inline]
unsafe fn cell<'s>(segment: *mut SegmentCell, at: usize) -> &'s SegmentCell {
    // SAFETY: the caller guarantees that the segment has more than `at` cells.
    let cell = unsafe { segment.add(at) };
    // SAFETY: the cell was initialised with the segment, and no code borrows it mutably.
    let cell = unsafe { &*cell };
    cell.witness.touch();
    cell
}

// ORDERING: Release. Pairs with the Acquire in `Segments::shard`, `Segments::make_cell`,
// `Segments::cells` and, if it finds a segment, in `StoreAccount::publish_array`. Publishes: the
// initialised segment.
ordering!(publish_order = Release, Relaxed if "segment_publish_relaxed");
// ORDERING: Acquire. Pairs with the Release in `StoreAccount::publish_array`.
ordering!(see_order = Acquire, Relaxed if "segment_see_relaxed");

#[cfg(test)]
mod tests {
    use super::{FIRST, Seat};

    #[test]
    fn seats_follow_each_other_through_the_segments() {
        assert_eq!(Seat::numbered(0), Seat::NOBODYS);
        let mut expected = Seat::NOBODYS;
        for number in 0..1_000 {
            assert_eq!(Seat::numbered(number), expected);
            expected.at += 1;
            if expected.at == FIRST << expected.segment {
                expected = Seat { segment: expected.segment + 1, at: 0 };
            }
        }
    }
}
