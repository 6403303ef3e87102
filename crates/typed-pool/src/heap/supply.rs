//! Requests units from the backing allocator, and keeps or frees units that become empty.

use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;
use ephemera_prim::account::{Account, Leaving, Limit, reserved};
use ephemera_prim::raw;
use ephemera_prim::unit_list::UnitList;

pub(crate) use super::LeftUnits;
use super::list::UnlistedUnits;
use super::{PoolEnv, UnitHeap};
use crate::slot_group::SlotGroupPtr;
use crate::unit::{Unit, UnitPtr};

/// Requests one unit of `slots` slots under the limit. The new unit is empty, and is on no list
/// except that of all units.
pub(super) fn acquire<E: PoolEnv>(env: E, slots: usize) -> Result<UnitPtr, AllocError> {
    acquire_under(env, Limit::Applies, slots)
}

/// Requests one unit like [`acquire`]. `limit` says whether the limit applies.
pub(super) fn acquire_under<E: PoolEnv>(env: E, limit: Limit, slots: usize) -> Result<UnitPtr, AllocError> {
    let heap = env.heap();
    let layout = heap.spec.layout(slots);
    let memory = reserved(env.account(), layout.size(), limit, || raw::acquire(env.backing(), layout))?;
    let birth = env.count_unit(layout.size());
    // SAFETY: the memory was just acquired with this layout.
    let unit = unsafe { UnitPtr::create(memory, heap.spec, slots, (env.identity(), birth)) };
    // SAFETY: the caller owns the heap (H1), and the unit is new, so it is on no list yet (H6).
    unsafe { heap.units.add(unit.as_non_null()) };
    heap.units_len.set(heap.units_len.get() + 1);
    heap.slots_len.set(heap.slots_len.get() + slots);
    Ok(unit)
}

/// Keeps a unit that became empty, or frees it and other surplus units. The unit must not be the
/// front.
///
/// The surplus includes units that an earlier call could not free because a walker protected them.
pub(super) fn keep_or_free<E: PoolEnv>(env: E, unit: UnitPtr) {
    let heap = env.heap();
    heap.owned.write();
    heap.unlist(unit);
    unit.rewind(heap.spec);
    if heap.empties_len.get() < empties_to_keep(heap) {
        return keep_empty(env, unit);
    }
    let mut surplus = Some(unit);
    while let Some(unit) = surplus.take() {
        if !give_back(env, unit, UnitList::remove) {
            return keep_empty(env, unit);
        }
        if heap.empties_len.get() > empties_to_keep(heap) && !weakened!("surplus_stays") {
            surplus = heap.pop_empty();
        }
    }
}

/// Returns the number of empty units that the heap keeps now. A heap that hosts keeps one less,
/// because the unit of its guest may have no live slot.
fn empties_to_keep(heap: &UnitHeap) -> usize {
    let of_guest = heap.is_hosting() && !weakened!("units_of_guests_are_extra");
    heap.kept.keep().saturating_sub(usize::from(of_guest))
}

/// Keeps an empty unit, and counts it in the account, because a thread whose request was refused
/// may need the unit.
pub(super) fn keep_empty<E: PoolEnv>(env: E, unit: UnitPtr) {
    env.heap().push_empty(unit);
    env.account().spare();
}

/// A function that removes a unit from the list of all units, or returns `false` if a walker
/// protects the unit.
type Remove = unsafe fn(&UnitList<Unit>, NonNull<Unit>) -> bool;

/// A [`Remove`] that waits a bounded time for walkers. Models do not wait: loom runs the walker
/// during each pause, so no walker would protect its unit during the whole wait.
const PATIENT: Remove = if cfg!(ephemera_loom) { UnitList::remove } else { UnitList::remove_patiently };

/// Frees an empty unit that is not among the empties. Returns `false` without freeing the unit if a
/// walker protects it; the caller must then keep the unit.
fn give_back<E: PoolEnv>(env: E, unit: UnitPtr, remove: Remove) -> bool {
    let heap = env.heap();
    // SAFETY: the caller owns the heap (H1), and its units are on the list of all units (H6).
    if !unsafe { remove(&heap.units, unit.as_non_null()) } {
        return false;
    }
    heap.units_len.set(heap.units_len.get() - 1);
    heap.slots_len.set(heap.slots_len.get() - unit.slots());
    heap.kept.note_freed();
    let layout = heap.spec.layout(unit.slots());
    env.uncount_unit(layout.size(), unit.birth());
    // This guard releases the bytes after the deallocation, because another thread may request
    // bytes as soon as they are released.
    let _booked = Leaving::new(env.account(), layout.size());
    // SAFETY: the unit came from `backing` with this layout. It has no live slot and is on no list
    // (H4, H6), so no pointer to it is left.
    unsafe { raw::release(env.backing(), unit.end_of_life(), layout) };
    true
}

/// Books remote frees, then frees every empty unit, including an empty front. Returns `false` if
/// some units stayed because a walker protected them for too long.
pub(crate) fn trim<E: PoolEnv>(env: E) -> bool {
    env.book_mail();
    let heap = env.heap();
    heap.owned.write();
    heap.give_up_front(env);
    heap.grown.set(0);
    give_back_empties(env)
}

/// Frees all empty units, and waits a bounded time for walkers. Also resets the number of empty
/// units to keep. Returns `false` if some units stayed.
pub(super) fn give_back_empties<E: PoolEnv>(env: E) -> bool {
    let all = give_back_beyond(env, 0, PATIENT);
    env.heap().kept.forget_all(env.heap().spec.kept());
    all
}

