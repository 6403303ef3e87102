//! The slow path: it finds the next front, requests units, and frees them.
//!
//! Allocations from the front and frees to it only change its free list; nothing counts them. The
//! slots are counted when the unit stops being the front. If it ran full, all of its slots are
//! live. If it is replaced before that, its free list is counted. From then on, each free
//! decrements `until`.

use core::ptr::{self, NonNull};

use allocator_api2::alloc::AllocError;
use ephemera_prim::account::{Account, Leaving, Limit, reserved};
use ephemera_prim::raw;
use ephemera_prim::unit_list::UnitList;

use super::next::{next_front, take_scraped};
use super::{PoolEnv, UnitHeap, kept};
use crate::slot_group::SlotGroupPtr;
use crate::unit::{Unit, UnitPtr, UnitState, link_of};

/// A full unit is allocated from again when one in this number of its slots is free. So the slow
/// path runs at most once for that share of a unit's slots.
const SHARE: usize = 8;

/// Allocates a slot for a value of `size` bytes after the fast path found none.
///
/// It tries the front, whose slots may have been freed since, then a unit of the queue, then an
/// empty unit. If there are none, it books remote frees and tries again; booking takes each group's
/// cache line from other cores, so it comes second. Units that the heap learned to keep come after
/// it: otherwise the heap would rotate through them, and `kept` would find all of them needed. At
/// last it requests a unit from the backing allocator.
#[cold]
#[inline(never)]
pub(crate) fn refill<E: PoolEnv>(env: E, size: usize) -> Result<NonNull<u8>, AllocError> {
    let heap = env.heap();
    heap.owned.write();
    match take_or_install(env, size, heap.kept.learned()) {
        Some(slot) => Ok(slot),
        None => refill_by_booking(env, size),
    }
}

/// As [`refill`], where the heap has no unit with a free slot that it knows of.
#[cold]
#[inline(never)]
fn refill_by_booking<E: PoolEnv>(env: E, size: usize) -> Result<NonNull<u8>, AllocError> {
    let heap = env.heap();
    env.settle();
    if let Some(slot) = take_or_install(env, size, 0) {
        return Ok(slot);
    }
    heap.give_up_front();
    heap.install(request_units(env)?);
    heap.take(size).ok_or(AllocError)
}

/// Takes a slot of the front, or of the next front. `stay` empty units stay empty.
#[inline]
fn take_or_install<E: PoolEnv>(env: E, size: usize, stay: usize) -> Option<NonNull<u8>> {
    let heap = env.heap();
    if let Some(slot) = heap.take(size) {
        return Some(slot);
    }
    heap.install(next_front(env, stay)?);
    kept::note_new_front(env);
    heap.take(size)
}

/// The most slots in a unit that exceeds the limit, and the most bytes of more than one.
const BEYOND_LEN: usize = 8;
const BEYOND_BYTES: usize = 9 << 10;

/// Allocates a slot for a block that shrinks, after [`refill`] failed. Its unit is short and may
/// exceed the limit.
#[cold]
pub(crate) fn refill_beyond<E: PoolEnv>(env: E, size: usize) -> Result<NonNull<u8>, AllocError> {
    let heap = env.heap();
    heap.give_up_front();
    let mut slots = heap.spec.slots.min(BEYOND_LEN);
    while slots > 1 && heap.spec.end(slots) > BEYOND_BYTES {
        slots -= 1;
    }
    heap.install(acquire_under(env, Limit::Lifted, slots)?);
    heap.take(size).ok_or(AllocError)
}

/// Requests units with `slots` slots in total, and keeps them as empties.
pub(crate) fn reserve<E: PoolEnv>(env: E, slots: usize) -> Result<(), AllocError> {
    let heap = env.heap();
    let mut left = slots;
    while left != 0 {
        let now = left.min(heap.spec.slots);
        heap.push_empty(acquire(env, now)?);
        heap.keep.set(heap.keep.get() + 1);
        left -= now;
    }
    Ok(())
}

/// Requests units from the backing allocator. Returns one; other units of the same chunk become
/// empties.
fn request_units<E: PoolEnv>(env: E) -> Result<UnitPtr, AllocError> {
    let heap = env.heap();
    let (slots, units) = heap.next_chunk();
    if env.is_at_limit(heap.spec.layout(slots).size()) {
        // The trim also books remote frees.
        env.trim_all();
        if let Some(unit) = next_front(env, 0) {
            return Ok(unit);
        }
    }
    let first = match acquire(env, slots) {
        Ok(unit) => unit,
        Err(AllocError) => {
            // Full units with a free slot come first: taking one costs other heaps nothing.
            if let Some(unit) = take_scraped(env) {
                return Ok(unit);
            }
            env.last_resort();
            // The last resort also booked remote frees.
            match next_front(env, 0).or_else(|| take_scraped(env)) {
                Some(unit) => return Ok(unit),
                None => acquire_shorter(env, slots)?,
            }
        }
    };
    // A heap keeps more units only if it needs some that it freed.
    if let Some(given_back) = heap.given_back.get().checked_sub(1) {
        heap.given_back.set(given_back);
        if heap.keep.get() < heap.spec.kept_at_most() {
            heap.keep.set(heap.keep.get() + 1);
            heap.kept.learn();
        }
    }
    if units == 1 {
        return Ok(first);
    }
    // `first` is among the empties during the requests, because the backing allocator may unwind or
    // allocate from this heap.
    heap.push_empty(first);
    for _ in 1..units {
        match acquire(env, slots) {
            Ok(unit) => keep_empty(env, unit),
            Err(AllocError) => break,
        }
    }
    heap.pop_empty().ok_or(AllocError)
}

