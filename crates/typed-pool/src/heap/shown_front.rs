//! The word `shown`, with which a free compares its unit first.
//!
//! The front's free list is in the heap, and each other unit has its own list.
//!
//! ```text
//!   branching    shown --> front       a free to the front ends at its first comparison
//!   selecting    shown --> HIDDEN      no free ends there; it later selects one of the two lists
//! ```
//!
//! In a heap that is open to guests, a free with a hidden front takes the path of a guest
//! (`UnitHeap::host_or_give`). The invariant is H10.

use core::ptr;

use super::selection::{FRONT_FREES, RecentFrees};
use super::{PoolEnv, UnitHeap};
use crate::local_frees::NEVER;
use crate::unit::{Unit, UnitPtr};

/// The value of `shown` that no unit has.
const HIDDEN: *mut Unit = ptr::without_provenance_mut(1);

impl UnitHeap {
    /// Returns whether `unit` is the front.
    #[inline]
    pub(crate) fn is_front(&self, unit: UnitPtr) -> bool {
        unit.as_ptr() == self.front.get()
    }

    /// Returns whether the frees of this heap select.
    #[inline]
    pub(crate) fn selects(&self) -> bool {
        self.local.until.get() <= FRONT_FREES
    }

    /// Returns whether frees compare their unit with [`HIDDEN`] in place of the front.
    #[inline]
    pub(crate) fn hides_front(&self) -> bool {
        self.shown.get() == HIDDEN
    }

    /// Sets whether the frees of this heap select, and restarts the count of frees to the front.
    pub(crate) fn set_selects(&self, selects: bool) {
        self.owned.write();
        self.local.until.set(if selects { FRONT_FREES } else { NEVER });
        self.show_front();
    }

    /// Shows the front to the first comparison of a free, or hides it. The caller has changed the
    /// front, or whether the heap selects.
    #[inline]
    pub(super) fn show_front(&self) {
        self.shown.set(if self.selects() { HIDDEN } else { self.front.get() });
    }

    /// Notes an inspection of `unit` as an event.
    pub(super) fn note_inspection<E: PoolEnv>(&self, env: E, unit: UnitPtr) {
        self.restart_count();
        env.note_frees(if self.is_front(unit) { RecentFrees::ToFront } else { RecentFrees::Inspected });
    }

    /// Restarts the count of frees to the front, if the heap selects. Returns `until` as it was.
    #[inline]
    pub(super) fn restart_count(&self) -> usize {
        let counted = self.local.until.get();
        if counted < FRONT_FREES {
            self.local.until.set(FRONT_FREES);
        }
        counted
    }

    /// Notes an event of this heap, with the kind of its frees since the last one. `unit` is the
    /// front, or the unit whose `until` has reached zero.
    #[inline]
    pub(super) fn note_frees<E: PoolEnv>(&self, env: E, unit: UnitPtr) {
        let counted = self.restart_count();
        env.note_frees(match counted {
            _ if self.is_front(unit) => RecentFrees::ToFront,
            FRONT_FREES => RecentFrees::OneRun,
            _ => RecentFrees::Mixed,
        });
    }
}
