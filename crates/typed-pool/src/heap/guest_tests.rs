//! Tests of guests: which freed slots are hosted, and that no slot is lost or counted twice.

use core::alloc::Layout;
use core::cell::{Cell, RefCell};
use core::ptr::{self, NonNull};
use std_alloc::rc::Rc;
use std_alloc::vec::Vec;

use allocator_api2::alloc::{AllocError, Allocator, Global};

use super::UnitHeap;
use super::supply::{LeftUnits, trim_keeping};
use crate::{TypedBox, TypedPool};

/// A value of a type whose units have 63 slots.
type Value = [u64; 64];

/// The values of a pool whose front has freed slots, but no slot that was never used. The other
/// units are full at first.
struct Replacing<'p, T, A: Allocator = Global> {
    pool: &'p TypedPool<T, A>,
    /// The live values of the front.
    front: Vec<TypedBox<'p, T, A>>,
    /// The live values of the other units.
    others: Vec<TypedBox<'p, T, A>>,
    /// The addresses of the other units.
    units: Vec<usize>,
    slots: usize,
}

/// The number of units that are not the front.
const UNITS: usize = 3;

impl<'p, T: Copy, A: Allocator> Replacing<'p, T, A> {
    /// Fills one unit and [`UNITS`] more. Then frees a quarter of the first unit's slots and
    /// allocates one value, so the first unit becomes the front again.
    fn new(pool: &'p TypedPool<T, A>, value: T) -> Self {
        Self::with_units(pool, value, UNITS)
    }

    fn with_units(pool: &'p TypedPool<T, A>, value: T, units: usize) -> Self {
        let slots = slots::<T>();
        let mut front: Vec<_> = (0..slots).map(|_| pool.alloc(value)).collect();
        let others: Vec<_> = (0..units * slots).map(|_| pool.alloc(value)).collect();
        let units = others.iter().step_by(slots).map(|value| unit_of(pool, value)).collect();
        front.truncate(slots - slots / 4);
        front.push(pool.alloc(value));
        assert!(front.iter().all(|value| unit_of(pool, value) == pool.heap.front.get().addr()));
        Self { pool, front, others, units, slots }
    }

    /// Frees a value of one of the other units, and returns the value's address.
    fn free_in_unit(&mut self, unit: usize) -> usize {
        let is_in_unit = |value: &TypedBox<'p, T, A>| unit_of(self.pool, value) == self.units[unit];
        let at = self.others.iter().position(is_in_unit).expect("a value of this unit");
        addr(&self.others.swap_remove(at))
    }

    fn live(&self) -> usize {
        self.front.len() + self.others.len()
    }

    fn assert_counts(&self) {
        let (live, stats) = (self.live(), self.pool.stats());
        assert_eq!((self.pool.len(), stats.slots_live), (live, live));
        assert_eq!(stats.bytes_live, live * size_of::<T>());
        assert_eq!(self.pool.is_empty(), live == 0);
    }
}

fn addr<T, A: Allocator>(value: &TypedBox<'_, T, A>) -> usize {
    core::ptr::from_ref(&**value).addr()
}

fn unit_of<T, A: Allocator>(pool: &TypedPool<T, A>, value: &TypedBox<'_, T, A>) -> usize {
    addr(value) & !(pool.heap.spec().unit - 1)
}

/// Returns the number of slots in a unit of these tests: a whole unit's slots, but at most 16 under
/// Miri.
fn slots<T>() -> usize {
    let whole = TypedPool::<T>::SPEC.expect("these values have units").slots;
    if cfg!(miri) { whole.min(16) } else { whole }
}

fn pool<T>() -> TypedPool<T> {
    TypedPool::builder().chunk_len(slots::<T>()).build()
}

