//! `Stats`: the bytes that a pool holds, and the slots that are live.

use core::fmt;

use ephemera_prim::account::Booked;
use ephemera_prim::summary;

use crate::heap::UnitHeap;
use crate::unit::{UnitPtr, UnitState};

/// The memory that a pool holds from its backing allocator, and the part of it that is live.
///
/// Allocations and frees of slots do not update counters for statistics. Instead, the thread that
/// asks for statistics walks all units. While no other thread operates on the pool, the result is
/// exact except for the slots that `unsettled_slots` counts. A running thread does not publish
/// which slots of its front (the unit that it allocates from) are live. Nor does it publish whether
/// it keeps a freed slot of another unit for its next allocation. These slots do not count in
/// `slots_live`.
///
/// # Examples
///
/// ```
/// use typed_pool::TypedPool;
///
/// let pool = TypedPool::new();
/// let boxed = pool.alloc([0_u8; 96]);
/// let stats = pool.stats();
/// assert_eq!((stats.units, stats.slots_live, stats.bytes_live), (1, 1, 96));
/// assert!(stats.to_string().ends_with("KiB held, 96 B live"));
/// assert!(stats.is_complete() && stats.overhead() < stats.bytes_held);
/// drop(boxed);
/// assert_eq!(pool.stats().empty_units, 1);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The number of units that the pool holds.
    pub units: usize,
    /// The number of held units without a live slot, including units that an ended scope left for
    /// the next scope.
    pub empty_units: usize,
    /// The number of empty units whose pages other threads returned to the operating system,
    /// because the owner was idle. An owner is idle if it has taken no slow path for 100 ms, or if
    /// other threads have freed more than 4 MiB of its memory (more after repeated bursts) since
    /// its last slow path. The pages with the headers stay resident. Purged units still count in
    /// `bytes_held` and `empty_units`. A unit no longer counts here after its owner has booked all
    /// of the unit's remote frees or allocated from the unit.
    pub purged_units: usize,
    /// The number of slots of all units, live or free.
    pub slots: usize,
    /// The number of live slots, except for the slots that `unsettled_slots` counts.
    pub slots_live: usize,
    /// The number of slots of which only another running thread knows whether they are live. These
    /// are all slots of that thread's fronts, and one slot for each of its heaps that may keep a
    /// freed slot.
    pub unsettled_slots: usize,
    /// The number of live blocks whose size or alignment is too large for a unit, and which
    /// therefore come directly from the backing allocator.
    pub large_blocks: usize,
    /// The requested bytes of the blocks that `large_blocks` counts.
    pub large_bytes: usize,
    /// Bytes held from the backing allocator: the requested sizes of units and large blocks.
    pub bytes_held: usize,
    /// Bytes in use by the program: the strides of live slots, and `large_bytes`.
    pub bytes_live: usize,
    /// The limit on `bytes_held`, or `usize::MAX` for no limit.
    pub limit: usize,
    /// The number of heaps of other threads that this call could not read completely, because
    /// another reader blocked the walk for too long, or because the heap changed too fast. The
    /// other fields may omit units of these heaps.
    pub unread_heaps: usize,
    /// Bytes of the heaps' own state. Each thread that uses the pool has one set of heaps, and each
    /// thread in a scope has another. Later threads and scopes take these heaps over. This memory
    /// is never freed and is not part of `bytes_held`.
    pub state_bytes: usize,
    /// The number of thread records that were allocated because all static records were in use. A
    /// record is the state of one thread for all of its pools. These records are never freed and
    /// are not part of `bytes_held`.
    pub extra_records: usize,
}

/// Displays `bytes_held` and `bytes_live`, and the limit if there is one.
impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        summary::write(f, self.bytes_held, self.bytes_live, self.limit)
    }
}

impl Stats {
    /// Returns the number of live slots and live large blocks.
    #[must_use]
    pub fn live(&self) -> usize {
        self.slots_live + self.large_blocks
    }

    /// Returns the bytes that are held and not in use by the program.
    #[must_use]
    pub fn overhead(&self) -> usize {
        self.bytes_held.saturating_sub(self.bytes_live)
    }

    /// Returns whether the call read all units, that is, whether `unread_heaps` is zero.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.unread_heaps == 0
    }

    /// Adds `large_bytes` to `bytes_live`, after all heaps were added.
    pub(crate) fn add_large(&mut self) {
        self.bytes_live = self.bytes_live.saturating_add(self.large_bytes);
    }

    /// Creates statistics from an account, before the units are read.
    pub(crate) fn of_account(booked: Booked) -> Self {
        Self {
            large_blocks: booked.large_blocks,
            large_bytes: booked.large_bytes,
            bytes_held: booked.held,
            limit: booked.limit,
            ..Self::default()
        }
    }

    /// Sets each of `large_blocks` and `large_bytes` to zero if it wrapped below zero. Such a sum
    /// can occur while other threads allocate and free, because this thread may see the free of a
    /// block before its allocation.
    pub(crate) fn clear_negative_sums(&mut self) {
        // A sum above `most` is a negative one that wrapped around.
        let most = self.bytes_held.max(usize::MAX / 4 * 3);
        for sum in [&mut self.large_blocks, &mut self.large_bytes] {
            if *sum > most {
                *sum = 0;
            }
        }
    }

    /// Adds the units of a heap. `owned` says whether the calling thread owns the heap and may
    /// therefore count the slots of the front. `waiting` returns how many freed slots of a unit
    /// wait in bundles.
    pub(crate) fn add_heap(&mut self, heap: &UnitHeap, owned: bool, waiting: impl Fn(UnitPtr) -> usize) {
        let guest = if owned { heap.guest() } else { None };
        let before = self.slots_live;
        let read = heap.walk(|unit| {
            self.units += 1;
            self.slots += unit.slots();
            let out = match unit.state() {
                UnitState::Front if owned => heap.live_in_front(),
                UnitState::Front => {
                    self.unsettled_slots += unit.slots();
                    return;
                }
                _ => unit.live() - usize::from(guest.is_some_and(|guest| heap.is_in(unit, guest))),
            };
            // The owner may change these words between the reads, so a negative difference counts
            // as 0.
            let live = out.saturating_sub(unit.unbooked() + waiting(unit));
            self.slots_live += live;
            self.bytes_live += live * heap.spec().stride;
            self.empty_units += usize::from(live == 0);
            self.purged_units += usize::from(unit.claim().is_purged());
        });
        let may_have_guest = heap.is_hosting() && !weakened!("guests_of_others_are_live");
        if !owned && may_have_guest && self.slots_live > before {
            // Only the heap's owner knows whether one of these units has a guest.
            self.unsettled_slots += 1;
            self.slots_live -= 1;
            self.bytes_live -= heap.spec().stride;
        }
        self.unread_heaps += usize::from(!read);
    }
}

#[cfg(test)]
mod tests {
    use super::Stats;

    #[test]
    fn negative_sums_become_zero_and_huge_sums_do_not() {
        let negative = 0_usize.wrapping_sub(5_000);
        let mut below = Stats { large_blocks: usize::MAX, large_bytes: negative, ..Stats::default() };
        below.clear_negative_sums();
        assert_eq!((below.large_blocks, below.large_bytes), (0, 0));
        let most = usize::MAX - 100_000;
        let mut nearly =
            Stats { large_blocks: 7, large_bytes: most - 9, bytes_held: most, ..Stats::default() };
        nearly.clear_negative_sums();
        assert_eq!((nearly.large_blocks, nearly.large_bytes), (7, most - 9));
    }
}
