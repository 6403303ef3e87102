//! Abandons units that have live slots but no owner, because the thread that owned them ended or
//! left its scope.
//!
//! Without a countdown, each remote free to such a unit would push the slot's group, and the
//! freeing thread would lease the record to drain the inbox. Instead, when such a thread first
//! drains a group, it makes the group's unit *abandoned* and starts the group's countdown. Frees
//! during the countdown only set a bit each, and the free that completes the countdown pushes the
//! group again.
//!
//! The free slots of an abandoned unit are bits in its groups; none of these slots is linked. The
//! unit waits in the queue until its last live slot is freed, or until the next holder of the
//! record *adopts* it. That holder stops the countdowns and books the frees that they counted.

use super::{PoolEnv, UnitHeap, supply};
use crate::slot_group::SlotGroupPtr;

/// Books the remote frees of a heap and frees its empty units, for a thread that leases the record
/// only for that. Abandons each unit that still has a live slot after some of its frees were booked
/// here, unless another thread has claimed the unit's slots. Returns `false` if some empty units
/// were not freed because a walker protected them.
pub(crate) fn drain<E: PoolEnv>(env: E) -> bool {
    let heap = env.heap();
    heap.owned.write();
    heap.give_up_front(env);
    for (group, given) in env.mail() {
        if supply::book(env, group, given) {
            heap.abandon(group);
        }
    }
    supply::give_back_empties(env)
}

impl UnitHeap {
    /// Abandons the unit of a group that was just booked, unless it is abandoned already, and
    /// starts the group's countdown.
    ///
    /// If another thread has claimed the unit's slots, the unit is only queued. All of its slots
    /// are probably free. If so, the unit becomes empty when all of its groups are drained.
    fn abandon(&self, group: SlotGroupPtr) {
        let (unit, live) = (group.unit(), group.unit().live());
        if !unit.is_abandoned() {
            self.unlist(unit);
            let usable = self.may_use_slots(unit);
            if usable {
                unit.fold(self.spec);
            }
            unit.set_live(live, live);
            self.queue_last(unit);
            if !usable {
                return;
            }
            unit.set_abandoned(true);
        }
        group.start_countdown();
    }
}
