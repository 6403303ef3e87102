//! Chooses the next front of a heap.

use super::PoolEnv;
use crate::unit::{UnitPtr, UnitState};

/// Takes the unit that has waited longest in the queue, or else the empty unit that was kept last,
/// if there are more than `stay` of them.
#[inline]
pub(super) fn next_front<E: PoolEnv>(env: E, stay: usize) -> Option<UnitPtr> {
    let heap = env.heap();
    if heap.first_in_queue().is_some_and(|unit| unit.state() == UnitState::Abandoned) {
        // A complete countdown keeps its unit from being adopted until it is booked.
        env.book_mail();
    }
    pop_queue(env).or_else(|| if heap.empties_len.get() > stay { pop_empty(env) } else { None })
}

/// Takes the unit that has waited longest, of those that the heap may allocate from. The others
/// leave the queue until their last slot is freed.
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

/// Takes a unit of the queue after all full units with a free slot were queued.
pub(super) fn take_scraped<E: PoolEnv>(env: E) -> Option<UnitPtr> {
    env.heap().scrape();
    pop_queue(env)
}

/// Takes the empty unit that was kept last. If an earlier scope left the unit, it counts for the
/// scope that allocates from it now.
#[inline]
fn pop_empty<E: PoolEnv>(env: E) -> Option<UnitPtr> {
    let unit = env.heap().pop_empty()?;
    if !env.is_current(unit.birth()) {
        let bytes = env.heap().spec.layout(unit.slots()).size();
        unit.set_birth(env.count_unit(bytes));
    }
    Some(unit)
}
