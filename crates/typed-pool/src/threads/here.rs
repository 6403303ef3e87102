//! Where the calling thread is: its record, and its heaps of each family.

use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::{self, NonNull};
use std::thread::LocalKey;

use allocator_api2::alloc::{AllocError, Global};
use ephemera_prim::local::{self, Held, Here as RecordHere, Tenant};
use ephemera_prim::record::{FIRST, Lease, Record, Registry};

use super::Family;
use super::books::Books;
use super::owner;
use super::table::{Heaps, Shard, ThreadHeap};
use crate::account::Beyond;
use crate::class::{self, CLASSES};
use crate::heap;
use crate::stats::Stats;

pub(super) static REGISTRY: Registry<Shard> =
    Registry::new([const { Record::new(Shard::new()) }; FIRST], Shard::new);

/// Threads that did not allocate yet.
static NOWHERE: Record<Shard> = Record::new(Shard::new());
/// Threads whose exit guard is gone.
static GONE: Record<Shard> = Record::new(Shard::new());

/// The heaps of threads that own nothing, as many as any family has. Nothing is ever written to them: they have no front.
static NO_HEAPS: [ThreadHeap; CLASSES] = [const { ThreadHeap::nowhere() }; CLASSES];

std::thread_local! {
    static HERE: RecordHere<Shard> = const {
        // SAFETY: a static.
        unsafe { RecordHere::new(&raw const NOWHERE, ()) }
    };
}

impl Tenant for Shard {
    type Near = ();

    fn near(_: &'static Record<Self>) {}

    fn registry() -> &'static Registry<Self> {
        &REGISTRY
    }

    #[inline]
    fn here() -> &'static LocalKey<RecordHere<Self>> {
        &HERE
    }

    #[inline]
    fn nowhere() -> &'static Record<Self> {
        &NOWHERE
    }

    #[inline]
    fn gone() -> &'static Record<Self> {
        &GONE
    }

    fn enter(&self) {}

    /// Gives back what is empty, then lets the thread's cells forget the record: what the thread frees from here on is foreign.
    fn leave(record: &'static Record<Self>) {
        owner::leave(record);
        if cfg!(ephemera_weaken = "cells_keep_the_record") {
            return;
        }
        for heaps in Heaps::of_record(record) {
            forget(heaps.family());
        }
    }

    fn release(lease: Lease<'static, Self>) {
        owner::release(lease);
    }
}

/// A family's thread-local: the thread's heaps of it. Made by this crate's macros.
///
/// Not public API: named by what the macros expand to.
///
/// # Invariant
/// **T2** It points at the table of the family on the record that the thread holds, or at the heaps of threads that own
/// nothing.
#[doc(hidden)]
#[derive(Debug)]
pub struct Here(Cell<*const ThreadHeap>);

impl Here {
    /// A thread that owns nothing.
    #[must_use]
    pub const fn nowhere() -> Self {
        Self(Cell::new((&raw const NO_HEAPS).cast()))
    }

