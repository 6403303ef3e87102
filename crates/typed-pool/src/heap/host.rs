//! Frees and allocations of a heap that is open to guests. In such a heap, `AllocEnv::give_back`
//! calls [`UnitHeap::host_or_give`] for each local free to a unit other than the front, except for
//! frees without a size (`give_known`). The slow paths first call [`UnitHeap::take_from_behind`],
//! which returns `None` unless the heap hosts.

use core::ptr::NonNull;

#[cfg(debug_assertions)]
use super::fast::check;
use super::supply::{note_new_front, reclassify};
use super::{AllocEnv, UnitHeap};
use crate::local_frees::Reach;
use crate::unit::UnitPtr;

impl UnitHeap {
    /// Frees a slot of this heap that is not in the front: hosts the slot, or returns it to its
    /// unit.
    ///
    /// # Safety
    /// `block` is a live slot of `unit`, for a value of `size` bytes. `unit` is a unit of this heap
    /// and not the front. `mark_free` has poisoned the slot, and nothing uses the slot after this
    /// call. `reach` describes the pointer `block`. The calling thread owns this heap.
    #[inline]
    pub(crate) unsafe fn host_or_give<E: AllocEnv>(
        &self,
        env: E,
        unit: UnitPtr,
        block: NonNull<u8>,
        (size, reach): (usize, Reach),
    ) {
        #[cfg(debug_assertions)]
        {
            check(self, Some(unit), block, unit.local().free.get());
            check(self, Some(unit), block, self.local.free.get());
        }
        if self.guests.is_inspection_due() {
            // SAFETY: this function has the same contract.
            return unsafe { self.inspect_and_free(env, unit, block, (size, reach)) };
        }
        if self.makes_room(env) {
            self.guests.earn();
            // SAFETY: H1: this thread owns the heap and the unit. H3: the list has no guest, and
            // the slot is on no list.
            unsafe { self.local.push(block, size, reach) };
            return;
        }
        // SAFETY: H1: this thread owns the unit. H3: the slot is on no list.
        let until = unsafe { unit.push(block, (size, reach)) };
        env.sub_live(1);
        if until == 0 {
            reclassify(env, unit);
        }
    }

    /// Inspects the unit of a slot, then frees the slot with [`Self::host_or_give`]. Also does the
    /// work for other threads that is part of a slow path, because a thread that only replaces
    /// blocks never takes the slow path.
    ///
    /// # Safety
    /// The contract of [`Self::host_or_give`] holds.
    #[cold]
    #[inline(never)]
    unsafe fn inspect_and_free<E: AllocEnv>(
        &self,
        env: E,
        unit: UnitPtr,
        block: NonNull<u8>,
        freed: (usize, Reach),
    ) {
        self.close_if_sparse(env, unit);
        // SAFETY: this function has the same contract. The unit still counts this slot as live
        // (H5), so the unit is not freed (H4). `close_if_sparse` does not install a front.
        unsafe { self.host_or_give(env, unit, block, freed) };
        if !weakened!("guests_replace_the_slow_path") {
            env.visit();
            if !weakened!("inspections_count_no_front") {
                note_new_front(env);
            }
        }
    }

    /// Takes a slot for a value of `size` bytes from a heap that hosts. If the free list is empty,
    /// the allocation is a miss and takes a slot of the front. Returns `None` if the heap does not
    /// host.
    #[inline]
    pub(crate) fn take_from_behind(&self, size: usize) -> Option<NonNull<u8>> {
        let first = self.behind.get();
        if first.is_null() {
            return None;
        }
        if self.local.free.get().is_null() {
            self.move_from_behind(first);
        }
        self.take(size)
    }
}
