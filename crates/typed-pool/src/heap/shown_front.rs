//! The word `shown`, with which a free first compares the address of its unit.
//!
//! The front's free list is in the heap, and each other unit has its own list.
//!
//! ```text
//!   branching    shown --> front      a free to the front ends at its first comparison
//!   selecting    shown --> HIDDEN     no free ends there; it later selects one of the two lists
//!    and hosts   shown --> HOSTING    the same; the free also checks for room for a guest
//! ```
//!
//! The invariant is H10.

use core::ptr;

use super::selection::{LISTED_FREES, RecentFrees};
use super::{PoolEnv, UnitHeap};
use crate::local_frees::NEVER;
use crate::unit::{Unit, UnitPtr};

/// The value of `shown` while the front is hidden and the heap does not host.
pub(super) const HIDDEN: *mut Unit = ptr::without_provenance_mut(1);
/// The value of `shown` while the front is hidden and the heap hosts. Like [`HIDDEN`], it is the
/// address of no unit.
pub(super) const HOSTING: *mut Unit = ptr::without_provenance_mut(3);

/// Returns whether this value of `shown` hides the front. No unit has an odd address.
#[inline]
pub(super) fn is_hidden(shown: *mut Unit) -> bool {
    shown.addr() % 2 == 1
}

impl UnitHeap {
    /// Returns whether `unit` is the front.
    #[inline]
    pub(crate) fn is_front(&self, unit: UnitPtr) -> bool {
        unit.as_ptr() == self.front.get()
    }

    /// Returns whether the frees of this heap select.
    #[inline]
    pub(crate) fn selects(&self) -> bool {
        self.local.until.get() <= LISTED_FREES
    }

    /// Returns whether the front is hidden.
    #[inline]
    pub(crate) fn hides_front(&self) -> bool {
        is_hidden(self.shown.get())
    }

    /// Sets whether the frees of this heap select, and restarts the count of frees to its list.
    pub(crate) fn set_selects(&self, selects: bool) {
        self.owned.write();
        if selects {
            self.restart_count();
        } else {
            self.local.until.set(NEVER);
        }
        self.show_front();
    }

    /// Shows the front to the first comparison of a free, or hides it. The caller has changed the
    /// front, or whether the heap selects or hosts.
    #[inline]
    pub(super) fn show_front(&self) {
        self.shown.set(match (self.selects(), self.is_hosting()) {
            (false, _) => self.front.get(),
            (true, false) => HIDDEN,
            (true, true) => HOSTING,
        });
    }

    /// Notes an inspection of `unit` as an event, and restarts the count of frees to the list of
    /// this heap if the heap selects.
    pub(super) fn note_inspection<E: PoolEnv>(&self, env: E, unit: UnitPtr) {
        if self.selects() {
            self.restart_count();
        }
        let is_same = self.guests.samples(unit.as_ptr().addr() / self.spec.unit.max(1));
        env.note_frees(match self.is_front(unit) {
            true => RecentFrees::ToFront,
            false if is_same => RecentFrees::SameUnit,
            false => RecentFrees::Inspected,
        });
    }

    fn restart_count(&self) {
        self.local.until.set(LISTED_FREES);
        self.guests.begin_count(LISTED_FREES);
    }

    /// Earns a credit for each free to the list of this heap since the last call. Returns their
    /// number. The heap must select.
    pub(super) fn credit_listed_frees(&self) -> u16 {
        self.guests.credit(self.local.until.get())
    }

    /// Notes that the `until` of a unit has become zero, as an event.
    #[inline]
    pub(super) fn note_frees<E: PoolEnv>(&self, env: E) {
        let is_one_run = self.selects() && self.credit_listed_frees() == 0;
        env.note_frees(if is_one_run { RecentFrees::OneRun } else { RecentFrees::Mixed });
    }
}