/// Requests a unit of `slots` slots, then of half as many, down to one: there may be room for a
/// shorter unit.
fn acquire_shorter<E: PoolEnv>(env: E, slots: usize) -> Result<UnitPtr, AllocError> {
    match acquire(env, slots) {
        Err(AllocError) if slots > 1 => acquire_shorter(env, slots / 2),
        answer => answer,
    }
}

/// Requests one unit under the limit. It is empty and only on the list of all units.
fn acquire<E: PoolEnv>(env: E, slots: usize) -> Result<UnitPtr, AllocError> {
    acquire_under(env, Limit::Applies, slots)
}

/// Requests one unit as [`acquire`] does, where the limit may not apply.
fn acquire_under<E: PoolEnv>(env: E, limit: Limit, slots: usize) -> Result<UnitPtr, AllocError> {
    let spec = env.heap().spec;
    let layout = spec.layout(slots);
    let memory = reserved(env.account(), layout.size(), limit, || raw::acquire(env.backing(), layout))?;
    let birth = env.count_unit(layout.size());
    // SAFETY: the memory was just acquired with this layout.
    let unit = unsafe { UnitPtr::create(memory, spec, slots, (env.identity(), birth)) };
    let heap = env.heap();
    // SAFETY: the caller owns the heap (H1), and the unit is new, so it is on no list yet (H6).
    unsafe { heap.units.add(unit.as_non_null()) };
    heap.units_len.set(heap.units_len.get() + 1);
    heap.slots_len.set(heap.slots_len.get() + slots);
    Ok(unit)
}

/// Handles a unit of which `until` slots were freed: a full unit is queued, and one without live
/// slots is kept or freed.
#[cold]
#[inline(never)]
pub(super) fn reclassify<E: PoolEnv>(env: E, unit: UnitPtr) {
    let live = unit.live();
    if live == 0 {
        keep_or_free(env, unit);
    } else {
        env.heap().enqueue(unit, live);
    }
}

/// Keeps a unit that ran empty, or frees it and other surplus units. The unit is not the front.
///
/// The surplus includes units that could not be freed before, because a walker protected them.
fn keep_or_free<E: PoolEnv>(env: E, unit: UnitPtr) {
    let heap = env.heap();
    heap.owned.write();
    heap.unlist(unit);
    unit.rewind(heap.spec);
    if heap.empties_len.get() < heap.keep.get() {
        return keep_empty(env, unit);
    }
    let mut surplus = Some(unit);
    while let Some(unit) = surplus.take() {
        if !give_back(env, unit, UnitList::remove) {
            return keep_empty(env, unit);
        }
        if heap.empties_len.get() > heap.keep.get() && !cfg!(ephemera_weaken = "surplus_stays") {
            surplus = heap.pop_empty();
        }
    }
}

/// Keeps an empty unit, and notes that a thread whose request was refused may want it.
pub(super) fn keep_empty<E: PoolEnv>(env: E, unit: UnitPtr) {
    env.heap().push_empty(unit);
    env.account().spare();
}

/// A function that removes a unit from the list of all units.
pub(super) type Remove = unsafe fn(&UnitList<Unit>, NonNull<Unit>) -> bool;

/// The function that waits a bounded time for walkers. Models do not wait, because a preempted
/// walker may protect its unit for as long as they run.
const PATIENT: Remove = if cfg!(ephemera_loom) { UnitList::remove } else { UnitList::remove_patiently };

/// Frees an empty unit that is not among the empties. Returns `false`, and does nothing, if a
/// walker protects it.
pub(super) fn give_back<E: PoolEnv>(env: E, unit: UnitPtr, remove: Remove) -> bool {
    let heap = env.heap();
    // SAFETY: the caller owns the heap (H1), and its units are on the list of all units (H6).
    if !unsafe { remove(&heap.units, unit.as_non_null()) } {
        return false;
    }
    heap.units_len.set(heap.units_len.get() - 1);
    heap.slots_len.set(heap.slots_len.get() - unit.slots());
    heap.given_back.set(heap.given_back.get() + 1);
    let layout = heap.spec.layout(unit.slots());
    env.uncount_unit(layout.size(), unit.birth());
    // Releases the bytes after the deallocation: another thread may request them at once.
    let _booked = Leaving::new(env.account(), layout.size());
    // SAFETY: the unit came from `backing` with this layout. It has no live slot and is on no list
    // (H4, H6), so no pointer to it is left.
    unsafe { raw::release(env.backing(), unit.end_of_life(), layout) };
    true
}

