//! Where fronts come from, and where units go whose slots came home.
//!
//! Slots of the front are not counted one by one: an allocation from it and a free to it only move the list. What is out
//! is known where it matters. A front that ran dry has all of its slots out; from then on each free counts down
//! `until`, and a front that is given up before is counted along its list.

use core::ptr::{self, NonNull};

use allocator_api2::alloc::AllocError;
use ephemera_prim::raw;
use ephemera_prim::unit_list::UnitList;

use super::{Env, Heap, RETAIN};
use crate::account::Account;
#[cfg(all(feature = "std", not(ephemera_loom), target_has_atomic = "64"))]
use crate::account::Beyond;
#[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
use crate::group::GroupPtr;
use crate::unit::{Place, Unit, UnitPtr, link_of};

/// Of the slots of a unit that ran dry, one in so many must be home before it is allocated from again. The slow path then
/// runs once for as many allocations.
const SHARE: usize = 8;

/// A slot for a value of `size` bytes, where the fast way had none: from the front, if something came home to it meanwhile, from a unit of the queue, or
/// from an empty one. Where there are none, what other threads gave back is booked, which takes each group's line away from them; then these come
/// again, and the backing allocator last.
#[cold]
#[inline(never)]
pub(crate) fn refill<E: Env>(env: E, size: usize) -> Result<NonNull<u8>, AllocError> {
    let heap = env.heap();
    heap.owned.write();
    match take_or_install(env, size) {
        Some(slot) => Ok(slot),
        None => refill_after_settling(env, size),
    }
}

/// As [`refill`], where the heap has no unit with a free slot that it knows of.
#[cold]
#[inline(never)]
fn refill_after_settling<E: Env>(env: E, size: usize) -> Result<NonNull<u8>, AllocError> {
    let heap = env.heap();
    env.settle();
    if let Some(slot) = take_or_install(env, size) {
        return Ok(slot);
    }
    heap.give_up_front();
    heap.install(obtain(env)?);
    heap.take(size).ok_or(AllocError)
}

/// A slot of the front, or of the next one.
#[inline]
fn take_or_install<E: Env>(env: E, size: usize) -> Option<NonNull<u8>> {
    let heap = env.heap();
    if let Some(slot) = heap.take(size) {
        return Some(slot);
    }
    heap.install(next_front(env)?);
    heap.take(size)
}

/// The unit that waits longest, else the empty one that was kept last.
#[inline]
fn next_front<E: Env>(env: E) -> Option<UnitPtr> {
    let heap = env.heap();
    #[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
    if heap.first_in_queue().is_some_and(|unit| unit.place() == Place::Abandoned) {
        // Countdowns that are complete keep a unit from being adopted until they are booked.
        env.settle();
    }
    heap.pop_queue().or_else(|| heap.pop_empty())
}

/// Slots of a unit that exceeds the limit.
#[cfg(all(feature = "std", not(ephemera_loom), target_has_atomic = "64"))]
const BEYOND_LEN: usize = 8;

/// As [`refill`], which has just failed, for a block that shrinks: its unit may exceed the limit. The unit is a
/// short one.
#[cfg(all(feature = "std", not(ephemera_loom), target_has_atomic = "64"))]
#[cold]
pub(crate) fn refill_beyond<E: Env>(env: E, size: usize) -> Result<NonNull<u8>, AllocError> {
    let heap = env.heap();
    heap.give_up_front();
    let slots = heap.spec.slots.min(BEYOND_LEN);
    heap.install(acquire_under(env, &Beyond(env.account()), slots)?);
    heap.take(size).ok_or(AllocError)
}

