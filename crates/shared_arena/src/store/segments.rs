//! Keeps the shards of a store in segments. Each segment is twice as large as the one before, and
//! never moves. A thread finds its shard with two loads, even while other threads add their shards.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

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
struct SegmentCell {
    shard: OwnerPtr<Shard>,
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

    /// Returns the shard in this seat. If there is none, makes one for `store` and `record`.
    ///
    /// # Safety
    /// The caller has the seat: it holds the record, or it is the pool's only thread. `account` and
    /// these segments belong to `store`.
    pub(super) unsafe fn make_shard(
        &self,
        account: &StoreAccount,
        seat: Seat,
        record: *const (),
        store: *const (),
    ) -> Result<ShardPtr, Refused> {
        if let Some(shard) = self.shard(seat) {
            return Ok(shard);
        }
        if seat == Seat::NOBODYS || seat.segment >= SEGMENTS {
            return Err(account.refused(usize::MAX, RefusalCause::AddressSpace));
        }
        let segment = self.make_segment(account, seat.segment)?;
        let layout = Layout::new::<Shard>();
        let shard = account.acquire(layout)?.cast::<Shard>();
        // The global allocator can itself use this arena, so the call above may have made the
        // shard.
        if let Some(there) = self.shard(seat) {
            // SAFETY: the memory was just acquired with this layout, and no other code has seen it.
            unsafe { account.release(shard.cast(), layout) };
            return Ok(there);
        }
        // SAFETY: the fresh memory has this layout.
        unsafe { shard.write(Shard::new(record, store)) };
        // SAFETY: this thread sees the published segment, `seat.at` is within its bounds, and the
        // cell is used only in this call.
        let cell = unsafe { cell(segment, seat.at) };
        cell.shard.publish(shard.as_ptr());
        self.shard(seat).ok_or_else(|| account.refused(0, RefusalCause::GlobalAllocator))
    }

    fn make_segment(&self, account: &StoreAccount, number: usize) -> Result<*mut SegmentCell, Refused> {
        let head = &self.0[number];
        // ORDERING: `see_order`. Pairs with the Release in `StoreAccount::publish_array`.
        let there = head.load(see_order());
        if !there.is_null() {
            return Ok(there);
        }
        account.publish_array(head, FIRST << number, SegmentCell::new, (publish_order(), see_order()))
    }

    /// Returns all shards that this thread sees.
    pub(super) fn shards(&self) -> impl Iterator<Item = ShardPtr> {
        let cells = self.0.iter().enumerate().flat_map(|(number, segment)| {
            // ORDERING: `see_order`. Pairs with the Release in `StoreAccount::publish_array`.
            let segment = segment.load(see_order());
            let cells = if segment.is_null() { 0 } else { FIRST << number };
            // SAFETY: the segment was published and has `FIRST << number` cells. The iterator
            // borrows the segments, so the store is live.
            (0..cells).map(move |at| unsafe { cell(segment, at) })
        });
        // SAFETY: shards live as long as the store (S1).
        cells.filter_map(|cell| unsafe { ShardPtr::from_raw(cell.shard.observe()) })
    }

    /// Tells loom that this thread is about to free the cells of this segment.
    fn end_cells(&self, number: usize) {
        let segment = self.0[number].load(Ordering::Relaxed);
        let cells = if segment.is_null() { 0 } else { FIRST << number };
        for at in 0..cells {
            // SAFETY: the segment was published, and has `FIRST << number` cells.
            unsafe { cell(segment, at) }.witness.end();
        }
    }

    /// Frees all shards and segments.
    ///
    /// # Safety
    /// No other thread uses the store again, no shard has a group, and `account` is the store's.
    pub(super) unsafe fn release(&self, account: &StoreAccount) {
        for shard in self.shards() {
            if let Some(memory) = NonNull::new(shard.as_ptr()) {
                // SAFETY: the shard was acquired with this layout, and no code uses it.
                unsafe { account.release(memory.cast(), Layout::new::<Shard>()) };
            }
        }
        for (number, segment) in self.0.iter().enumerate() {
            let segment = NonNull::new(segment.load(Ordering::Relaxed));
            if cfg!(ephemera_loom) {
                self.end_cells(number);
            }
            if let (Some(segment), Some(layout)) = (segment, segment_layout(number)) {
                // SAFETY: the segment was acquired with this layout, and no code uses it.
                unsafe { account.release(segment.cast(), layout) };
            }
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

fn segment_layout(number: usize) -> Option<Layout> {
    let cells = FIRST.checked_shl(u32::try_from(number).ok()?)?;
    Layout::array::<SegmentCell>(cells).ok()
}

// ORDERING: Release. Pairs with the Acquire in `Segments::shard`, `Segments::make_segment`,
// `Segments::shards` and, if it finds a segment, in `StoreAccount::publish_array`. Publishes: the
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