/// Frees empty units until the heap has at most `keep` of them. Returns `false` if some units
/// stayed because a walker protected them.
fn give_back_beyond<E: PoolEnv>(env: E, keep: usize, remove: Remove) -> bool {
    let heap = env.heap();
    let mut stay = UnlistedUnits::default();
    while heap.empties_len.get() > keep {
        let Some(unit) = heap.pop_empty() else { break };
        if !give_back(env, unit, remove) {
            stay.push(unit);
        }
    }
    let all = stay.is_empty();
    while let Some(unit) = stay.pop() {
        heap.push_empty(unit);
    }
    all
}

/// Books the remote frees of one group. `given` is the foreign word that was taken with the group.
/// Returns whether the unit is the front or has a live slot. Otherwise the unit is empty, and has
/// been kept or freed.
pub(crate) fn book<E: PoolEnv>(env: E, group: SlotGroupPtr, given: u64) -> bool {
    let (heap, unit) = (env.heap(), group.unit());
    heap.owned.write();
    let given = group.freed(given);
    if heap.front() == Some(unit) {
        heap.local.free.set(group.link(given, heap.spec, heap.local.free.get()));
        return true;
    }
    let (count, until) = (given.count_ones() as usize, unit.until().get());
    let live = unit.live() - count;
    if live == 0 {
        if unit.is_abandoned() {
            unit.set_abandoned(false);
        }
        // If other threads empty many whole units, the units of the heap rest (see `rest`).
        if unit.slots() == heap.spec.slots && env.may_rest() {
            heap.kept.note_emptied();
        }
        keep_or_free(env, unit);
        return false;
    }
    group.keep_home(given);
    if count < until {
        unit.until().publish(until - count);
    } else {
        heap.enqueue(unit, live);
    }
    true
}

/// Sets whether units of the heap rest from now on. If they no longer rest, the heap frees the
/// empty units that it learned to keep. A heap with more units than [`UnitHeap::units_for_rest`]
/// does not free them, because it learned their number from bursts, not from resting.
pub(crate) fn set_resting<E: PoolEnv>(env: E, rests: bool) {
    let heap = env.heap();
    heap.kept.set_resting(rests);
    if !rests && heap.units_len.get() <= heap.units_for_rest() {
        heap.kept.unlearn_all();
        give_back_beyond(env, empties_to_keep(heap), UnitList::remove);
    }
}

/// Counts a new front, or an inspection. Frees one empty unit if the load does not need it.
#[inline]
pub(super) fn note_new_front<E: PoolEnv>(env: E) {
    let heap = env.heap();
    if heap.kept.note_front() {
        let units = (heap.units_len.get(), heap.units_for_rest());
        heap.kept.find_unneeded(units, heap.empties_len.get());
    }
    if heap.kept.has_surplus() {
        free_unneeded(env);
    }
}

/// Frees an empty unit that the load does not need, unless a walker protects it, and lowers the
/// number of units to keep by one. Does neither if the heap no longer has such a unit.
#[cold]
#[inline(never)]
fn free_unneeded<E: PoolEnv>(env: E) {
    let heap = env.heap();
    // Change the numbers before calling the backing allocator, which may allocate from this heap.
    if !heap.kept.unlearn(heap.empties_len.get()) {
        return;
    }
    let Some(unit) = heap.pop_empty() else { return };
    if !give_back(env, unit, UnitList::remove) {
        keep_empty(env, unit);
    }
}

/// Trims a heap at the end of its scope, but keeps up to `most` bytes of units: the front if it is
/// set aside, and empty units. These units count for no scope until the next scope installs or
/// inherits them. Returns the size of these units in bytes, and whether all other empty units were
/// freed.
pub(crate) fn trim_keeping<E: PoolEnv>(env: E, most: usize, left: LeftUnits) -> (usize, bool) {
    env.book_mail();
    let heap = env.heap();
    heap.owned.write();
    if !weakened!("fronts_aside_keep_a_guest") {
        heap.dismiss_guest(env);
    }
    let aside = heap.set_front_aside(most, left);
    if aside.is_none() {
        if !weakened!("inherited_fronts_count_to_the_end") {
            heap.disown_front(env);
        }
        heap.give_up_front(env);
    }
    // After a dropped scope, the heap continues to request units of the length that it grew to and
    // does not keep shorter ones, so the next scope needs fewer units. This does not apply after a
    // finished scope, because a finished scope counts the slots of its fronts, which takes longer
    // for long units.
    let units = heap.units_len.get();
    if units == 0 && !weakened!("unused_classes_stay_grown") {
        heap.grown.set(0);
    } else if left.aside {
        heap.grown.set(heap.grown.get().max(u8::try_from(units).unwrap_or(u8::MAX)));
    }
    if heap.empties_len.get() == 0 {
        heap.kept.forget_all(heap.spec.kept());
        return (aside.unwrap_or(0), true);
    }
    let least = if left.aside { heap.next_chunk(env).0 } else { 0 };
    let mut bytes = aside.unwrap_or(0);
    let (mut kept, mut surplus) = (UnlistedUnits::default(), UnlistedUnits::default());
    while let Some(unit) = heap.pop_empty() {
        let size = heap.bytes_of(unit);
        let stays = left.unused || env.is_current(unit.birth());
        if !stays || unit.slots() < least || bytes + size > most {
            surplus.push(unit);
            continue;
        }
        bytes += size;
        env.uncount_unit(size, unit.birth());
        unit.set_birth(0);
        kept.push(unit);
    }
    while let Some(unit) = surplus.pop() {
        heap.push_empty(unit);
    }
    let all = give_back_empties(env);
    while let Some(unit) = kept.pop() {
        keep_empty(env, unit);
    }
    (bytes, all)
}