/// Takes units until the heap has `slots` more than now, and keeps them.
pub(crate) fn reserve<E: Env>(env: E, slots: usize) -> Result<(), AllocError> {
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

/// Units from the backing allocator: one to allocate from now, others that come with it kept as empties.
fn obtain<E: Env>(env: E) -> Result<UnitPtr, AllocError> {
    let heap = env.heap();
    let (slots, units) = heap.next_chunk();
    let first = match acquire(env, slots) {
        Ok(unit) => unit,
        Err(AllocError) => {
            // Before anybody else has to give anything up: units that have a free slot, and too few to be in the queue.
            if let Some(unit) = heap.scrape() {
                return Ok(unit);
            }
            env.last_resort();
            // Which booked what came home meanwhile.
            match next_front(env).or_else(|| heap.scrape()) {
                Some(unit) => return Ok(unit),
                None => acquire_what_there_is(env, slots)?,
            }
        }
    };
    // Only units that it gave back and now misses make a heap keep more of them.
    if let Some(given_back) = heap.given_back.get().checked_sub(1) {
        heap.given_back.set(given_back);
        heap.keep.set(heap.keep.get() + 1);
    }
    if units == 1 {
        return Ok(first);
    }
    // With the empties meanwhile: the backing allocator may unwind, or allocate from this very heap.
    heap.push_empty(first);
    for _ in 1..units {
        match acquire(env, slots) {
            Ok(unit) => keep_empty(env, unit),
            Err(AllocError) => break,
        }
    }
    heap.pop_empty().ok_or(AllocError)
}

/// A unit of that many slots, or of half of them, or of half of that: there may be room for a shorter one.
fn acquire_what_there_is<E: Env>(env: E, slots: usize) -> Result<UnitPtr, AllocError> {
    match acquire(env, slots) {
        Err(AllocError) if slots > 1 => acquire_what_there_is(env, slots / 2),
        answer => answer,
    }
}

/// One unit under the limit: reserved first, asked for then. It is empty, and on the list of all units alone.
fn acquire<E: Env>(env: E, slots: usize) -> Result<UnitPtr, AllocError> {
    acquire_under(env, env.account(), slots)
}

/// As [`acquire`], by the rules of `account`, which stands for the heap's.
fn acquire_under<E: Env, A: Account>(env: E, account: &A, slots: usize) -> Result<UnitPtr, AllocError> {
    let spec = env.heap().spec;
    let layout = spec.layout(slots);
    let memory = reserved(account, layout.size(), || raw::acquire(env.backing(), layout))?;
    // SAFETY: just acquired with that layout.
    let unit = unsafe { UnitPtr::create(memory, spec, slots, env.identity()) };
    let heap = env.heap();
    // SAFETY: a new unit of the heap that the caller owns (H1); H6.
    unsafe { heap.units.add(unit.as_non_null()) };
    heap.units_len.set(heap.units_len.get() + 1);
    Ok(unit)
}

/// Asks for memory under the limit: what is not granted is released again.
pub(crate) fn reserved<A: Account, T>(
    account: &A,
    bytes: usize,
    ask: impl FnOnce() -> Result<T, AllocError>,
) -> Result<T, AllocError> {
    let reserved = Reserved::take(account, bytes)?;
    let got = ask()?;
    core::mem::forget(reserved);
    Ok(got)
}

/// Bytes on the account that are not granted yet, or are about to be given back: released when this is dropped, also
/// when the backing allocator unwinds.
pub(super) struct Reserved<'a, A: Account> {
    pub(super) account: &'a A,
    pub(super) bytes: usize,
}

impl<'a, A: Account> Reserved<'a, A> {
    fn take(account: &'a A, bytes: usize) -> Result<Self, AllocError> {
        if account.reserve(bytes) { Ok(Self { account, bytes }) } else { Err(AllocError) }
    }
}

impl<A: Account> Drop for Reserved<'_, A> {
    fn drop(&mut self) {
        self.account.release(self.bytes);
    }
}

/// So many slots of a unit came home as were awaited: a share of a full one, which is allocated from again, or all.
#[cold]
#[inline(never)]
pub(super) fn looked_at<E: Env>(env: E, unit: UnitPtr) {
    let live = unit.live();
    if live == 0 {
        drained(env, unit);
    } else {
        env.heap().enqueue(unit, live);
    }
}

