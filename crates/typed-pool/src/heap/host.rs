//! Frees and allocations of a heap that is open to guests. In such a heap, `AllocEnv::give_back`
//! calls [`UnitHeap::host_or_give`] for each local free, except for frees to a front that is shown
//! and frees without a size (`give_known`). The slow paths first call
//! [`UnitHeap::take_from_behind`], which returns `None` unless the heap hosts.

use core::ptr::NonNull;

use ephemera_prim::select::select;

#[cfg(debug_assertions)]
use super::fast::check;
use super::fast::push_and_count;
use super::supply::note_new_front;
use super::{AllocEnv, UnitHeap};
use crate::local_frees::Reach;
use crate::unit::UnitPtr;

impl UnitHeap {
    /// Frees a slot of this heap: pushes the slot to the free list of the heap if the list has room
    /// for a guest, and otherwise to the list of its unit, which is that of the heap if the unit is
    /// the front.
    ///
    /// If the front is hidden, its slots are freed here too, and the processor cannot predict
    /// whether a slot is in the front. So this function does not branch on that. In particular, a
    /// slot of the front that finds room for a guest takes the room.
    ///
    /// # Safety
    /// `block` is a live slot of `unit`, for a value of `size` bytes, and `unit` is a unit of this
    /// heap. `mark_free` has poisoned the slot, and nothing uses the slot after this call. `reach`
    /// describes the pointer `block`. The calling thread owns this heap.
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
        let is_front = self.is_front(unit) && !weakened!("hidden_fronts_of_open_heaps_are_ignored");
        let local = select(is_front, &self.local, unit.local());
        // SAFETY: H1: this thread owns the heap and the unit. H3: the slot is on no list. `local`
        // is the list of the heap if the unit is the front, and otherwise that of the unit.
        unsafe { push_and_count(env, unit, local, (block, size, reach)) };
    }

    /// Inspects the unit of a slot, then frees the slot with [`Self::host_or_give`]. Notes an event
    /// for the decision whether frees select: the unit is a sample of the units to which frees go.
    /// Also does the work for other threads that is part of a slow path, because a thread that only
    /// replaces blocks never takes the slow path.
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
        if !weakened!("inspections_are_no_events") {
            self.note_inspection(env, unit);
        }
        self.close_if_sparse(env, unit);
        // SAFETY: this function has the same contract. The slot is still live, so its unit is not
        // freed (H4).
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
