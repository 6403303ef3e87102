//! Frees empty units that a heap learned to keep and no longer needs.
//!
//! A heap keeps one more empty unit each time it needs a unit after it freed one. So it must also
//! keep fewer after the load has changed. Over a number of slow paths, it notes the least number of
//! its empty units, which the load did not need. The next slow paths free them, one each.

use core::cell::Cell;

use ephemera_prim::unit_list::UnitList;

use super::{PoolEnv, UnitHeap, slow};

/// The least number of new fronts between two looks.
const LOOK_EVERY: usize = 64;

/// Counts of a heap's empty units, and of those that it learned to keep. Only the heap's owner uses
/// them.
#[derive(Debug)]
pub(super) struct KeptUnits {
    /// New fronts since the last look.
    fronts: Cell<usize>,
    /// The least number of empty units since the last look.
    lowest: Cell<usize>,
    /// The number of units that the heap keeps because it freed and then needed them.
    learned: Cell<usize>,
    /// The number of units that the load does not need and that are not freed yet.
    surplus: Cell<usize>,
}

impl KeptUnits {
    pub(super) const fn new() -> Self {
        Self { fronts: Cell::new(0), lowest: Cell::new(0), learned: Cell::new(0), surplus: Cell::new(0) }
    }

    /// Returns the number of units that the heap keeps because it freed and then needed them.
    #[inline]
    pub(super) fn learned(&self) -> usize {
        if cfg!(ephemera_weaken = "learned_units_first") { 0 } else { self.learned.get() }
    }

    /// Notes that the heap keeps one more unit.
    pub(super) fn learn(&self) {
        self.learned.set(self.learned.get() + 1);
    }

    /// Notes that the heap keeps no unit that it learned to keep.
    pub(super) fn forget_all(&self) {
        self.learned.set(0);
        self.surplus.set(0);
    }

    /// Notes that an empty unit was taken, and that this number of them is left.
    #[inline]
    pub(super) fn note_taken(&self, left: usize) {
        self.lowest.set(self.lowest.get().min(left));
    }
}

/// Counts a new front, looks for units that the load does not need if it is time, and frees one
/// of them.
#[inline]
pub(super) fn note_new_front<E: PoolEnv>(env: E) {
    let heap = env.heap();
    let fronts = heap.kept.fronts.get() + 1;
    heap.kept.fronts.set(fronts);
    if fronts >= LOOK_EVERY {
        find_unneeded(heap, fronts);
    }
    if heap.kept.surplus.get() != 0 {
        free_unneeded(env);
    }
}

/// Finds out how many units the load does not need, after twice as many new fronts as the heap has
/// units. A load that rises to all units again and again reaches its peak in that time.
#[cold]
#[inline(never)]
fn find_unneeded(heap: &UnitHeap, fronts: usize) {
    let kept = &heap.kept;
    if fronts / 2 < heap.units_len.get() {
        return;
    }
    let unneeded = kept.lowest.get().saturating_sub(heap.keep.get() - kept.learned.get());
    if !cfg!(ephemera_weaken = "learned_units_stay") {
        kept.surplus.set(unneeded.min(kept.learned.get()));
    }
    kept.fronts.set(0);
    kept.lowest.set(heap.empties_len.get());
}

/// Frees an empty unit and keeps one less, unless the load needs the units again by now.
#[cold]
#[inline(never)]
fn free_unneeded<E: PoolEnv>(env: E) {
    let heap = env.heap();
    let kept = &heap.kept;
    let (keep, learned) = (heap.keep.get(), kept.learned.get());
    if heap.empties_len.get() <= keep - learned {
        kept.surplus.set(0);
        return;
    }
    let Some(unit) = heap.pop_empty() else { return };
    // The backing allocator may allocate from this heap, so the numbers change before it is called.
    heap.keep.set(keep - 1);
    kept.learned.set(learned - 1);
    kept.surplus.set(kept.surplus.get() - 1);
    if !slow::give_back(env, unit, UnitList::remove) {
        slow::keep_empty(env, unit);
    }
}

/// Does what [`slow::trim`] does at the end of a scope, but keeps one empty unit that the scope
/// used, if it has at most `most` bytes. The unit counts for no scope until the next one allocates
/// from it. Returns the bytes of that unit, and whether all others were freed.
#[cfg_attr(ephemera_loom, expect(dead_code, reason = "models have no pool of heaps"))]
pub(crate) fn trim_keeping_one<E: PoolEnv>(env: E, most: usize) -> (usize, bool) {
    env.settle();
    let heap = env.heap();
    heap.owned.write();
    heap.give_up_front();
    let first = heap.pop_empty();
    let bytes = first.map_or(0, |unit| heap.spec.layout(unit.slots()).size());
    let keeps = first.is_some_and(|unit| bytes <= most && env.is_current(unit.birth()));
    if let Some(unit) = first.filter(|_| !keeps) {
        heap.push_empty(unit);
    }
    let all = slow::give_back_empties(env);
    let Some(unit) = first.filter(|_| keeps) else { return (0, all) };
    env.uncount_unit(bytes, unit.birth());
    unit.set_birth(0);
    slow::keep_empty(env, unit);
    (bytes, all)
}
