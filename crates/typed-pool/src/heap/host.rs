//! Frees to an open heap, and allocations from a heap that hosts.
//!
//! If the heap of a `TypedPool` is open, `AllocEnv::give_back` calls [`UnitHeap::host_or_give`] for
//! each free that is not to the front. The slow paths of allocations first call
//! [`UnitHeap::take_withheld`].

use core::ptr::NonNull;

use super::fast::{check, push_and_count};
use super::inspect::{inspect, visit};
use super::{AllocEnv, UnitHeap};
use crate::local_frees::Freed;
use crate::unit::UnitPtr;

impl UnitHeap {
    /// Frees a slot of this heap: pushes the slot to the free list of the heap if the list has room
    /// for a guest, and otherwise to the list of its unit.
    ///
    /// # Safety
    /// The freed block is a live slot of `unit`, and `unit` is a unit of this heap, but not its
    /// front. `mark_free` has poisoned the slot, and nothing uses the slot after this call. The
    /// calling thread owns this heap.
    #[inline]
    pub(crate) unsafe fn host_or_give<E: AllocEnv>(&self, env: E, unit: UnitPtr, freed: Freed) {
        check(self, Some(unit), freed.block);
        if self.guests.is_inspection_due() {
            // SAFETY: this function has the same contract.
            return unsafe { self.inspect_and_free(env, unit, freed) };
        }
        if self.makes_room(env) {
            self.guests.earn(1);
            // SAFETY: H1: this thread owns the heap and the unit. H3: the list has no guest, and
            // the slot is on no list.
            unsafe { self.local.push(freed) };
            return;
        }
        // SAFETY: H1: this thread owns the heap and the unit, which is not the front. H3: the slot
        // is on no list.
        unsafe { push_and_count(env, unit, unit.local(), freed) };
    }

    /// Inspects the unit of a slot, and frees the slot with [`Self::host_or_give`].
    ///
    /// # Safety
    /// The contract of [`Self::host_or_give`] holds.
    #[cold]
    #[inline(never)]
    unsafe fn inspect_and_free<E: AllocEnv>(&self, env: E, unit: UnitPtr, freed: Freed) {
        inspect(env, unit);
        // SAFETY: this function has the same contract. The slot is still live, so its unit is not
        // freed (H4).
        unsafe { self.host_or_give(env, unit, freed) };
        visit(env);
    }

    /// Takes a slot for a value of `size` bytes from a heap that hosts. If the free list is empty,
    /// the allocation is a miss and takes a slot of the front that the heap withholds. Returns
    /// `None` if the heap does not host, or if the front has no free slot.
    #[inline]
    pub(crate) fn take_withheld(&self, size: usize) -> Option<NonNull<u8>> {
        if !self.is_hosting() || (self.local.free.get().is_null() && !self.miss()) {
            return None;
        }
        self.take(size)
    }
}