#[test]
fn an_allocation_takes_the_slot_of_another_unit_that_was_freed_last() {
    let pool = pool::<Value>();
    let mut values = Replacing::new(&pool, [1; 64]);
    for round in 0..if cfg!(miri) { 6 } else { 100 } {
        let freed = values.free_in_unit(round % UNITS);
        assert_eq!(pool.heap.guest().map(NonNull::addr).map(usize::from), Some(freed));
        values.assert_counts();
        let next = pool.alloc([2; 64]);
        assert_eq!(addr(&next), freed);
        assert_eq!(pool.heap.guests(), 0);
        values.others.push(next);
        values.assert_counts();
    }
}

#[test]
fn a_heap_has_one_guest_at_most() {
    let pool = pool::<Value>();
    let mut values = Replacing::new(&pool, [1; 64]);
    let first = values.free_in_unit(0);
    values.free_in_unit(1);
    let _ = values.front.pop();
    values.free_in_unit(2);
    assert_eq!(pool.heap.guest().map(NonNull::addr).map(usize::from), Some(first));
    values.assert_counts();
}

#[test]
fn slots_of_the_front_behind_a_guest_serve_later_allocations() {
    let pool = pool::<Value>();
    let mut values = Replacing::new(&pool, [1; 64]);
    let (capacity, free) = (pool.capacity(), values.slots - values.front.len());
    values.free_in_unit(0);
    assert!(pool.heap.is_hosting());
    let mut later: Vec<_> = (0..=free).map(|_| pool.alloc([3; 64])).collect();
    assert_eq!(pool.capacity(), capacity, "no unit was requested");
    later.sort_by_key(addr);
    assert!(later.windows(2).all(|pair| addr(&pair[0]) != addr(&pair[1])), "each slot serves once");
    values.front.append(&mut later);
    values.assert_counts();
}

#[test]
fn a_trim_gives_the_guest_to_its_unit() {
    let pool = pool::<Value>();
    let mut values = Replacing::new(&pool, [1; 64]);
    values.free_in_unit(1);
    values.others.clear();
    assert_eq!(pool.heap.guests(), 1, "the guest was freed first");
    values.assert_counts();
    assert_eq!(pool.stats().empty_units, UNITS, "a unit with only a guest counts as empty");
    pool.trim();
    assert_eq!(pool.stats().units, 1);
    values.front.clear();
    values.assert_counts();
    pool.trim();
    assert_eq!(pool.stats().bytes_held, 0);
}

#[test]
fn a_front_that_is_set_aside_has_no_guest() {
    let pool = pool::<Value>();
    let mut values = Replacing::new(&pool, [1; 64]);
    values.free_in_unit(0);
    assert_eq!(pool.heap.guests(), 1);
    // The end of a dropped scope makes this call.
    trim_keeping(&pool, usize::MAX, LeftUnits { aside: true, unused: true });
    assert!(!pool.heap.is_hosting() && pool.heap.local.free.get().is_null());
    values.assert_counts();
    values.front.push(pool.alloc([1; 64]));
    values.assert_counts();
    values.others.clear();
    values.front.clear();
    values.assert_counts();
    pool.trim();
    assert_eq!(pool.stats().bytes_held, 0);
}

#[test]
fn a_pool_whose_only_slot_in_use_is_a_guest_is_empty() {
    let pool = pool::<Value>();
    let mut values = Replacing::new(&pool, [1; 64]);
    values.free_in_unit(0);
    values.others.clear();
    values.front.clear();
    assert!(pool.is_empty());
    values.assert_counts();
}

#[test]
fn a_thread_that_replaces_values_keeps_hosting() {
    let pool = pool::<Value>();
    let mut values = Replacing::new(&pool, [1; 64]);
    for round in 0..if cfg!(miri) { 200 } else { 10_000 } {
        let at = round * 31 % values.others.len();
        drop(values.others.swap_remove(at));
        values.others.push(pool.alloc([4; 64]));
    }
    assert!(pool.heap.is_hosting());
    values.assert_counts();
}

#[test]
fn allocations_without_frees_close_the_heap() {
    let pool = pool::<Value>();
    let mut values = Replacing::new(&pool, [1; 64]);
    values.free_in_unit(0);
    let later: Vec<_> = (0..4).map(|_| pool.alloc([5; 64])).collect();
    assert!(!pool.heap.is_open_to_guests());
    values.others.extend(later);
    values.assert_counts();
}

