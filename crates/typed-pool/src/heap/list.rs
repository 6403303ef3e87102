//! The owner's lists: the full units, the queue, and the empties. The list of all units, which other threads walk, is
//! `ephemera_prim::unit_list`'s.

use core::cell::Cell;
use core::ptr;

use super::Heap;
#[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
use super::abandon::adopt;
use crate::unit::{Place, Unit, UnitPtr};

/// # Safety
/// `unit` is null or on a list of a heap (H6).
unsafe fn listed(unit: *mut Unit) -> Option<UnitPtr> {
    // SAFETY: U1: units on a list are not freed.
    unsafe { UnitPtr::from_raw(unit) }
}

impl Heap {
    /// Keeps an empty unit.
    #[inline]
    pub(super) fn push_empty(&self, unit: UnitPtr) {
        unit.set_place(Place::Empty);
        unit.after().set(self.empties.get());
        self.empties.set(unit.as_ptr());
        self.empties_len.set(self.empties_len.get() + 1);
    }

    /// Takes the empty unit that was kept last: the likeliest to be in the caches.
    #[inline]
    pub(super) fn pop_empty(&self) -> Option<UnitPtr> {
        // SAFETY: the stack of empties.
        let unit = unsafe { listed(self.empties.get()) }?;
        self.empties.set(unit.after().get());
        self.empties_len.set(self.empties_len.get() - 1);
        Some(unit)
    }

    /// Queues a unit with `live` live slots and at least one free slot, unless it is queued already.
    #[inline]
    pub(super) fn enqueue(&self, unit: UnitPtr, live: usize) {
        unit.set_live(live, live);
        match unit.place() {
            Place::Full => Self::unlink(unit, &self.full, None),
            Place::Partial => return,
            _ => self.unlist(unit),
        }
        self.queue_last(unit);
    }

    /// Puts a unit at the end of the queue: the longer it waits, the more of it comes home.
    #[inline]
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
    #[inline]
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
    #[inline]
    pub(super) fn unlist(&self, unit: UnitPtr) {
        match unit.place() {
            Place::Full => Self::unlink(unit, &self.full, None),
            Place::Partial => Self::unlink(unit, &self.queue, Some(&self.queue_end)),
            #[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
            Place::Abandoned => Self::unlink(unit, &self.queue, Some(&self.queue_end)),
            _ => {}
        }
    }

    /// Takes a unit off the list with this head and, if the list has one, this end.
    #[inline]
    fn unlink(unit: UnitPtr, head: &Cell<*mut Unit>, end: Option<&Cell<*mut Unit>>) {
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
    #[inline]
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
    #[inline]
    pub(super) fn pop_full(&self) -> Option<UnitPtr> {
        // SAFETY: the list of full units.
        let unit = unsafe { listed(self.full.get()) }?;
        self.unlist(unit);
        unit.set_place(Place::Visited);
        Some(unit)
    }

    /// The unit that waits longest.
    #[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
    #[inline]
    pub(super) fn first_in_queue(&self) -> Option<UnitPtr> {
        // SAFETY: the queue.
        unsafe { listed(self.queue.get()) }
    }

    /// Takes the unit that waits longest, of those that may become the front now.
    #[inline]
    pub(super) fn pop_queue(&self) -> Option<UnitPtr> {
        // SAFETY: the queue.
        let first = unsafe { listed(self.queue.get()) }?;
        if first.place() != Place::Partial {
            return self.pop_adopted();
        }
        let after = first.after().get();
        self.queue.set(after);
        // SAFETY: the queue.
        match unsafe { listed(after) } {
            Some(after) => after.before().set(ptr::null_mut()),
            None => self.queue_end.set(ptr::null_mut()),
        }
        Some(first)
    }

    /// Takes the unit that waits longest, of those that are not abandoned or can be adopted.
    #[cold]
    #[inline]
    fn pop_adopted(&self) -> Option<UnitPtr> {
        let mut at = self.queue.get();
        loop {
            // SAFETY: the queue.
            let unit = unsafe { listed(at) }?;
            if self.may_be_front(unit) {
                self.unlist(unit);
                return Some(unit);
            }
            at = unit.after().get();
        }
    }

    /// Whether a queued unit may become the front. An abandoned one is adopted here.
    #[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
    #[inline]
    fn may_be_front(&self, unit: UnitPtr) -> bool {
        unit.place() != Place::Abandoned || adopt(unit)
    }

    /// As above: a pool for one thread abandons no unit.
    #[cfg(not(all(any(feature = "std", ephemera_loom), target_has_atomic = "64")))]
    #[expect(clippy::unused_self, reason = "the other one's signature")]
    #[inline]
    fn may_be_front(&self, _: UnitPtr) -> bool {
        true
    }
}
