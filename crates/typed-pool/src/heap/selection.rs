//! Decides whether the frees to the heaps of a record branch on the front or select their list.
//!
//! A free compares its unit with the front. If the processor predicts a *branch* on the result, the
//! branch is the fastest way. It cannot predict the branch if a program frees the blocks of several
//! units in random order, and each misprediction costs as much as several frees. A free that
//! *selects* its list has a constant cost between the two. `shown_front` has the switch.
//!
//! All heaps of a record branch, or all select, because the first comparison of a free would be
//! unpredictable in a mixture. A record starts a *trial* of selecting after a number of events. An
//! *event* is a local free that lowers the `until` of a unit to zero, or an inspection. While the
//! record selects, each of its heaps counts the frees that push to the heap's own list: frees of
//! slots in the front, and frees that add a guest. After [`LISTED_FREES`] such frees, the heap
//! inspects the unit of the slot that was freed last. An event describes the frees before it by
//! [`RecentFrees`]. If the frees before most events were predictable, the record branches again,
//! and waits longer for its next trial.

use core::cell::Cell;

/// A heap that selects inspects a unit after this many frees to its list. The number is a prime: if
/// a program frees its blocks in the same order again and again, the inspections still reach all of
/// them.
pub(super) const LISTED_FREES: usize = if SHORT { 11 } else { 1_021 };

/// The number of events after which a record starts its first trial.
const TRIAL: usize = if SHORT { 4 } else { 128 };
/// The score at the start of a trial.
const START: usize = if SHORT { 4 } else { 32 };
/// The maximum score. A record that reaches it has found that selecting pays.
const SUCCESS: usize = if SHORT { 16 } else { 256 };
/// The maximum number of further events before a trial.
const MOST_PAUSE: usize = 1 << 20;
/// The number by which an event with predictable frees lowers the score.
const LOSS: usize = 2;
/// The number of events for which an inspection counts if its unit is neither the front nor the
/// unit of the inspection before. An inspection comes after 1,021 frees, whereas the `until` of a
/// unit may reach zero after 8.
const INSPECTION_WEIGHT: usize = 8;

/// Unit tests and Miri make few frees, so their builds use small numbers.
const SHORT: bool = cfg!(any(test, miri));

/// The recent frees of a heap, as an event describes them. They are the frees since the last event
/// or miss of the heap, because a miss also restarts the count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecentFrees {
    /// An inspection found the front.
    ToFront,
    /// None was to the front or of a guest, and the `until` of a unit became zero.
    OneRun,
    /// Some were to the front or of guests and some to other units, or the heap does not select.
    /// The `until` of a unit became zero.
    Mixed,
    /// An inspection found a unit that is neither the front nor the unit that the heap inspected
    /// before.
    Inspected,
    /// An inspection found the unit that the heap inspected before, which is not the front.
    SameUnit,
}

/// The decision of one record. Only the holder of the record uses it.
#[derive(Debug)]
pub(crate) struct Selection {
    selects: Cell<bool>,
    /// While the frees branch, the number of events since the last trial or the start of the
    /// thread. Otherwise, how well selecting pays: at zero, the trial ends.
    score: Cell<usize>,
    /// The number of further events before the next trial.
    pause: Cell<usize>,
    /// The address of the heap with the last event while the frees selected.
    last: Cell<usize>,
}

// SAFETY: only the holder of the record uses the cells. There is one holder at a time (L1), and the
// lease orders its accesses after the accesses of the previous holder (L2).
unsafe impl Sync for Selection {}

impl Selection {
    /// Creates the decision of a record whose frees branch.
    pub(crate) const fn new() -> Self {
        Self { selects: Cell::new(false), score: Cell::new(0), pause: Cell::new(0), last: Cell::new(0) }
    }

    /// Returns whether the frees select.
    #[inline]
    pub(crate) fn selects(&self) -> bool {
        self.selects.get()
    }

