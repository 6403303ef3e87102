//! The front of a heap: how a unit becomes the front, and how its slots are counted afterwards.
//!
//! Allocations from the front and frees to it only change its free list; nothing counts them. The
//! slots are counted when the unit stops being the front. If it ran full, all of its slots are
//! live. If it is replaced before that, its free list is counted. From then on, each free
//! decrements `until`.

use core::ptr;

use super::{PoolEnv, UnitHeap};
use crate::local_frees::link_of;
use crate::unit::{UnitPtr, UnitState};

/// A full unit is allocated from again when one in this number of its slots is free. So the slow
/// path runs at most once for that share of a unit's slots.
const SHARE: usize = 8;

/// The number of units from which a heap is large. The free slots of its full units then matter
/// more than slow paths: a free to a random unit waits for memory anyway.
const LARGE_HEAP: usize = 256;

/// The share of slots in a large heap, and the least number of them.
const LARGE_HEAP_SHARE: usize = 64;
const LEAST_FREES: usize = 4;

impl UnitHeap {
    /// Makes `unit` the front, in place of the current one. The unit has a free slot and is on no
    /// list but that of all units.
    #[inline]
    pub(super) fn install<E: PoolEnv>(&self, env: E, unit: UnitPtr) {
        // After a request for a unit there usually is no front, but the backing allocator may have
        // allocated from this heap.
        self.give_up_front(env);
        env.sub_live(unit.live());
        unit.set_state(UnitState::Front);
        unit.claim().touch();
        self.front.set(unit.as_ptr());
        self.local.free.set(unit.take_free(self.spec));
        self.cursor.set(unit.cursor().get());
        self.end.set(unit.at(self.spec.end(unit.slots())));
    }

    /// Counts the free slots of the front: linked ones, and those that were never used. Only the
    /// owner calls this.
    #[inline]
    pub(crate) fn free_in_front(&self) -> usize {
        let mut free = (self.end.get().addr() - self.cursor.get().addr()) / self.spec.stride.max(1);
        let mut slot = self.local.free.get();
        while !slot.is_null() {
            free += 1;
            // SAFETY: H3: linked slots are free, and the caller owns the heap.
            slot = unsafe { link_of(slot) };
        }
        free
    }

    /// Makes the front an ordinary unit: full, in the queue, or empty.
    #[inline]
    pub(super) fn give_up_front<E: PoolEnv>(&self, env: E) {
        let Some(unit) = self.front() else { return };
        let (mut free, slots) = (self.free_in_front(), unit.slots());
        if cfg!(ephemera_weaken = "front_counts_the_unbooked") {
            free += unit.unbooked();
        }
        env.add_live(slots - free);
        unit.free().set(self.local.free.replace(ptr::null_mut()));
        unit.cursor().set(self.cursor.replace(ptr::null_mut()));
        self.end.set(ptr::null_mut());
        self.front.set(ptr::null_mut());
        if free == 0 {
            unit.set_live(slots, self.awaited_frees(slots));
            self.push_full(unit);
        } else if free == slots {
            unit.rewind(self.spec);
            self.push_empty(unit);
        } else {
            unit.set_live(slots - free, slots - free);
            self.queue_first(unit);
        }
    }

    /// Returns the number of frees after which a full unit of this number of slots is queued.
    #[inline]
    fn awaited_frees(&self, slots: usize) -> usize {
        let most = slots.div_ceil(SHARE);
        if self.units_len.get() < LARGE_HEAP || cfg!(ephemera_weaken = "large_heaps_await_an_eighth") {
            most
        } else {
            most.min((slots / LARGE_HEAP_SHARE).max(LEAST_FREES))
        }
    }

    /// Queues every full unit that has a free slot.
    ///
    /// Each visit takes a unit off the list of full units, and only a unit that runs full is added
    /// to it. So scrapes visit at most as many units as ran full. The next free of a slot queues a
    /// visited unit that had no free slot.
    #[inline]
    pub(super) fn scrape(&self) {
        while let Some(unit) = self.pop_full() {
            #[cfg(test)]
            self.scraped.set(self.scraped.get() + 1);
            let live = unit.live();
            if live < unit.slots() {
                self.enqueue(unit, live);
            } else {
                unit.look_after_next_free(live);
            }
        }
    }
}