#[test]
fn a_front_with_slots_that_were_never_used_hosts_no_guest() {
    let pool = pool::<Value>();
    let mut full: Vec<_> = (0..slots::<Value>()).map(|_| pool.alloc([5; 64])).collect();
    let mut front: Vec<_> = (0..4).map(|_| pool.alloc([5; 64])).collect();
    // Free a slot of the front, because a heap with an empty free list would not host a guest in
    // any case.
    drop(front.pop());
    drop(full.pop());
    assert!(!pool.heap.is_hosting());
}

type Above = Rc<TypedPool<Value, Refuses>>;

/// A backing allocator that uses the pool above it during one request, and then refuses this
/// request.
struct Refuses {
    pool: Rc<Cell<Option<Above>>>,
    /// The live slots of the pool.
    slots: Rc<RefCell<Vec<NonNull<Value>>>>,
}

// SAFETY: all blocks come from the global heap.
unsafe impl Allocator for Refuses {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let Some(pool) = self.pool.take() else { return Global.allocate(layout) };
        let (slots, unit) = (&mut *self.slots.borrow_mut(), slots::<Value>());
        // A new unit becomes the front and fills up. Then this method frees a quarter of the first
        // unit, and the next allocation makes that unit the front.
        fill(&pool, slots, unit);
        free(&pool, slots.drain(..unit / 4));
        fill(&pool, slots, 1);
        // The first slot that is freed here becomes a guest. Afterwards, it is the only slot of its
        // unit that counts as live, and the unit is in the queue.
        let first = unit - unit / 4;
        free(&pool, slots.drain(first..first + unit));
        assert_eq!(pool.heap.guests(), 1);
        Err(AllocError)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: this method has the same contract.
        unsafe { Global.deallocate(block, layout) };
    }
}

fn fill(pool: &Above, slots: &mut Vec<NonNull<Value>>, count: usize) {
    for _ in 0..count {
        let slot = pool.allocate().expect("memory");
        // SAFETY: the slot was just allocated and has room for a value.
        unsafe { slot.write([slot.addr().get() as u64; 64]) };
        slots.push(slot);
    }
}

fn free(pool: &Above, slots: impl Iterator<Item = NonNull<Value>>) {
    for slot in slots {
        // SAFETY: the slot is live and has a value.
        assert_eq!(unsafe { slot.read() }, [slot.addr().get() as u64; 64], "no other slot overlaps it");
        // SAFETY: the slot is live, and nothing uses it after this call.
        unsafe { pool.deallocate(slot) };
    }
}

/// During a request, the backing allocator makes the heap host a guest whose unit is the first in
/// the queue. If the heap chose that unit before it dismissed the guest, the unit would become the
/// front and an empty unit at the same time.
#[test]
fn a_unit_with_only_a_guest_is_the_next_front_after_a_refused_request() {
    let (above, slots) = (Rc::new(Cell::new(None)), Rc::new(RefCell::new(Vec::new())));
    let backing = Refuses { pool: above.clone(), slots: slots.clone() };
    let unit = self::slots::<Value>();
    let pool = Rc::new(TypedPool::<Value>::builder().chunk_len(unit).build_in(backing));
    let mut own = Vec::new();
    fill(&pool, &mut own, 2 * unit);
    slots.replace(core::mem::take(&mut own));
    above.set(Some(pool.clone()));
    fill(&pool, &mut own, 1);
    assert!(above.take().is_none(), "the request used the pool");
    own.append(&mut slots.borrow_mut());
    assert_eq!((pool.len(), pool.stats().slots_live), (own.len(), own.len()));
    pool.trim();
    fill(&pool, &mut own, 4 * unit);
    assert_eq!((pool.len(), pool.stats().slots_live), (own.len(), own.len()));
    free(&pool, own.into_iter());
    pool.trim();
    assert_eq!(pool.stats().bytes_held, 0);
}

