//! Chooses the next front of a heap.

use super::PoolEnv;
use crate::unit::{UnitPtr, UnitState};

/// Takes the first unit of the queue from which the heap may allocate. If there is none, takes the
/// empty unit that was kept last, provided that the heap has more than `stay` empty units.
/// Otherwise returns `None`.
#[inline]
pub(super) fn next_front<E: PoolEnv>(env: E, stay: usize) -> Option<UnitPtr> {
    let heap = env.heap();
    if heap.first_in_queue().is_some_and(UnitPtr::is_abandoned) {
        // An abandoned unit with a complete countdown can be adopted only after that countdown is
        // booked.
        env.book_mail();
    }
    pop_queue(env).or_else(|| if heap.empties_len.get() > stay { pop_empty(env) } else { None })
}

/// Takes the first unit of the queue from which the heap may allocate, if there is one. The units
/// before it that the heap does not [serve](PoolEnv::serves) leave the queue. Each of those units
/// is on none of the owner's lists until its last live slot is freed.
#[inline]
fn pop_queue<E: PoolEnv>(env: E) -> Option<UnitPtr> {
    loop {
        let unit = env.heap().pop_queue()?;
        if env.serves(unit.birth()) {
            return Some(unit);
        }
        unit.set_state(UnitState::Visited);
    }
}

/// Queues all full units with a free slot, then takes a unit of the queue, if there is one from
/// which the heap may allocate. The heap may have a guest here, if the backing allocator used the
/// pool before it refused a request. This function dismisses the guest first, because the guest's
/// unit could otherwise become empty after it was chosen as the next front.
pub(super) fn take_scraped<E: PoolEnv>(env: E) -> Option<UnitPtr> {
    if !weakened!("units_are_taken_before_their_guest") {
        env.heap().dismiss_guest(env);
    }
    env.heap().scrape();
    pop_queue(env)
}

/// Takes the empty unit that was kept last, if there is one. If an earlier scope left the unit, the
/// unit counts for the current scope from now on.
#[inline]
fn pop_empty<E: PoolEnv>(env: E) -> Option<UnitPtr> {
    let unit = env.heap().pop_empty()?;
    if !env.is_current(unit.birth()) {
        let bytes = env.heap().spec.layout(unit.slots()).size();
        unit.set_birth(env.count_unit(bytes));
    }
    Some(unit)
}
