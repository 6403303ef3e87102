//! The slow path of a local free, and inspections.
//!
//! A local free calls [`reclassify`] if it lowers an `until` to zero. An *inspection* checks
//! whether the unit of a freed slot is sparse, and tells the record whether the unit is the front.

use super::supply::{keep_or_free, note_new_front};
use super::{AllocEnv, PoolEnv};
use crate::unit::UnitPtr;

/// Handles a unit after a local free of one of its slots lowered an `until` to zero. If that was
/// the `until` of the heap, inspects the unit. If it was the unit's own, notes an event, queues the
/// unit if it has live slots, and otherwise keeps or frees it.
///
/// One function handles both, so that the fast path of a free has only one call and stays small
/// enough to be inlined.
#[cold]
#[inline(never)]
pub(super) fn reclassify<E: AllocEnv>(env: E, unit: UnitPtr) {
    let heap = env.heap();
    if heap.local.until.get() == 0 {
        inspect(env, unit);
        return visit(env);
    }
    heap.note_frees(env);
    let live = unit.live();
    if live == 0 {
        keep_or_free(env, unit);
    } else {
        heap.enqueue(unit, live);
    }
}

/// Inspects `unit`, and notes an event for the decision whether frees select. The unit is a sample
/// of the units to which frees go.
pub(super) fn inspect<E: PoolEnv>(env: E, unit: UnitPtr) {
    if !weakened!("inspections_are_no_events") {
        env.heap().note_inspection(env, unit);
    }
    env.heap().close_if_sparse(env, unit);
}

/// Does the regular work of an allocation's slow path: the work for other threads, and the search
/// for empty units that the load does not need. Every caller of [`inspect`] also calls this
/// function, because a thread that only replaces blocks never takes that slow path.
pub(super) fn visit<E: AllocEnv>(env: E) {
    if !weakened!("guests_replace_the_slow_path") {
        env.visit();
        if !weakened!("inspections_count_no_front") {
            note_new_front(env);
        }
    }
}