    /// This thread's heaps.
    #[inline]
    pub(crate) fn get(key: &'static LocalKey<Self>) -> Heaps<'static> {
        let first = key.try_with(|here| here.0.get()).unwrap_or((&raw const NO_HEAPS).cast());
        // SAFETY: T2, and T1: both are for ever.
        unsafe { Heaps::new(first) }
    }
}

/// The thread's heaps of this family, from now on.
fn remember(heaps: Heaps<'static>) {
    // Where the cell is gone, the slow path is taken each time.
    let _ = (heaps.family().cell)().try_with(|here| here.0.set(heaps.as_ptr()));
}

/// None, from now on.
fn forget(family: &Family) {
    let _ = (family.cell)().try_with(|here| here.0.set((&raw const NO_HEAPS).cast()));
}

/// The record that this thread holds; NOWHERE and GONE are none that any unit names.
#[inline]
pub(crate) fn this_record() -> *const Record<Shard> {
    local::current::<Shard>()
}

/// A slot of the heap of that index, when the thread's front has none: a thread may have to get its record first, at its first
/// allocation, and its table, at the family's first on this record. When its guard is gone, it leases a record for this one
/// operation.
///
/// # Safety
/// The family has more heaps than `heap`.
#[cold]
#[inline(never)]
pub(crate) unsafe fn refill(
    family: &'static Family,
    heap: usize,
    size: usize,
) -> Result<NonNull<u8>, AllocError> {
    // SAFETY: the thread holds the table's record; the caller's index.
    with_heaps(family, |heaps| unsafe { owner::refill(heaps, heap, size) })
}

/// A block for one that shrinks, where the limit refused it: what it takes may exceed the limit.
#[cold]
#[inline(never)]
pub(crate) fn allocate_beyond(family: &'static Family, layout: Layout) -> Result<NonNull<u8>, AllocError> {
    match class::of(layout) {
        // SAFETY: the thread holds the table's record; a family of classes has a heap for each.
        Some(heap) => with_heaps(family, |heaps| unsafe { owner::refill_beyond(heaps, heap, layout.size()) }),
        None => heap::allocate_large(&Global, &Beyond(&books(family)), layout, false),
    }
}

/// Runs the slow path on the heaps of a record that this thread holds, for this operation at least.
fn with_heaps(
    family: &'static Family,
    slow: impl FnOnce(Heaps<'static>) -> Result<NonNull<u8>, AllocError>,
) -> Result<NonNull<u8>, AllocError> {
    let held = local::hold::<Shard>().ok_or(AllocError)?;
    // SAFETY: held; records and families are never freed.
    let heaps = unsafe { Heaps::find_or_make(held.record(), family) }.ok_or(AllocError)?;
    if matches!(held, Held::Bound(_)) {
        remember(heaps);
    }
    let slot = slow(heaps);
    held.release();
    slot
}

/// The books of large blocks, as this thread keeps them.
fn books(family: &'static Family) -> Books<'static> {
    Books::new(family, Here::get((family.cell)()).tally())
}

/// Gives this thread a table of the family, if it may have one.
#[cold]
fn bind(family: &'static Family) {
    if ptr::eq(this_record(), &raw const GONE) {
        return;
    }
    if let Some(held @ Held::Bound(_)) = local::hold::<Shard>() {
        // SAFETY: held; both are for ever.
        if let Some(heaps) = unsafe { Heaps::find_or_make(held.record(), family) } {
            remember(heaps);
        }
    }
}

/// A block of a layout without units. Before a refusal is passed on, empty units are given back and the request is
/// made once more. This is a slow path, so it obeys a trim that was asked for.
#[cold]
#[inline(never)]
pub(crate) fn allocate_large(
    family: &'static Family,
    layout: Layout,
    zeroed: bool,
) -> Result<NonNull<u8>, AllocError> {
    let heaps = Here::get((family.cell)());
    let Some(tally) = heaps.tally() else { return allocate_large_unbound(family, layout, zeroed) };
    if heaps.trim_asked() {
        // SAFETY: a table that the thread's cell names is on the record that the thread holds (T2).
        unsafe { heaps.trim() };
    }
    ask_twice(family, &Books::new(family, Some(tally)), layout, zeroed)
}

/// As [`allocate_large`], on a thread without a table of the family. If the thread may have one, it gets one first.
#[cold]
#[inline(never)]
fn allocate_large_unbound(
    family: &'static Family,
    layout: Layout,
    zeroed: bool,
) -> Result<NonNull<u8>, AllocError> {
    // A thread that asks for nothing smaller would count with all others for ever.
    if layout.size() != 0 {
        bind(family);
        if Here::get((family.cell)()).tally().is_some() {
            return allocate_large(family, layout, zeroed);
        }
    }
    ask_twice(family, &books(family), layout, zeroed)
}

/// Asks the global heap for a block, and once more after room was made.
#[inline]
fn ask_twice(
    family: &'static Family,
    books: &Books<'static>,
    layout: Layout,
    zeroed: bool,
) -> Result<NonNull<u8>, AllocError> {
    let ask = || heap::allocate_large(&Global, books, layout, zeroed);
    ask().or_else(|AllocError| {
        relieve(family);
        ask()
    })
}

/// Gives back a block of a layout without units. A call of its own, so that the way of those with units needs no more registers.
///
/// # Safety
/// `block` is a live block of this layout, from the global heap and on the family's books.
#[cold]
#[inline(never)]
pub(crate) unsafe fn deallocate_large(family: &'static Family, block: NonNull<u8>, layout: Layout) {
    // SAFETY: the caller's.
    unsafe { heap::deallocate_large(&Global, &books(family), block, layout) };
}

/// Grows a block of a layout without units, as [`allocate_large`] makes one.
///
/// # Safety
/// As `Allocator::grow`; the block is the global heap's and on the family's books, and neither layout has units nor size zero.
#[cold]
#[inline(never)]
pub(crate) unsafe fn grow_large(
    family: &'static Family,
    block: NonNull<u8>,
    layouts: (Layout, Layout),
    zeroed: bool,
) -> Result<NonNull<u8>, AllocError> {
    let books = books(family);
    // SAFETY: the caller's; a block that did not grow is as it was.
    let grow = || unsafe { heap::grow_large(&Global, &books, block, layouts, zeroed) };
    grow().or_else(|AllocError| {
        relieve(family);
        grow()
    })
}

/// Shrinks a block of a layout without units.
///
/// # Safety
/// As `Allocator::shrink`; the block is the global heap's and on the family's books, and neither layout has units nor size zero.
#[cold]
#[inline(never)]
pub(crate) unsafe fn shrink_large(
    family: &'static Family,
    block: NonNull<u8>,
    layouts: (Layout, Layout),
) -> Result<NonNull<u8>, AllocError> {
    // SAFETY: the caller's.
    unsafe { heap::shrink_large(&Global, &books(family), block, layouts) }
}

/// The thread's own table of this family, if it has one.
fn own_heaps(family: &'static Family) -> Option<Heaps<'static>> {
    local::bound::<Shard>().and_then(|record| Heaps::find(record, family))
}

/// Before a refusal: gives back empty units of this thread and of ended ones, and asks the others for theirs.
fn relieve(family: &'static Family) {
    match own_heaps(family) {
        // SAFETY: the record is bound to this thread.
        Some(heaps) => unsafe { owner::make_room(heaps) },
        None => owner::make_room_elsewhere(family),
    }
}

/// Gives back this thread's empty units.
pub(crate) fn trim_here(family: &'static Family) {
    if let Some(heaps) = own_heaps(family) {
        // SAFETY: the record is bound to this thread.
        unsafe { heaps.trim() };
    }
}

/// Gives back what this thread and records that no thread holds have in vain, and asks the threads that hold one to do the same
/// when they next come to their slow path.
pub(crate) fn trim_all(family: &'static Family) {
    trim_here(family);
    family.epoch.raise();
    owner::clean_free(family);
}

impl Family {
    /// What all threads hold of it and what of that is alive.
    pub(crate) fn stats(&'static self) -> Stats {
        let own = local::bound::<Shard>().map_or(ptr::null(), ptr::from_ref);
        owner::stats_of(self, own)
    }
}

#[cfg(test)]
mod tests {
    use super::{Heaps, REGISTRY, Record, owner};
    use crate::{Pooled, PooledBox};

    #[test]
    fn conc_a_remote_free_beside_a_momentary_lease_is_not_left_there() {
        // A thread of another test may take the record otherwise.
        let _turn = ephemera_testkit::suite::turn();
        struct Value(u64);
        crate::pooled!(Value);
        let held = || PooledBox::<Value>::stats().bytes_held;
        let value = std::thread::spawn(|| PooledBox::new(Value(7))).join().expect("no panic");
        let record = REGISTRY.records().find(|record| Heaps::find(record, Value::__family()).is_some());
        let lease = record.and_then(Record::try_lease).expect("its thread ended");
        assert_eq!(value.0, 7);
        drop(value);
        assert_ne!(held(), 0, "whoever has the record looks after it");
        owner::release(lease);
        assert_eq!(held(), 0);
    }
}
