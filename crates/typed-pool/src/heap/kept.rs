//! Decides how many empty units a heap keeps, and finds the empty units that it no longer needs.
//!
//! Each time a heap frees a unit and later requests one, it keeps one more empty unit from then on.
//! When the load falls, the heap must keep fewer again. Over a number of new fronts, the heap notes
//! the lowest number of empty units that it had: the load did not need these units. With each
//! further new front or inspection, the heap frees one of the unneeded units.

use core::cell::Cell;

/// The minimum number of new fronts and inspections between two *looks*. A look is a call to
/// [`KeptUnits::find_unneeded`] that computes the number of unneeded units. A heap of more than 32
/// units waits longer.
const LOOK_EVERY: u32 = 64;

/// The number of empty units that a heap keeps, and the counts from which the heap learns it. Only
/// the heap's owner uses them.
#[derive(Debug)]
pub(crate) struct KeptUnits {
    /// The number of new fronts and inspections since the last look.
    fronts: Cell<u32>,
    /// The number of whole units that other threads have emptied since the last call to
    /// [`Self::take_emptied`], at most `u16::MAX`.
    emptied: Cell<u16>,
    /// Whether units of the heap rest (see `rest`).
    rests: Cell<bool>,
    /// The lowest number of empty units since the last look.
    lowest: Cell<usize>,
    /// The number of empty units that the heap keeps under every load: [`UnitSpec::kept`], plus the
    /// units that [`reserve`] requested since the last trim.
    ///
    /// [`UnitSpec::kept`]: crate::geometry::UnitSpec::kept
    /// [`reserve`]: super::reserve
    always: Cell<usize>,
    /// The number of further empty units that the heap keeps, because it freed units and later
    /// requested some.
    learned: Cell<usize>,
    /// The number of units that the heap has freed since the last trim, minus the number of
    /// requests for units since then, but at least 0.
    given_back: Cell<usize>,
    /// The number of units that the load does not need and that the heap has not freed yet.
    surplus: Cell<usize>,
}

impl KeptUnits {
    pub(super) const fn new(always: usize) -> Self {
        Self {
            fronts: Cell::new(0),
            emptied: Cell::new(0),
            rests: Cell::new(false),
            lowest: Cell::new(0),
            always: Cell::new(always),
            learned: Cell::new(0),
            given_back: Cell::new(0),
            surplus: Cell::new(0),
        }
    }

    /// Returns the number of empty units to keep.
    pub(super) fn keep(&self) -> usize {
        self.always.get() + self.learned.get()
    }

    #[inline]
    pub(super) fn learned(&self) -> usize {
        if weakened!("learned_units_first") { 0 } else { self.learned.get() }
    }

    /// Counts a unit that [`reserve`](super::reserve) requested.
    pub(super) fn note_reserved(&self) {
        self.always.set(self.always.get() + 1);
    }

    /// Counts a unit that the heap freed.
    pub(super) fn note_freed(&self) {
        self.given_back.set(self.given_back.get() + 1);
    }

    /// Counts a request for a unit. The heap keeps one more empty unit if it freed one before and
    /// keeps fewer than `most`.
    pub(super) fn note_request(&self, most: usize) {
        if let Some(given_back) = self.given_back.get().checked_sub(1) {
            self.given_back.set(given_back);
            if self.keep() < most {
                self.learned.set(self.learned.get() + 1);
            }
        }
    }

    /// Resets all counts except the counts of the current look, and notes that no units rest. From
    /// now on, the heap keeps `always` empty units.
    #[inline]
    pub(super) fn forget_all(&self, always: usize) {
        self.always.set(always);
        self.given_back.set(0);
        self.unlearn_all();
        self.emptied.set(0);
        self.rests.set(false);
    }

    /// Notes that the heap took an empty unit, and that `left` empty units remain.
    #[inline]
    pub(super) fn note_taken(&self, left: usize) {
        self.lowest.set(self.lowest.get().min(left));
    }

    /// Counts a new front or an inspection. Returns whether the heap should call
    /// [`Self::find_unneeded`] now.
    #[inline]
    pub(super) fn note_front(&self) -> bool {
        let fronts = self.fronts.get().saturating_add(1);
        self.fronts.set(fronts);
        fronts >= LOOK_EVERY
    }

    #[inline]
    pub(super) fn note_emptied(&self) {
        self.emptied.set(self.emptied.get().saturating_add(1));
    }

    /// Returns the number of whole units that other threads have emptied since the last call, and
    /// resets it.
    pub(crate) fn take_emptied(&self) -> u16 {
        self.emptied.replace(0)
    }

    #[inline]
    pub(crate) fn has_resting(&self) -> bool {
        self.rests.get()
    }

    pub(super) fn set_resting(&self, rests: bool) {
        self.rests.set(rests);
    }

    /// Resets the numbers of learned and surplus units.
    pub(super) fn unlearn_all(&self) {
        self.surplus.set(0);
        self.learned.set(0);
    }

    /// Computes how many units the load does not need. Does nothing unless the heap has counted at
    /// least 2 × `units` new fronts and inspections since the last look. A load that repeatedly
    /// rises to all units reaches its peak in that time.
    ///
    /// The heap now has `empties` empty units. While units rest, it needs `resting` units in total.
    #[cold]
    #[inline(never)]
    pub(super) fn find_unneeded(&self, (units, resting): (usize, usize), empties: usize) {
        if (self.fronts.get() as usize) / 2 < units {
            return;
        }
        let mut unneeded = self.lowest.get().saturating_sub(self.always.get());
        if self.rests.get() {
            unneeded = unneeded.min(units.saturating_sub(resting));
        }
        if !weakened!("learned_units_stay") {
            self.surplus.set(unneeded.min(self.learned.get()));
        }
        self.fronts.set(0);
        self.lowest.set(empties);
    }

    /// Returns whether the heap keeps units that the load does not need.
    #[inline]
    pub(super) fn has_surplus(&self) -> bool {
        self.surplus.get() != 0
    }

    /// Notes that the heap is about to free one unit that the load does not need. Returns `false`
    /// if the heap has no such unit, because its `empties` empty units do not exceed the number
    /// that it always keeps.
    pub(super) fn unlearn(&self, empties: usize) -> bool {
        if empties <= self.always.get() {
            self.surplus.set(0);
            return false;
        }
        self.learned.set(self.learned.get() - 1);
        self.surplus.set(self.surplus.get() - 1);
        true
    }
}