#[test]
fn units_with_few_live_values_become_empty_while_values_are_replaced() {
    let (sparse, rounds, most) = if cfg!(miri) { (8, 500, 4) } else { (100, 30_000, 10) };
    let pool = pool::<Value>();
    let mut values = Replacing::with_units(&pool, [1; 64], sparse);
    let slots = values.slots;
    // Keep one value of each unit.
    let mut at = 0;
    values.others.retain(|_| {
        at += 1;
        at % slots == 0
    });
    assert_eq!(values.others.len(), sparse);
    for round in 0..rounds {
        drop(values.others.remove(0));
        values.others.push(pool.alloc([6; 64]));
        // In one of 1,000 rounds, an allocation misses.
        if round % 1_000 == 0 {
            drop(values.others.drain(..2));
            values.others.extend((0..2).map(|_| pool.alloc([6; 64])));
        }
    }
    let units = pool.stats().units - pool.stats().empty_units;
    assert!(units <= most, "{units} units have live values");
    values.assert_counts();
}

#[test]
#[cfg_attr(miri, ignore = "64 inspections take more than four minutes; other tests inspect too")]
fn empty_units_that_are_not_needed_are_freed_while_values_are_replaced() {
    let (surplus, rounds) = (12, 600_000);
    let pool = pool::<Value>();
    let kept = UNITS + 1 + 4 + surplus;
    // The pool frees units in the first round and requests them in the second, so it learns to keep
    // them.
    for _ in 0..2 {
        let all: Vec<_> = (0..kept * slots::<Value>()).map(|_| pool.alloc([8; 64])).collect();
        drop(all);
    }
    let mut values = Replacing::new(&pool, [1; 64]);
    assert!(pool.stats().empty_units >= 4 + surplus, "{:?}", pool.stats());
    for round in 0..rounds {
        values.free_in_unit(round % UNITS);
        values.others.push(pool.alloc([9; 64]));
    }
    assert_eq!(pool.stats().empty_units, 4, "the pool keeps 4 units in any case");
    values.assert_counts();
}

/// A backing allocator that counts how often it frees memory while `heap` has a front.
struct CallsBeside {
    heap: Cell<*const UnitHeap>,
    calls: Cell<usize>,
}

// SAFETY: all blocks come from the global heap.
unsafe impl Allocator for &CallsBeside {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        Global.allocate(layout)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the test stores null, or the address of a live heap of this thread.
        let heap = unsafe { self.heap.get().as_ref() };
        self.calls.set(self.calls.get() + usize::from(heap.is_some_and(|heap| heap.front().is_some())));
        // SAFETY: this method has the same contract.
        unsafe { Global.deallocate(block, layout) };
    }
}

/// A backing allocator may use the pool above it. If a heap called its backing allocator while
/// giving up its front, such a use could make the heap host another guest.
#[test]
fn a_trim_calls_the_backing_allocator_after_the_heap_gave_up_its_front() {
    let backing = CallsBeside { heap: Cell::new(ptr::null()), calls: Cell::new(0) };
    let pool = TypedPool::<Value>::builder().chunk_len(slots::<Value>()).build_in(&backing);
    // These are more units than the heap keeps when they become empty.
    let mut values = Replacing::with_units(&pool, [1; 64], 6);
    values.free_in_unit(5);
    values.others.clear();
    assert_eq!(pool.heap.guests(), 1);
    backing.heap.set(&raw const pool.heap);
    pool.trim();
    assert_eq!(backing.calls.get(), 0);
    assert_eq!(pool.stats().units, 1);
    backing.heap.set(ptr::null());
}

#[test]
fn slots_of_units_beyond_64_kib_are_not_hosted() {
    let pool = pool::<[u64; 256]>();
    let mut values = Replacing::new(&pool, [1; 256]);
    values.free_in_unit(0);
    assert!(!pool.heap.is_hosting());
    values.assert_counts();
}
