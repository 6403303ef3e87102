//! The credit of a heap that hosts guests. It says whether guests pay, and when the heap *inspects*
//! a unit, that is, checks whether the unit is sparse.

use core::cell::Cell;

/// The number of credits that a miss takes (`guest`).
const MISS: u16 = 16;
/// The maximum number of credits that remain after a miss, unless the miss makes an inspection due.
const MOST: u16 = 3 * MISS;
/// The number of credits that makes a miss a success, after which the next pause is short again.
const SUCCESS: u16 = 4 * MISS;
/// The number of credits that makes an inspection due in an open heap. The heap inspects the unit
/// of the next slot that the owner frees outside the front. A miss also makes an inspection due
/// when `taken` × [`SUCCESS`] reaches this number. Under Miri the number is smaller, so that the
/// tests reach an inspection.
const INSPECTION: u16 = if cfg!(miri) { 2 * SUCCESS } else { 4096 };
/// The number of pauses in a row after which pauses stop doubling. The longest pause lasts for
/// 4,095 fronts.
const MOST_PAUSES: u8 = 12;
/// The minimum value of `pauses` during a pause for sparse units. The sixth pause in a row lasts
/// for 63 fronts.
const SPARSE_PAUSES: u8 = 6;

/// The credits by which a heap decides whether it hosts guests. Each guest earns a credit, and so
/// does each free to a hidden front. Each miss takes [`MISS`] credits and leaves at most [`MOST`].
/// A miss that finds fewer than [`MISS`] credits closes the heap for the rest of its front, and
/// begins a pause. The first pause lasts for one further front, and each further pause in a row
/// about twice as long as the one before, up to a maximum.
#[derive(Debug)]
pub(super) struct GuestCredit {
    credit: Cell<u16>,
    /// The number of pauses since the last success, at most [`MOST_PAUSES`]. A success is a miss
    /// that finds [`SUCCESS`] credits, or an inspection of a unit that is neither sparse nor the
    /// front, in a heap that hosts. A pause for sparse units raises the number to at least
    /// [`SPARSE_PAUSES`].
    pauses: Cell<u8>,
    /// An estimate of the credits that misses took since the last inspection, as a multiple of
    /// [`SUCCESS`]. Each miss adds at least 1.
    taken: Cell<u8>,
    /// The number of fronts left in the current pause. A front counts only if the heap would
    /// otherwise begin to host, or open. The start of a trial of selecting counts like such a
    /// front.
    left: Cell<u16>,
    /// The `until` of the heap at the last call to [`Self::credit`] or [`Self::begin_count`].
    credited: Cell<u16>,
    /// The low bits of the number of the unit that was inspected last.
    sampled: Cell<u16>,
}

impl GuestCredit {
    pub(super) const fn new() -> Self {
        Self {
            credit: Cell::new(0),
            pauses: Cell::new(0),
            taken: Cell::new(0),
            left: Cell::new(0),
            credited: Cell::new(0),
            sampled: Cell::new(0),
        }
    }

    /// Counts a new front, or that the heap begins to select, and resets the credit. Returns
    /// `false` if a pause covers this front, so that the heap must stay closed.
    pub(super) fn begins(&self) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        self.credit.set(MISS);
        left == 0
    }

    #[inline]
    pub(super) fn earn(&self, frees: u16) {
        self.credit.set(self.credit.get().saturating_add(frees));
    }

    /// Notes the number of the unit that is inspected. Returns whether the last call had a number
    /// with the same low bits, which is nearly always the number of the same unit.
    pub(super) fn samples(&self, unit: usize) -> bool {
        self.sampled.replace(unit as u16) == unit as u16
    }

    /// Begins a count of frees that starts at `until` and goes down.
    pub(super) fn begin_count(&self, until: usize) {
        self.credited.set(until as u16);
    }

    /// Earns a credit for each free since the last call, or since the count began. `until` is the
    /// current state of the count. Returns the number of these frees.
    pub(super) fn credit(&self, until: usize) -> u16 {
        let frees = self.credited.replace(until as u16).saturating_sub(until as u16);
        self.earn(frees);
        frees
    }

    #[inline]
    pub(super) fn is_inspection_due(&self) -> bool {
        self.credit.get() >= INSPECTION
    }

    /// Notes an inspection: restarts the counts that make the next inspection due.
    pub(super) fn inspected(&self) {
        self.credit.set(SUCCESS);
        self.taken.set(0);
    }

    /// Notes that hosting pays: the next pause is short again.
    pub(super) fn succeed(&self) {
        if !weakened!("pauses_stay_long") {
            self.pauses.set(0);
        }
    }

    /// Begins a pause. Each pause since the last success is about twice as long as the one before,
    /// up to a maximum.
    pub(super) fn pause(&self) {
        self.pauses.set((self.pauses.get() + 1).min(MOST_PAUSES));
        self.left.set((1 << self.pauses.get()) - 1);
    }

    /// Begins a pause of at least 63 fronts. During the pause, freed slots return to their units,
    /// so sparse units can become empty.
    pub(super) fn pause_for_sparse_units(&self) {
        self.pauses.set(self.pauses.get().max(SPARSE_PAUSES - 1));
        self.pause();
    }

    /// Counts a miss. Returns `true` if the heap continues to host. Otherwise begins a pause, and
    /// the caller must close the heap. `inspects` says whether credits make an inspection due. A
    /// heap that selects inspects after a number of frees instead.
    pub(super) fn misses(&self, inspects: bool) -> bool {
        let credit = self.credit.get();
        if credit >= SUCCESS {
            self.pauses.set(0);
        }
        if credit >= MISS || weakened!("misses_are_free") {
            let taken = u16::from(self.taken.get()) + (credit / SUCCESS).max(1);
            let is_due = inspects && taken >= INSPECTION / SUCCESS;
            self.taken.set(if is_due { 0 } else { taken.min(u16::from(u8::MAX)) as u8 });
            self.credit.set(if is_due { INSPECTION } else { credit.saturating_sub(MISS).min(MOST) });
            return true;
        }
        self.pause();
        false
    }
}

