//! The calling thread's record, and its heaps of each family.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use allocator_api2::alloc::AllocError;
use ephemera_prim::local::{self, Held, Tenant};
use ephemera_prim::record::{FIRST, Lease, Record, Registry};

use super::Family;
use super::books::Books;
use super::cell::{CellState, FamilyCell, NOTHING};
use super::spans::clear_spans;
use super::statistics;
use super::table::{Heaps, PoolRecord};
use super::{large, last_resort, lease_end, owner, scopes};
use crate::alloc::pooled_family;
use crate::class;
use crate::stats::Stats;

pub(super) static REGISTRY: Registry<PoolRecord> =
    Registry::new([const { Record::new(PoolRecord::new()) }; FIRST], PoolRecord::new);

impl Tenant for PoolRecord {
    type Near = ();

    fn near(_: &'static Record<Self>) {}

    ephemera_prim::tenant_statics!(PoolRecord, registry: &REGISTRY, nowhere: PoolRecord::new(), near: ());

    fn enter(&self) {}

    /// Frees empty units, then resets the thread's cells. From here on each free of this thread is
    /// remote.
    fn leave(record: &'static Record<Self>) {
        lease_end::trim_record(record);
        scopes::trim_place(true);
        if cfg!(ephemera_weaken = "cells_keep_the_record") {
            return;
        }
        for heaps in Heaps::of_record(record) {
            forget(heaps.family());
        }
    }

    fn release(lease: Lease<'static, Self>) {
        lease_end::release(lease);
    }
}

/// Stores the thread's own table in the family's cell. The thread is in no scope.
fn remember(heaps: Heaps<'static>) {
    // If the cell is destroyed, each allocation takes the slow path.
    let _ = (heaps.family().cell)().try_with(|cell| cell.set(CellState::own(heaps)));
}

/// Resets the family's cell to the heaps of threads that own nothing.
fn forget(family: &Family) {
    let _ = (family.cell)().try_with(|cell| cell.set(CellState::NOTHING));
}

/// Returns the record that this thread holds. It may be NOWHERE or GONE, which no unit names.
#[inline]
pub(crate) fn this_record() -> *const Record<PoolRecord> {
    local::current::<PoolRecord>()
}

/// Allocates a slot from the heap with this index, if the thread's front has none.
///
/// The first allocation of a thread binds a record to it, and the first one of a family makes a
/// table on that record. After its exit guard has run, a thread leases a record for each such call.
///
/// # Safety
/// The family has more than `heap` heaps.
#[cold]
#[inline(never)]
pub(crate) unsafe fn refill(
    family: &'static Family,
    heap: usize,
    size: usize,
) -> Result<NonNull<u8>, AllocError> {
    let heaps = FamilyCell::get((family.cell)());
    if !ptr::eq(heaps.as_ptr(), NOTHING) {
        // SAFETY: T2: the thread holds the table's record, and the caller passes a valid index.
        return unsafe { owner::refill(heaps, heap, size) };
    }
    // SAFETY: the thread holds the table's record, and the caller passes a valid index.
    with_heaps(family, heap, |heaps| unsafe { owner::refill(heaps, heap, size) })
}

/// Allocates a block for one that shrinks, after the limit refused it. The memory for it may exceed
/// the limit.
#[cold]
#[inline(never)]
pub(crate) fn allocate_beyond(family: &'static Family, layout: Layout) -> Result<NonNull<u8>, AllocError> {
    match class::any(layout) {
        Some(heap) => with_heaps(family, heap, |heaps| {
            // SAFETY: the thread holds the record, and the family has a heap for each class.
            unsafe { owner::refill_beyond(heaps, heap, layout.size()) }
        }),
        None => large::allocate_beyond(family, layout),
    }
}

/// Calls `slow`, which allocates from the heap with this index, with the table on a record that
/// this thread holds until the call returns, or longer. Counts the slot if the thread is in a
/// counting scope.
fn with_heaps(
    family: &'static Family,
    heap: usize,
    slow: impl FnOnce(Heaps<'static>) -> Result<NonNull<u8>, AllocError>,
) -> Result<NonNull<u8>, AllocError> {
    if let Some(heaps) = FamilyCell::table((family.cell)()) {
        let slot = slow(heaps)?;
        if let Some(ledger) = heaps.first().ledger().filter(|ledger| ledger.is_counting()) {
            ledger.count_allocation(class::stride(heap));
        }
        return Ok(slot);
    }
    let slot = with_record(|held| {
        // SAFETY: the thread holds the record; records and families are never freed.
        let heaps = unsafe { Heaps::find_or_make(held.record(), family) }.ok_or(AllocError)?;
        if matches!(held, Held::Bound(_)) {
            remember(heaps);
        }
        slow(heaps)
    });
    slot.unwrap_or(Err(AllocError))
}

/// Calls `work` with a record that this thread holds until `work` returns, or longer. Returns
/// `None` if there is no memory for a record.
fn with_record<R>(work: impl FnOnce(&Held<PoolRecord>) -> R) -> Option<R> {
    local::hold::<PoolRecord>().map(|held| run_then_release(held, work))
}

/// Calls `work`, then ends a momentary lease. Other threads may have pushed to the record in the
/// meantime, so the end of the lease looks at the inboxes, also if `work` failed.
fn run_then_release<R>(held: Held<PoolRecord>, work: impl FnOnce(&Held<PoolRecord>) -> R) -> R {
    let result = work(&held);
    if !cfg!(ephemera_weaken = "momentary_lease_ends_without_a_look") {
        held.release();
    }
    result
}

/// Returns the books of large blocks, with the tally of the thread's table.
pub(super) fn books(family: &'static Family) -> Books<'static> {
    Books::new(family, FamilyCell::table((family.cell)()))
}

/// Makes a table of the family on this thread's record, if the thread may have one.
#[cold]
pub(super) fn bind(family: &'static Family) {
    if ptr::eq(this_record(), PoolRecord::statics().gone) {
        return;
    }
    with_record(|held| {
        if matches!(held, Held::Bound(_)) {
            // SAFETY: the thread holds the record; records and families are never freed.
            if let Some(heaps) = unsafe { Heaps::find_or_make(held.record(), family) } {
                remember(heaps);
            }
        }
    });
}

/// Returns the thread's own table of this family, if it has one.
pub(super) fn own_heaps(family: &Family) -> Option<Heaps<'_>> {
    local::bound::<PoolRecord>().and_then(|record| Heaps::find(record, family))
}

/// Before a refusal, frees empty units of this thread and of ended ones, and asks other threads to
/// free theirs.
pub(super) fn make_room_for_thread(family: &'static Family) {
    match FamilyCell::table((family.cell)()) {
        // SAFETY: T2: the thread holds the record of the table in its cell.
        Some(heaps) => unsafe { last_resort::make_room(heaps) },
        None => last_resort::make_room_elsewhere(family),
    }
}

/// Frees the empty units of this thread, and those of the scope that it entered last.
pub(crate) fn trim_here(family: &'static Family) {
    if let Some(heaps) = FamilyCell::table((family.cell)()) {
        // SAFETY: T2: the thread holds the record of the table in its cell.
        unsafe { heaps.trim() };
    }
    trim_outside(family);
    clear_spans();
    if ptr::eq(family, pooled_family()) {
        scopes::trim_place(false);
    }
}

/// Frees the empty units of the thread's own table if the thread is in a scope.
pub(super) fn trim_outside(family: &Family) {
    let inside = FamilyCell::table((family.cell)()).map(Heaps::as_ptr);
    let own = own_heaps(family).filter(|heaps| Some(heaps.as_ptr()) != inside);
    if let Some(heaps) = own {
        // SAFETY: the record is bound to this thread.
        unsafe { heaps.trim() };
    }
}

/// Books the remote frees of the thread's own record.
pub(super) fn look_after_own() {
    if let Some(record) = local::bound::<PoolRecord>() {
        owner::look_after_all(record);
    }
}

/// Trims this thread and the records that no thread holds, and asks the holders of the others to
/// trim at their next slow path.
pub(crate) fn trim_all(family: &'static Family) {
    trim_here(family);
    family.epoch.raise();
    last_resort::trim_free_records(family);
}

impl Family {
    /// Returns the bytes that all threads hold for this family, and the live slots.
    pub(crate) fn stats(&'static self) -> Stats {
        let own = local::bound::<PoolRecord>().map_or(ptr::null(), ptr::from_ref);
        let inside = FamilyCell::table((self.cell)());
        statistics::stats_of(self, [own, inside.map_or(ptr::null(), |heaps| heaps.first().record)])
    }
}

#[cfg(test)]
#[expect(unreachable_pub, reason = "the methods of an allocator that the macro declares are public")]
mod tests {
    use core::alloc::Layout;

    use ephemera_prim::pages;

    use super::{Heaps, Held, REGISTRY, Record, lease_end, run_then_release};
    use crate::{Pooled, PooledBox};

    #[test]
    fn conc_a_remote_free_during_a_momentary_lease_is_drained_at_its_release() {
        // The tests take turns, since a thread of another test could lease the record.
        let _turn = ephemera_testkit::suite::turn();
        struct Value(u64);
        crate::pooled!(Value);
        let held = || PooledBox::<Value>::stats().bytes_held;
        let value = std::thread::spawn(|| PooledBox::new(Value(7))).join().expect("no panic");
        let record = REGISTRY.records().find(|record| Heaps::find(record, Value::__family()).is_some());
        let lease = record.and_then(Record::try_lease).expect("its thread ended");
        assert_eq!(value.0, 7);
        drop(value);
        assert_ne!(held(), 0, "the holder of the record drains it");
        lease_end::release(lease);
        assert_eq!(held(), 0);
    }

    #[test]
    fn a_push_during_a_lease_whose_table_cannot_be_made_is_drained_at_its_end() {
        let _turn = ephemera_testkit::suite::turn();
        struct Value(u64);
        crate::pooled!(Value);
        crate::pooled_allocator! {
            /// It has no table on the record.
            struct Other;
        }
        let bytes_held = || PooledBox::<Value>::stats().bytes_held;
        let value = std::thread::spawn(|| PooledBox::new(Value(7))).join().expect("no panic");
        let record = REGISTRY.records().find(|record| Heaps::find(record, Value::__family()).is_some());
        let lease = record.and_then(Record::try_lease).expect("its thread ended");
        assert_eq!(value.0, 7);
        // Without pages of the system, as under Miri, nothing refuses the table.
        let refuses = pages::usage().mapped != 0;
        let (heaps, before) = run_then_release(Held::Leased(lease), |held| {
            pages::refuse_call(usize::MAX);
            // A table fits the permanent memory that is left.
            while refuses && pages::permanent(Layout::new::<[u64; 8]>()).is_ok() {}
            // SAFETY: this thread holds the record; records and families are never freed.
            let heaps = unsafe { Heaps::find_or_make(held.record(), Other::__family()) };
            pages::refuse_call(0);
            drop(value);
            (heaps, bytes_held())
        });
        assert_eq!(heaps.is_none(), refuses, "the system refuses the table");
        assert_ne!(before, 0, "the holder of the record drains it");
        assert_eq!(bytes_held(), 0);
    }
}