/// Books remote frees, then frees every empty unit, including an empty front. Returns `false` if
/// some stayed because a walker protected them for long.
pub(crate) fn trim<E: PoolEnv>(env: E) -> bool {
    env.settle();
    let heap = env.heap();
    heap.owned.write();
    heap.give_up_front();
    give_back_empties(env)
}

/// Frees all empty units, and waits a bounded time for walkers. Returns `false` if some units
/// stayed.
pub(super) fn give_back_empties<E: PoolEnv>(env: E) -> bool {
    let heap = env.heap();
    let mut stay = None;
    while let Some(unit) = heap.pop_empty() {
        if !give_back(env, unit, PATIENT) {
            unit.after().set(stay.map_or(ptr::null_mut(), UnitPtr::as_ptr));
            stay = Some(unit);
        }
    }
    let all = stay.is_none();
    while let Some(unit) = stay {
        // SAFETY: U1: a unit of the heap that was not freed.
        stay = unsafe { UnitPtr::from_raw(unit.after().get()) };
        heap.push_empty(unit);
    }
    heap.keep.set(heap.spec.kept());
    heap.given_back.set(0);
    heap.kept.forget_all();
    all
}

/// Books the remote frees of one group, given its foreign word from the inbox. Returns whether the
/// unit still is the front or has a live slot.
pub(crate) fn book<E: PoolEnv>(env: E, group: SlotGroupPtr, given: u64) -> bool {
    let (heap, unit) = (env.heap(), group.unit());
    heap.owned.write();
    let given = group.freed(given);
    if heap.front() == Some(unit) {
        heap.free.set(group.link(given, heap.spec, heap.free.get()));
        return true;
    }
    let (count, until) = (given.count_ones() as usize, unit.until().get());
    let live = unit.live() - count;
    if live == 0 {
        if unit.state() == UnitState::Abandoned {
            unit.set_abandoned(false);
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

impl UnitHeap {
    /// Makes `unit` the front, in place of the current one. The unit has a free slot and is on no
    /// list but that of all units.
    #[inline]
    fn install(&self, unit: UnitPtr) {
        // After a request for a unit there usually is no front, but the backing allocator may have
        // allocated from this heap.
        self.give_up_front();
        unit.set_state(UnitState::Front);
        unit.claim().touch();
        self.front.set(unit.as_ptr());
        self.free.set(unit.take_free(self.spec));
        self.cursor.set(unit.cursor().get());
        self.end.set(unit.at(self.spec.end(unit.slots())));
    }

    /// Counts the free slots of the front: linked ones, and those that were never used. Only the
    /// owner calls this.
    #[inline]
    pub(crate) fn free_in_front(&self) -> usize {
        let mut free = (self.end.get().addr() - self.cursor.get().addr()) / self.spec.stride.max(1);
        let mut slot = self.free.get();
        while !slot.is_null() {
            free += 1;
            // SAFETY: H3: linked slots are free, and the caller owns the heap.
            slot = unsafe { link_of(slot) };
        }
        free
    }

    /// Makes the front an ordinary unit: full, in the queue, or empty.
    #[inline]
    pub(super) fn give_up_front(&self) {
        let Some(unit) = self.front() else { return };
        let (mut free, slots) = (self.free_in_front(), unit.slots());
        if cfg!(ephemera_weaken = "front_counts_the_unbooked") {
            free += unit.unbooked();
        }
        unit.free().set(self.free.replace(ptr::null_mut()));
        unit.cursor().set(self.cursor.replace(ptr::null_mut()));
        self.end.set(ptr::null_mut());
        self.front.set(ptr::null_mut());
        if free == 0 {
            unit.set_live(slots, slots.div_ceil(SHARE));
            self.push_full(unit);
        } else if free == slots {
            unit.rewind(self.spec);
            self.push_empty(unit);
        } else {
            unit.set_live(slots - free, slots - free);
            self.queue_first(unit);
        }
    }

    /// Queues every full unit that has a free slot.
    ///
    /// Each visit takes a unit off the list of full units, and only a unit that runs full is added
    /// to it. So scrapes visit at most as many units as ran full. The next free of a slot queues a
    /// visited unit that had no free slot.
    #[inline]
    pub(super) fn scrape(&self) {
        while let Some(unit) = self.pop_full() {
            #[cfg(test)]
            self.scraped.set(self.scraped.get() + 1);
            let live = unit.live();
            if live < unit.slots() {
                self.enqueue(unit, live);
            } else {
                unit.look_after_next_free(live);
            }
        }
    }
}
