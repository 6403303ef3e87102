//! The owner's lists: full units, queue, and empties. `ephemera_prim::unit_list` has the list of
//! all units, which other threads walk.

use core::cell::Cell;
use core::ptr;

use ephemera_prim::claim::Contents;

use super::UnitHeap;
use crate::unit::{Unit, UnitPtr, UnitState};

/// A stack of empty units that are on none of the owner's lists.
#[derive(Debug, Default)]
pub(super) struct UnlistedUnits(Option<UnitPtr>);

impl UnlistedUnits {
    pub(super) fn push(&mut self, unit: UnitPtr) {
        unit.after().set(self.0.map_or(ptr::null_mut(), UnitPtr::as_ptr));
        self.0 = Some(unit);
    }

    /// Pops the unit that was pushed last, if there is one.
    pub(super) fn pop(&mut self) -> Option<UnitPtr> {
        let unit = self.0?;
        // SAFETY: U1: the link is null or names another unit of this stack, and no unit is freed
        // while it is on this stack.
        self.0 = unsafe { UnitPtr::from_raw(unit.after().get()) };
        Some(unit)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl UnitHeap {
    #[inline]
    pub(super) fn push_empty(&self, unit: UnitPtr) {
        unit.set_state(UnitState::Empty);
        unit.after().set(self.empties.get());
        self.empties.set(unit.as_ptr());
        self.empties_len.set(self.empties_len.get() + 1);
    }

    /// Pops the empty unit that was pushed last, if there is one. If the owner emptied this unit,
    /// it is the one most likely to be in the caches.
    #[inline]
    pub(super) fn pop_empty(&self) -> Option<UnitPtr> {
        // SAFETY: H6: the unit is among the empties.
        let unit = unsafe { UnitPtr::from_raw(self.empties.get()) }?;
        self.empties.set(unit.after().get());
        let left = self.empties_len.get() - 1;
        self.empties_len.set(left);
        self.kept.note_taken(left);
        Some(unit)
    }

    /// Sets the counts of a unit with `live` live slots and at least one free slot. Queues the
    /// unit, unless it is in the queue already.
    #[inline]
    pub(super) fn enqueue(&self, unit: UnitPtr, live: usize) {
        unit.set_live(live, live);
        if unit.state() != UnitState::Partial {
            self.unlist(unit);
            self.queue_last(unit);
        }
    }

    /// Puts a unit at the end of the queue, so that more of its slots are free by the time the unit
    /// becomes the front.
    #[inline]
    pub(super) fn queue_last(&self, unit: UnitPtr) {
        unit.set_state(UnitState::Partial);
        let last = self.queue_end.get();
        unit.before().set(last);
        unit.after().set(ptr::null_mut());
        // SAFETY: H6: the unit is in the queue.
        match unsafe { UnitPtr::from_raw(last) } {
            Some(last) => last.after().set(unit.as_ptr()),
            None => self.queue.set(unit.as_ptr()),
        }
        self.queue_end.set(unit.as_ptr());
    }

    /// Puts a unit at the start of the queue, to be the next front.
    #[inline]
    pub(super) fn queue_first(&self, unit: UnitPtr) {
        unit.set_state(UnitState::Partial);
        Self::link_first(unit, &self.queue, Some(&self.queue_end));
    }

    /// Puts a unit at the start of the list with this head pointer and, if the list has one, this
    /// end pointer.
    #[inline]
    fn link_first(unit: UnitPtr, head: &Cell<*mut Unit>, end: Option<&Cell<*mut Unit>>) {
        let first = head.replace(unit.as_ptr());
        unit.before().set(ptr::null_mut());
        unit.after().set(first);
        // SAFETY: H6: `first` is null, or on this list.
        match unsafe { UnitPtr::from_raw(first) } {
            Some(first) => first.before().set(unit.as_ptr()),
            None => _ = end.map(|end| end.set(unit.as_ptr())),
        }
    }

    /// Removes a unit from the list of full units or from the queue, in constant time. Does nothing
    /// for a unit that is on neither.
    #[inline]
    pub(super) fn unlist(&self, unit: UnitPtr) {
        match unit.state() {
            UnitState::Full => Self::unlink(unit, &self.full, None),
            UnitState::Partial => Self::unlink(unit, &self.queue, Some(&self.queue_end)),
            _ => {}
        }
    }

    /// Removes a unit from the list with this head pointer and, if the list has one, this end
    /// pointer.
    #[inline]
    fn unlink(unit: UnitPtr, head: &Cell<*mut Unit>, end: Option<&Cell<*mut Unit>>) {
        let (before, after) = (unit.before().get(), unit.after().get());
        // SAFETY: H6: the neighbour is on the same list.
        match unsafe { UnitPtr::from_raw(before) } {
            Some(before) => before.after().set(after),
            None => head.set(after),
        }
        // SAFETY: H6: the neighbour is on the same list.
        match unsafe { UnitPtr::from_raw(after) } {
            Some(after) => after.before().set(before),
            None => _ = end.map(|end| end.set(before)),
        }
    }

    /// Pushes a unit without a free slot to the list of full units.
    #[inline]
    pub(super) fn push_full(&self, unit: UnitPtr) {
        unit.set_state(UnitState::Full);
        Self::link_first(unit, &self.full, None);
    }

    /// Takes the unit that became full last off the list of full units, if there is one, and sets
    /// its state to `Visited`.
    #[inline]
    pub(super) fn pop_full(&self) -> Option<UnitPtr> {
        // SAFETY: H6: the unit is on the list of full units.
        let unit = unsafe { UnitPtr::from_raw(self.full.get()) }?;
        self.unlist(unit);
        unit.set_state(UnitState::Visited);
        Some(unit)
    }

    /// Returns the first unit of the queue, if there is one.
    #[inline]
    pub(super) fn first_in_queue(&self) -> Option<UnitPtr> {
        // SAFETY: H6: the unit is in the queue.
        unsafe { UnitPtr::from_raw(self.queue.get()) }
    }

    /// Takes the first unit of the queue that may become the front now, if there is one. Adopts the
    /// unit if it is abandoned. Units that another thread has claimed stay in the queue.
    #[inline]
    pub(super) fn pop_queue(&self) -> Option<UnitPtr> {
        let mut at = self.queue.get();
        loop {
            // SAFETY: H6: the unit is in the queue.
            let unit = unsafe { UnitPtr::from_raw(at) }?;
            if (!unit.is_abandoned() || adopt(unit)) && self.may_use_slots(unit) {
                Self::unlink(unit, &self.queue, Some(&self.queue_end));
                return Some(unit);
            }
            at = unit.after().get();
        }
    }

    /// Returns whether this heap may use the slots of a unit that is not the front. If another
    /// thread has claimed the slots, sets the unit's state to `Partial` and returns `false`.
    /// Otherwise sets the state to `Front`, and rebuilds the unit if it was purged.
    #[inline]
    pub(super) fn may_use_slots(&self, unit: UnitPtr) -> bool {
        // C2: a thread that claims the slots after this store reads the state `Front` and gives up.
        unit.set_state(UnitState::Front);
        match unit.claim().enter() {
            Contents::Kept => true,
            contents => self.meet_claim(unit, contents),
        }
    }

    /// Handles a claimed or purged unit. Returns whether the heap may use its slots.
    #[cold]
    #[inline(never)]
    fn meet_claim(&self, unit: UnitPtr, contents: Contents) -> bool {
        if contents == Contents::Claimed {
            unit.set_state(UnitState::Partial);
            return false;
        }
        if weakened!("purged_links_are_followed") {
            unit.claim().renew();
        } else {
            unit.rebuild(self.spec);
        }
        true
    }
}

/// Makes an abandoned unit an ordinary unit of the queue. Returns `false`, and leaves the unit
/// abandoned, if a complete countdown of the unit has not been booked.
///
/// The word of a complete countdown has all bits set, so only the `home` bits tell which slots were
/// freed during the countdown. These bits change when the unit becomes the front, so the countdown
/// must be booked before that.
#[cold]
fn adopt(unit: UnitPtr) -> bool {
    let (mut live, mut complete) = (unit.live(), false);
    for group in unit.groups() {
        match group.stop_countdown() {
            Some(freed) => live -= freed,
            None => complete = true,
        }
    }
    unit.set_live(live, live);
    if !complete {
        unit.set_abandoned(false);
    }
    !complete
}
