//! Units that a thread left with live slots when it ended.
//!
//! Nobody holds the record of such a unit, so each group that other threads free to would be pushed, and the record
//! leased, for every free. Instead the first look at a group makes its unit *abandoned* and starts the group's countdown:
//! the free that completes it pushes the group again, and the frees in between set a bit and nothing else.
//!
//! The free slots of an abandoned unit are bits, none is linked. It waits in the queue, and the next holder of the
//! record *adopts* it there: it stops the countdowns and books the bits that arrived.

use super::{Env, Heap, slow};
use crate::group::GroupPtr;
use crate::unit::{Place, UnitPtr};

/// Books the remote frees of a heap and gives back its empty units, for a thread that holds the record for this one
/// moment. Units with live slots become abandoned. Returns `false` if empty units stayed because a walker stood on them.
pub(crate) fn drain<E: Env>(env: E) -> bool {
    let heap = env.heap();
    heap.owned.write();
    heap.give_up_front();
    for (group, given) in env.mail() {
        if slow::book(env, group, given) {
            heap.abandon(group);
        }
    }
    slow::give_back_empties(env)
}

impl Heap {
    /// Abandons the unit of a group that was just booked, and starts the group's countdown.
    fn abandon(&self, group: GroupPtr) {
        let unit = group.unit();
        if unit.place() != Place::Abandoned {
            unit.fold(self.spec);
            self.enqueue(unit, unit.live());
            unit.set_place(Place::Abandoned);
            unit.set_abandoned(true);
        }
        group.start_countdown();
    }
}

/// Makes an abandoned unit one of the queue again. Returns `false` if a countdown is complete whose group is not
/// dequeued yet: its bits are booked first, and the unit stays abandoned until then.
///
/// Bits of a complete countdown do not say which slots were freed during it, only the unit's `home` bits do, and these
/// change when the unit becomes the front.
pub(super) fn adopt(unit: UnitPtr) -> bool {
    let (mut live, mut complete) = (unit.live(), false);
    for group in unit.groups() {
        match group.stop_countdown() {
            Some(freed) => live -= freed,
            None => complete = true,
        }
    }
    unit.set_live(live, live);
    if !complete {
        unit.set_abandoned(false);
        unit.set_place(Place::Partial);
    }
    !complete
}