#[cfg(test)]
mod tests {
    use super::{GuestCredit, INSPECTION, MISS, MOST_PAUSES, SUCCESS};

    /// Makes up to `misses` misses, and earns credits for `guests` guests before each of them.
    /// Returns the number of the miss that closes the heap, or `None` if no miss does.
    fn misses_until_closed(credit: &GuestCredit, guests: u16, misses: usize) -> Option<usize> {
        (1..=misses).find(|_| {
            (0..guests).for_each(|_| credit.earn(1));
            !credit.misses(true)
        })
    }

    #[test]
    fn pauses_double_while_guests_do_not_pay() {
        let credit = GuestCredit::new();
        let shown = if cfg!(miri) { 6 } else { 13 };
        for pause in [1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 2047, 4095, 4095].into_iter().take(shown) {
            assert!(credit.begins());
            assert_eq!(misses_until_closed(&credit, 1, 10), Some(2), "before a pause of {pause} fronts");
            let fronts = (0..).take_while(|_| !credit.begins()).count();
            assert_eq!(fronts, pause);
            credit.left.set(0);
            // Keep an inspection from becoming due.
            credit.taken.set(0);
        }
    }

    #[test]
    fn a_pause_for_sparse_units_is_long_after_any_number_of_successes() {
        let credit = GuestCredit::new();
        for _ in 0..3 {
            assert!(credit.begins());
            (0..SUCCESS).for_each(|_| credit.earn(1));
            assert!(credit.misses(true));
            credit.pause_for_sparse_units();
            assert_eq!((0..).take_while(|_| !credit.begins()).count(), 63);
            credit.left.set(0);
        }
    }

    #[test]
    fn guests_that_outnumber_misses_keep_the_heap_open() {
        let credit = GuestCredit::new();
        credit.pauses.set(MOST_PAUSES);
        assert!(credit.begins());
        assert_eq!(misses_until_closed(&credit, 2 * MISS, 200), None);
        assert_eq!(misses_until_closed(&credit, SUCCESS, 1), None);
        assert_eq!(credit.pauses.get(), 0, "the next pause is short");
    }

    #[test]
    fn an_inspection_is_due_after_a_number_of_guests_without_a_miss() {
        let credit = GuestCredit::new();
        assert!(credit.begins());
        (0..INSPECTION).for_each(|_| credit.earn(1));
        assert!(credit.is_inspection_due());
        credit.inspected();
        assert!(!credit.is_inspection_due());
    }

    #[test]
    fn an_inspection_that_closes_no_heap_shortens_the_next_pause() {
        let credit = GuestCredit::new();
        let fronts = || (0..).take_while(|_| !credit.begins()).count();
        credit.pause_for_sparse_units();
        let first = fronts();
        credit.pause_for_sparse_units();
        assert!(fronts() > first);
        credit.inspected();
        credit.succeed();
        credit.pause_for_sparse_units();
        assert_eq!(fronts(), first);
    }

    #[test]
    fn an_inspection_is_due_although_misses_take_credits() {
        let credit = GuestCredit::new();
        assert!(credit.begins());
        let guests = 200;
        let misses = (0..1_000)
            .take_while(|_| {
                (0..guests).for_each(|_| credit.earn(1));
                assert!(credit.misses(true));
                !credit.is_inspection_due()
            })
            .count();
        assert!(misses <= usize::from(2 * INSPECTION / guests), "{misses} misses");
    }
}
