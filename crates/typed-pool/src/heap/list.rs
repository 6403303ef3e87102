//! The lists that units are on: the full units, the queue, the empties, and all units.
//!
//! Statistics walk along the list of all units from any thread. Adding needs no lock: the new unit is published at the
//! head. Removing does, since a walker may stand on the unit: the owner tries the gate, a bounded number of times, and keeps the
//! unit if it stays closed.

use core::ptr;

use super::Heap;
use crate::unit::{Place, Unit, UnitPtr};

/// # Safety
/// `unit` is null or on a list of a heap (H6).
unsafe fn listed(unit: *mut Unit) -> Option<UnitPtr> {
    // SAFETY: U1: units on a list are not freed.
    unsafe { UnitPtr::from_raw(unit) }
}

impl Heap {
    /// Adds a new unit (H6). The owner's alone.
    pub(super) fn add(&self, unit: UnitPtr) {
        let next = self.units.get();
        unit.next().set(next);
        // SAFETY: the list of all units.
        if let Some(next) = unsafe { listed(next) } {
            next.prev().set(unit.as_ptr());
        }
        self.units.publish(unit.as_ptr());
        self.units_len.set(self.units_len.get() + 1);
    }

    /// Removes a unit that is about to be freed. `false`, and nothing done, if the gate stays closed.
    pub(super) fn remove(&self, unit: UnitPtr) -> bool {
        let weak = cfg!(ephemera_weaken = "unit_leaves_beside_a_walk");
        let pass = if weak { None } else { self.gate.enter() };
        if pass.is_none() && !weak {
            return false;
        }
        let (prev, next) = (unit.prev().get(), unit.next().get());
        // SAFETY: the list of all units.
        match unsafe { listed(prev) } {
            Some(prev) => prev.next().set(next),
            None => self.units.set(next),
        }
        // SAFETY: as above.
        if let Some(next) = unsafe { listed(next) } {
            next.prev().set(prev);
        }
        self.units_len.set(self.units_len.get() - 1);
        true
    }

    /// Calls `visit` for every unit, from any thread. `false` if the gate stayed closed and nothing was visited.
    pub(crate) fn walk(&self, mut visit: impl FnMut(UnitPtr)) -> bool {
        let Some(_pass) = self.gate.enter() else { return false };
        let mut at = self.units.follow();
        // SAFETY: no unit leaves the list while this thread is behind the gate (H6).
        while let Some(unit) = unsafe { listed(at) } {
            at = unit.next().get();
            visit(unit);
        }
        true
    }

    /// Keeps an empty unit.
    pub(super) fn push_empty(&self, unit: UnitPtr) {
        unit.set_place(Place::Empty);
        unit.after().set(self.empties.get());
        self.empties.set(unit.as_ptr());
        self.empties_len.set(self.empties_len.get() + 1);
    }

    /// Takes the empty unit that was kept last: the likeliest to be in the caches.
    pub(super) fn pop_empty(&self) -> Option<UnitPtr> {
        // SAFETY: the stack of empties.
        let unit = unsafe { listed(self.empties.get()) }?;
        self.empties.set(unit.after().get());
        self.empties_len.set(self.empties_len.get() - 1);
        Some(unit)
    }

    /// Puts a unit at the end of the queue: the longer it waits, the more of it comes home.
    pub(super) fn queue_last(&self, unit: UnitPtr) {
        unit.set_place(Place::Partial);
        let last = self.queue_end.get();
        unit.before().set(last);
        unit.after().set(ptr::null_mut());
        // SAFETY: the queue.
        match unsafe { listed(last) } {
            Some(last) => last.after().set(unit.as_ptr()),
            None => self.queue.set(unit.as_ptr()),
        }
        self.queue_end.set(unit.as_ptr());
    }

    /// Puts a unit at the start of the queue: it is the next front.
    pub(super) fn queue_first(&self, unit: UnitPtr) {
        unit.set_place(Place::Partial);
        let first = self.queue.get();
        unit.before().set(ptr::null_mut());
        unit.after().set(first);
        // SAFETY: the queue.
        match unsafe { listed(first) } {
            Some(first) => first.before().set(unit.as_ptr()),
            None => self.queue_end.set(unit.as_ptr()),
        }
        self.queue.set(unit.as_ptr());
    }

    /// Takes a unit off the list of full units or out of the queue, in a fixed number of steps.
    pub(super) fn unlist(&self, unit: UnitPtr) {
        let (head, end) = match unit.place() {
            Place::Full => (&self.full, None),
            Place::Partial => (&self.queue, Some(&self.queue_end)),
            _ => return,
        };
        let (before, after) = (unit.before().get(), unit.after().get());
        // SAFETY: a neighbour on the same list.
        match unsafe { listed(before) } {
            Some(before) => before.after().set(after),
            None => head.set(after),
        }
        // SAFETY: as above.
        match unsafe { listed(after) } {
            Some(after) => after.before().set(before),
            None => _ = end.map(|end| end.set(before)),
        }
    }

    /// Puts a unit without a free slot on the list of full units.
    pub(super) fn push_full(&self, unit: UnitPtr) {
        unit.set_place(Place::Full);
        let first = self.full.replace(unit.as_ptr());
        unit.before().set(ptr::null_mut());
        unit.after().set(first);
        // SAFETY: the list of full units.
        if let Some(first) = unsafe { listed(first) } {
            first.before().set(unit.as_ptr());
        }
    }

    /// Takes the unit that ran full last.
    pub(super) fn pop_full(&self) -> Option<UnitPtr> {
        // SAFETY: the list of full units.
        let unit = unsafe { listed(self.full.get()) }?;
        self.unlist(unit);
        unit.set_place(Place::Visited);
        Some(unit)
    }

    /// Takes the unit that waits longest.
    pub(super) fn pop_queue(&self) -> Option<UnitPtr> {
        // SAFETY: the queue.
        let unit = unsafe { listed(self.queue.get()) }?;
        self.unlist(unit);
        Some(unit)
    }
}
