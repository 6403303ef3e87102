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
pub(super) struct IdleUnits {
    /// New fronts since the last look.
    fronts: Cell<usize>,
    /// The least number of empty units since the last look.
    lowest: Cell<usize>,
    /// The number of units that the heap keeps because it freed and then needed them.
    learned: Cell<usize>,
    /// The number of units that the last look found idle and that are not freed yet.
    surplus: Cell<usize>,
}

impl IdleUnits {
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
    pub(super) fn taken(&self, left: usize) {
        self.lowest.set(self.lowest.get().min(left));
    }
}

/// Counts a new front, looks for idle units if it is time, and frees one idle unit.
#[inline]
pub(super) fn after_new_front<E: PoolEnv>(env: E) {
    let heap = env.heap();
    let fronts = heap.idle.fronts.get() + 1;
    heap.idle.fronts.set(fronts);
    if fronts >= LOOK_EVERY {
        look(heap, fronts);
    }
    if heap.idle.surplus.get() != 0 {
        free_one(env);
    }
}

/// Finds out how many units are idle, after twice as many new fronts as the heap has units. A load
/// that rises to all units again and again reaches its peak in that time.
#[cold]
#[inline(never)]
fn look(heap: &UnitHeap, fronts: usize) {
    let idle = &heap.idle;
    if fronts / 2 < heap.units_len.get() {
        return;
    }
    let unneeded = idle.lowest.get().saturating_sub(heap.keep.get() - idle.learned.get());
    if !cfg!(ephemera_weaken = "learned_units_stay") {
        idle.surplus.set(unneeded.min(idle.learned.get()));
    }
    idle.fronts.set(0);
    idle.lowest.set(heap.empties_len.get());
}

/// Frees an empty unit and keeps one less, unless the load needs the units again by now.
#[cold]
#[inline(never)]
fn free_one<E: PoolEnv>(env: E) {
    let heap = env.heap();
    let idle = &heap.idle;
    let (keep, learned) = (heap.keep.get(), idle.learned.get());
    if heap.empties_len.get() <= keep - learned {
        idle.surplus.set(0);
        return;
    }
    let Some(unit) = heap.pop_empty() else { return };
    // The backing allocator may allocate from this heap, so the numbers change before it is called.
    heap.keep.set(keep - 1);
    idle.learned.set(learned - 1);
    idle.surplus.set(idle.surplus.get() - 1);
    if !slow::give_back(env, unit, UnitList::remove) {
        slow::keep_empty(env, unit);
    }
}

/// Does what [`slow::trim`] does at the end of a scope, but keeps one empty unit that the scope
/// used, if it is not larger than `room`. The unit counts for no scope until the next one allocates
/// from it. Returns the bytes of that unit, and whether all others were freed.
#[cfg_attr(ephemera_loom, expect(dead_code, reason = "models have no pool of heaps"))]
pub(crate) fn end_scope<E: PoolEnv>(env: E, room: usize) -> (usize, bool) {
    env.settle();
    let heap = env.heap();
    heap.owned.write();
    heap.give_up_front();
    let first = heap.pop_empty();
    let bytes = first.map_or(0, |unit| heap.spec.layout(unit.slots()).size());
    let keeps = first.is_some_and(|unit| bytes <= room && env.is_current(unit.birth()));
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
