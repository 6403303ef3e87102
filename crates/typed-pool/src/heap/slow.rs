//! The slow path of an allocation: it chooses the next front, or requests units.

use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;
use ephemera_prim::account::Limit;

use super::supply::{acquire, acquire_under, keep_empty, note_new_front};
use super::{AllocEnv, PoolEnv};
use crate::unit::{UnitPtr, UnitState};

/// Allocates a slot for a value of `size` bytes, after the fast path found none.
///
/// Tries the front again, then a unit of the queue, then an empty unit. The front may have free
/// slots that the heap withholds, from an earlier scope, or from remote frees that this visit
/// booked. If no unit serves, `refill` books remote frees and tries again. Booking comes second,
/// because it takes the cache line of each group from another core. Empty units that the heap
/// learned to keep come only after the booking, because the heap would otherwise rotate through
/// them, and `kept` would find all of them needed. Finally, `refill` requests a unit from the
/// backing allocator.
///
/// While units rest (`rest`), the heap uses all of its empty units before it books. If it has fewer
/// units than [`UnitHeap::units_for_rest`], it tries to request a new unit before it takes one of
/// the queue.
#[cold]
#[inline(never)]
pub(crate) fn refill<E: AllocEnv>(env: E, size: usize) -> Result<NonNull<u8>, AllocError> {
    let heap = env.heap();
    heap.owned.write();
    heap.inherit_front(env);
    if let Some(slot) = heap.take_withheld(size).or_else(|| heap.take(size)) {
        return Ok(slot);
    }
    if heap.grows_for_rest(env) {
        if let Ok(unit) = acquire(env, heap.next_chunk(env).0) {
            heap.kept.note_request(heap.spec.kept_at_most());
            heap.install(env, unit);
            return heap.take(size).ok_or(AllocError);
        }
    }
    let uses_all = heap.kept.has_resting() && !weakened!("resting_units_stay");
    let stay = if uses_all { 0 } else { heap.kept.learned() };
    match install_next(env, size, stay) {
        Some(slot) => Ok(slot),
        None => refill_by_booking(env, size),
    }
}

/// Continues [`refill`]: books remote frees and tries again, then requests units.
#[cold]
#[inline(never)]
fn refill_by_booking<E: AllocEnv>(env: E, size: usize) -> Result<NonNull<u8>, AllocError> {
    let heap = env.heap();
    env.book_mail();
    if let Some(slot) = heap.take(size).or_else(|| install_next(env, size, 0)) {
        return Ok(slot);
    }
    heap.give_up_front(env);
    heap.install(env, request_units(env)?);
    heap.take(size).ok_or(AllocError)
}

/// Installs the next front of the heap and takes a slot of it. Takes an empty unit only if the heap
/// has more than `stay` of them. Returns `None` if no unit can become the front, or if the backing
/// allocator, called to free a unit, used all slots of the new front.
#[inline]
fn install_next<E: PoolEnv>(env: E, size: usize, stay: usize) -> Option<NonNull<u8>> {
    let heap = env.heap();
    heap.install(env, next_front(env, stay)?);
    note_new_front(env);
    heap.take(size)
}

/// The maximum number of slots in a unit that [`refill_beyond`] requests.
const BEYOND_LEN: usize = 8;
/// The maximum size, in bytes, of a unit that [`refill_beyond`] requests, unless the unit has a
/// single slot.
const BEYOND_BYTES: usize = 9 << 10;

/// Allocates a slot for a block that shrinks, after [`refill`] has failed. Requests a short unit,
/// even if that unit exceeds the limit.
#[cold]
pub(crate) fn refill_beyond<E: PoolEnv>(env: E, size: usize) -> Result<NonNull<u8>, AllocError> {
    let heap = env.heap();
    heap.give_up_front(env);
    let mut slots = heap.spec.slots.min(BEYOND_LEN);
    while slots > 1 && heap.spec.end(slots) > BEYOND_BYTES {
        slots -= 1;
    }
    heap.install(env, acquire_under(env, Limit::Lifted, slots)?);
    heap.take(size).ok_or(AllocError)
}

/// Requests units with `slots` slots in total, and keeps them as empties. If a request fails, the
/// heap keeps the units that it already got.
pub(crate) fn reserve<E: PoolEnv>(env: E, slots: usize) -> Result<(), AllocError> {
    let heap = env.heap();
    let mut left = slots;
    while left != 0 {
        let now = left.min(heap.spec.slots);
        heap.push_empty(acquire(env, now)?);
        heap.kept.note_reserved();
        left -= now;
    }
    Ok(())
}

/// Requests units from the backing allocator. Returns one of them, and keeps the others as empties.
/// At a limit or after a refusal, the result may be a unit that the heap already had.
fn request_units<E: AllocEnv>(env: E) -> Result<UnitPtr, AllocError> {
    let heap = env.heap();
    let (mut slots, units) = heap.next_chunk(env);
    if env.is_at_limit(heap.spec.layout(slots).size()) {
        // The trim also books remote frees.
        env.trim_all();
        if let Some(unit) = next_front(env, 0) {
            return Ok(unit);
        }
        if !weakened!("trims_shorten_no_request") {
            slots = heap.next_chunk(env).0;
        }
    }
    let first = match acquire(env, slots) {
        Ok(unit) => unit,
        Err(AllocError) => {
            // Try full units with a free slot first, because taking one of them does not affect
            // other heaps.
            if let Some(unit) = take_scraped(env) {
                return Ok(unit);
            }
            env.last_resort();
            // `last_resort` may have booked remote frees.
            match next_front(env, 0).or_else(|| take_scraped(env)) {
                Some(unit) => return Ok(unit),
                None => acquire_shorter(env, slots)?,
            }
        }
    };
    heap.kept.note_request(heap.spec.kept_at_most());
    if units == 1 {
        return Ok(first);
    }
    // Keep `first` among the empties during the further requests, because the backing allocator may
    // unwind or allocate from this heap.
    heap.push_empty(first);
    for _ in 1..units {
        match acquire(env, slots) {
            Ok(unit) => keep_empty(env, unit),
            Err(AllocError) => break,
        }
    }
    heap.pop_empty().ok_or(AllocError)
}

/// Requests a unit of `slots` slots. After each refusal, requests one of half as many slots, down
/// to a single slot.
fn acquire_shorter<E: PoolEnv>(env: E, slots: usize) -> Result<UnitPtr, AllocError> {
    match acquire(env, slots) {
        Err(AllocError) if slots > 1 => acquire_shorter(env, slots / 2),
        answer => answer,
    }
}

/// Takes the first unit of the queue from which the heap may allocate. If there is none, takes the
/// empty unit that was kept last, provided that the heap has more than `stay` empty units.
/// Otherwise returns `None`.
#[inline]
fn next_front<E: PoolEnv>(env: E, stay: usize) -> Option<UnitPtr> {
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
fn take_scraped<E: PoolEnv>(env: E) -> Option<UnitPtr> {
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
        unit.set_birth(env.count_unit(env.heap().bytes_of(unit)));
    }
    Some(unit)
}