    /// Forgets all events. Returns whether the decision changed.
    pub(crate) fn reset(&self) -> bool {
        self.score.set(0);
        self.pause.set(0);
        self.selects.replace(false)
    }

    /// Notes an event of the heap at this address. Returns whether the decision changed.
    ///
    /// Predictable frees lower the score. Frees are predictable if they are to the front, or if all
    /// of them are to other units of one heap. If events of several heaps alternate, the processor
    /// mispredicts the branches on their fronts. Guests of one unit are also predictable, but lower
    /// the score by less, because two samples in one unit are not rare if a heap has few units.
    #[inline]
    pub(crate) fn note(&self, heap: usize, frees: RecentFrees) -> bool {
        let score = self.score.get();
        let weight = if frees == RecentFrees::Inspected { INSPECTION_WEIGHT } else { 1 };
        if !self.selects() {
            self.score.set(score + weight);
            return score >= TRIAL + self.pause.get() && self.start();
        }
        let loss = match frees {
            RecentFrees::OneRun if self.last.get() != heap || weakened!("runs_select") => 0,
            RecentFrees::OneRun | RecentFrees::ToFront => LOSS,
            RecentFrees::SameUnit if !weakened!("guests_of_one_unit_select") => 1,
            RecentFrees::SameUnit | RecentFrees::Inspected | RecentFrees::Mixed => 0,
        };
        self.last.set(heap);
        if loss != 0 {
            self.score.set(score.saturating_sub(loss));
            return score <= loss && self.end();
        }
        self.score.set(SUCCESS.min(score + weight));
        if score + weight > SUCCESS {
            self.pause.set(0);
        }
        false
    }

    #[cold]
    fn start(&self) -> bool {
        self.selects.set(true);
        self.score.set(START);
        true
    }

    #[cold]
    fn end(&self) -> bool {
        if weakened!("selecting_never_ends") {
            return false;
        }
        self.selects.set(false);
        self.score.set(0);
        self.pause.set(MOST_PAUSE.min(2 * self.pause.get() + TRIAL));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{LOSS, MOST_PAUSE, RecentFrees, START, SUCCESS, Selection, TRIAL};

    /// The address of a heap.
    const HEAP: usize = 512;

    /// Notes events of one kind until the decision changes, and returns their number.
    fn until_change(selection: &Selection, frees: RecentFrees) -> Option<usize> {
        (1..=2 * MOST_PAUSE).find(|_| selection.note(HEAP, frees))
    }

    #[test]
    fn a_trial_without_mixed_frees_ends_and_the_next_one_comes_later() {
        for frees in [RecentFrees::ToFront, RecentFrees::OneRun] {
            let selection = Selection::new();
            let mut before = 0;
            for _ in 0..5 {
                let wait = until_change(&selection, RecentFrees::Mixed).expect("a trial");
                assert!(selection.selects());
                assert!(wait > TRIAL && wait > before, "{wait} after {before}");
                // The first run of the first trial does not lower the score, because `last` does
                // not name this heap yet.
                assert!(until_change(&selection, frees).is_some_and(|events| events <= START / LOSS + 2));
                assert!(!selection.selects());
                before = wait;
            }
        }
    }

    #[test]
    fn runs_in_several_heaps_keep_a_record_selecting() {
        let selection = Selection::new();
        until_change(&selection, RecentFrees::OneRun).expect("a trial");
        for at in 0..10 * SUCCESS {
            assert!(!selection.note(at % 2 * HEAP, RecentFrees::OneRun));
        }
        assert!(selection.selects());
    }

    #[test]
    fn mixed_frees_keep_a_record_selecting() {
        let selection = Selection::new();
        until_change(&selection, RecentFrees::ToFront).expect("a trial");
        for _ in 0..10 * SUCCESS {
            assert!(!selection.note(HEAP, RecentFrees::Mixed));
        }
        assert_eq!(until_change(&selection, RecentFrees::ToFront), Some(SUCCESS / LOSS));
        assert_eq!(selection.pause.get(), TRIAL, "the success shortened the next pause");
    }
}