/// Keeps a unit without live slots, which is not the front, or gives back as many as are too many.
///
/// Units that could not be given back earlier, because a walker stood on them, are among those.
fn drained<E: Env>(env: E, unit: UnitPtr) {
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

/// Keeps an empty unit, which a thread whose request was refused may want.
fn keep_empty<E: Env>(env: E, unit: UnitPtr) {
    env.heap().push_empty(unit);
    env.account().spare();
}

/// One of the two ways to remove a unit from the list of all units.
type Remove = unsafe fn(&UnitList<Unit>, NonNull<Unit>) -> bool;

/// The one that waits a bounded time. Models need no patience: a walker that is preempted stands on its unit for as long as
/// they want.
const PATIENT: Remove = if cfg!(ephemera_loom) { UnitList::remove } else { UnitList::remove_patiently };

/// Gives an empty unit, which is not on the stack, to the backing allocator. Returns `false`, and the unit stays, if a
/// walker stands on it.
fn give_back<E: Env>(env: E, unit: UnitPtr, remove: Remove) -> bool {
    let heap = env.heap();
    // SAFETY: a unit of the heap that the caller owns (H1), on the list of all units since it was made (H6).
    if !unsafe { remove(&heap.units, unit.as_non_null()) } {
        return false;
    }
    heap.units_len.set(heap.units_len.get() - 1);
    heap.given_back.set(heap.given_back.get() + 1);
    let layout = heap.spec.layout(unit.slots());
    // Released behind the deallocation: another thread may ask for these bytes at once.
    let _booked = Reserved { account: env.account(), bytes: layout.size() };
    // SAFETY: nothing in it is alive and it is on no list any more (H4, H6): nobody has a pointer to it; it came from
    // `backing` with this layout.
    unsafe { raw::release(env.backing(), unit.end_of_life(), layout) };
    true
}

/// Books remote frees, then gives back every empty unit, the front among them. Returns `false` if some stayed because
/// a walker stood on them for long.
pub(crate) fn trim<E: Env>(env: E) -> bool {
    env.settle();
    let heap = env.heap();
    heap.owned.write();
    heap.give_up_front();
    give_back_empties(env)
}

/// Gives back all empty units, waiting a bounded time where a walker stands on one. Returns `false` if some stayed.
pub(super) fn give_back_empties<E: Env>(env: E) -> bool {
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
        // SAFETY: U1: a unit that was not given back.
        stay = unsafe { UnitPtr::from_raw(unit.after().get()) };
        heap.push_empty(unit);
    }
    heap.keep.set(RETAIN);
    heap.given_back.set(0);
    all
}

/// Books the remote frees of one group: its foreign word as it came out of the inbox. Returns whether the unit is still
/// there, with a live slot or as the front.
#[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
pub(crate) fn book<E: Env>(env: E, group: GroupPtr, given: u64) -> bool {
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
        if unit.place() == Place::Abandoned {
            unit.set_abandoned(false);
        }
        drained(env, unit);
        return false;
    }
    group.keep_home(given);
    if count < until {
        unit.until().set(until - count);
    } else {
        heap.enqueue(unit, live);
    }
    true
}

impl Heap {
    /// Makes `unit` the front instead of the one before. It is on no list but that of all units, and has a free slot.
    #[inline]
    fn install(&self, unit: UnitPtr) {
        // Given up already where the backing allocator was asked; but if that allocates from this very heap, it leaves one behind.
        self.give_up_front();
        unit.set_place(Place::Front);
        self.front.set(unit.as_ptr());
        self.free.set(unit.take_free(self.spec));
        self.cursor.set(unit.cursor().get());
        self.end.set(unit.at(self.spec.end(unit.slots())));
    }

    /// Slots of the front that are free: linked, and never handed out. The owner's alone.
    #[inline]
    pub(crate) fn free_in_front(&self) -> usize {
        let mut free = (self.end.get().addr() - self.cursor.get().addr()) / self.spec.stride.max(1);
        let mut slot = self.free.get();
        while !slot.is_null() {
            free += 1;
            // SAFETY: H3: what the heap links is free, and the caller owns it.
            slot = unsafe { link_of(slot) };
        }
        free
    }

    /// The front is none any more: full, in the queue, or empty.
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

    /// Queues every full unit that has a free slot, and takes a unit from the queue.
    ///
    /// Each visit takes a unit off the list of full units, and only a fill puts one there. So a scrape costs no more
    /// than the fills before it. A unit without a free slot is queued by the next free of one of its slots.
    #[inline]
    fn scrape(&self) -> Option<UnitPtr> {
        while let Some(unit) = self.pop_full() {
            #[cfg(test)]
            self.scraped.set(self.scraped.get() + 1);
            let live = unit.live();
            if live < unit.slots() {
                self.enqueue(unit, live);
            } else {
                unit.set_live(live, 1);
            }
        }
        self.pop_queue()
    }
}
