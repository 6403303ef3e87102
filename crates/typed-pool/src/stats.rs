//! What a pool holds and what of it is alive.

use crate::account::Booked;
use crate::heap::Heap;
use crate::unit::Place;

/// What a pool holds from its backing allocator and what of it is alive.
///
/// Gathered by walking along the units, so that next to nothing is counted for it while slots come and go. Exact at rest:
/// when no operation is in progress on another thread. A thread that is running (or was not joined) may keep the free slots of the
/// unit that it allocates from to itself: those units are counted in `unsettled_slots`, and not in `slots_live`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Units held.
    pub units: usize,
    /// Of these, units in which nothing is alive.
    pub empty_units: usize,
    /// Slots of all units.
    pub slots: usize,
    /// Slots alive.
    pub slots_live: usize,
    /// Slots of the units that other, running threads allocate from: of these only those threads know which are alive.
    pub unsettled_slots: usize,
    /// Blocks that are the backing allocator's own: too large for a unit, or aligned to too much.
    pub large_blocks: usize,
    /// Bytes of these, as they were asked for.
    pub large_bytes: usize,
    /// Bytes held from the backing allocator, as they were asked for: units and large blocks.
    pub bytes_held: usize,
    /// The limit on `bytes_held`, in bytes; `usize::MAX` for none.
    pub limit: usize,
    /// Heaps of other threads that could not be read, since another reader stood in the way for long: what they have is missing above.
    pub unread_heaps: usize,
    /// Bytes of the heaps' own words, one set for each thread that was there at the same time. They are never freed, and are not part of
    /// `bytes_held`.
    pub state_bytes: usize,
    /// Records of threads beyond the static ones. They are never freed, and are not part of `bytes_held`.
    pub extra_records: usize,
}

impl Stats {
    /// Slots and large blocks alive.
    #[must_use]
    pub fn live(&self) -> usize {
        self.slots_live + self.large_blocks
    }

    /// What an account knows, units not read yet.
    pub(crate) fn of_account(booked: Booked) -> Self {
        Self {
            large_blocks: booked.large_blocks,
            large_bytes: booked.large_bytes,
            bytes_held: booked.held,
            limit: booked.limit,
            ..Self::default()
        }
    }

    /// While others are at work what went may be seen before what came: a difference below zero is none.
    #[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
    pub(crate) fn no_less_than_none(&mut self) {
        // No process has more, unless so much is held.
        let most = self.bytes_held.max(usize::MAX / 4 * 3);
        for sum in [&mut self.large_blocks, &mut self.large_bytes] {
            if *sum > most {
                *sum = 0;
            }
        }
    }

    /// Adds the units of a heap. `owned` says whether the calling thread owns it, so that the front can be counted.
    pub(crate) fn add_heap(&mut self, heap: &Heap, owned: bool) {
        let read = heap.walk(|unit| {
            self.units += 1;
            self.slots += unit.slots();
            let out = match unit.place() {
                Place::Front if owned => unit.slots() - heap.free_in_front(),
                Place::Front => {
                    self.unsettled_slots += unit.slots();
                    return;
                }
                _ => unit.live(),
            };
            // While an owner is at work the words are read at different moments: a difference below zero is none.
            let live = out.saturating_sub(unit.unbooked());
            self.slots_live += live;
            self.empty_units += usize::from(live == 0);
        });
        self.unread_heaps += usize::from(!read);
    }
}

#[cfg(all(test, any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
mod tests {
    use super::Stats;

    #[test]
    fn below_zero_is_none_and_nearly_all_memory_is_not() {
        let negative = 0_usize.wrapping_sub(5_000);
        let mut below = Stats { large_blocks: usize::MAX, large_bytes: negative, ..Stats::default() };
        below.no_less_than_none();
        assert_eq!((below.large_blocks, below.large_bytes), (0, 0));
        let most = usize::MAX - 100_000;
        let mut nearly =
            Stats { large_blocks: 7, large_bytes: most - 9, bytes_held: most, ..Stats::default() };
        nearly.no_less_than_none();
        assert_eq!((nearly.large_blocks, nearly.large_bytes), (7, most - 9));
    }
}
