//! The word `shown`, with which a free compares its unit first.
//!
//! The front's free list is in the heap, and each other unit has its own list.
//!
//! ```text
//!   branching     shown --> front       a free to the front ends at its first comparison
//!   selecting     shown --> HIDDEN      no free ends there; it later selects one of the two lists
//!    and hosts    shown --> HOSTING     the same; the free also asks whether there is room for a guest
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
        matches!(self.shown.get(), HIDDEN | HOSTING)
    }

    /// Sets whether the frees of this heap select, and restarts the count of frees to its list. A
    /// heap that hosts adds no guest while its frees branch, and closes at the latest with its next
    /// front.
    pub(crate) fn set_selects(&self, selects: bool) {
        self.owned.write();
        self.local.until.set(if selects { LISTED_FREES } else { NEVER });
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

    /// Notes an inspection of `unit` as an event.
    pub(super) fn note_inspection<E: PoolEnv>(&self, env: E, unit: UnitPtr) {
        self.restart_count();
        env.note_frees(if self.is_front(unit) { RecentFrees::ToFront } else { RecentFrees::Inspected });
    }

    /// Restarts the count of frees to the list of this heap, if the heap selects. Each of these
    /// frees has earned a credit. Returns the number of these frees.
    #[inline]
    pub(super) fn restart_count(&self) -> usize {
        let freed = LISTED_FREES.saturating_sub(self.local.until.get());
        if freed != 0 {
            self.local.until.set(LISTED_FREES);
            self.guests.earn(freed);
        }
        freed
    }

    /// Makes the next free to the list of this heap inspect its unit. The heap must select.
    pub(super) fn inspect_next(&self) {
        self.local.until.set(1);
    }

    /// Notes that the `until` of a unit has become zero, as an event.
    #[inline]
    pub(super) fn note_frees<E: PoolEnv>(&self, env: E) {
        let is_one_run = self.selects() && self.restart_count() == 0;
        env.note_frees(if is_one_run { RecentFrees::OneRun } else { RecentFrees::Mixed });
    }
}
