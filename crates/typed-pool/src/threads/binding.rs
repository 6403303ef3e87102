//! Binds a record to a thread on its first allocation, and allocates from the record's heaps.

use core::ptr::{self, NonNull};

use allocator_api2::alloc::AllocError;
use ephemera_prim::local::{self, Held, Tenant};

use super::cell::NOTHING;
use super::state::{Family, PoolRecord};
use super::table::Heaps;
use super::{this_thread, visit};
use crate::class;

/// Allocates a slot for a value of `size` bytes from the heap with this index, after the fast path
/// found none.
///
/// The first allocation of a thread binds a record to the thread. The first allocation of a thread
/// in a family makes a table on that record, unless the record has one. A thread whose exit guard
/// has run leases a record for each call.
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
    let heaps = (family.cell)().heaps();
    if !ptr::eq(heaps.as_ptr(), NOTHING) {
        // SAFETY: T2: the thread holds the table's record, and the caller passes a valid index.
        return unsafe { visit::refill(heaps, heap, size) };
    }
    // SAFETY: `with_heaps` passes a table on a record that the thread holds, and the caller passes
    // a valid index.
    with_heaps(family, heap, |heaps| unsafe { visit::refill(heaps, heap, size) })
}

/// Calls `slow` with the family's table on a record that the thread holds at least until `slow`
/// returns. Makes the table if the record has none. If `slow` succeeds in a counting scope, counts
/// the allocation of a slot of the heap with this index. Returns the result of `slow`, or an error
/// if there is no memory for a record or a table.
pub(super) fn with_heaps(
    family: &'static Family,
    heap: usize,
    slow: impl FnOnce(Heaps<'static>) -> Result<NonNull<u8>, AllocError>,
) -> Result<NonNull<u8>, AllocError> {
    if let Some(heaps) = (family.cell)().table() {
        let slot = slow(heaps)?;
        if let Some(ledger) = heaps.first().ledger().filter(|ledger| ledger.is_counting()) {
            ledger.count_new(1, class::stride(heap));
        }
        return Ok(slot);
    }
    let slot = with_record(|held| slow(find_or_make_table(held, family).ok_or(AllocError)?));
    slot.unwrap_or(Err(AllocError))
}

/// Returns the family's table on a record that the thread holds, and makes the table if the record
/// has none. If the record is bound to the thread, also stores the table in the thread's cell.
/// Returns `None` if there is no memory for the table.
fn find_or_make_table(held: &Held<PoolRecord>, family: &'static Family) -> Option<Heaps<'static>> {
    // SAFETY: the thread holds the record; records and families are never freed.
    let heaps = unsafe { Heaps::find_or_make(held.record(), family) }?;
    if matches!(held, Held::Bound(_)) {
        (family.cell)().set(Some(heaps));
    }
    Some(heaps)
}

/// Calls `work` with a record that this thread holds at least until `work` returns. Returns the
/// result of `work`, or `None` if there is no memory for a record.
fn with_record<R>(work: impl FnOnce(&Held<PoolRecord>) -> R) -> Option<R> {
    local::hold::<PoolRecord>().map(|held| run_then_release(held, work))
}

/// Calls `work`, then releases the record if the thread leased it only for this call. Other threads
/// may have pushed to the record during the lease, so the release drains the inboxes, even if
/// `work` failed.
fn run_then_release<R>(held: Held<PoolRecord>, work: impl FnOnce(&Held<PoolRecord>) -> R) -> R {
    let result = work(&held);
    if !weakened!("momentary_lease_ends_without_a_look") {
        held.release();
    }
    result
}

/// Binds a record to this thread if none is bound, makes a table of the family on that record, and
/// stores the table in the thread's cell. Stops at a step for which there is no memory. Does
/// nothing after the thread's exit guard has run.
#[cold]
pub(super) fn bind(family: &'static Family) {
    if ptr::eq(this_thread::this_record(), PoolRecord::statics().gone) {
        return;
    }
    with_record(|held| {
        if matches!(held, Held::Bound(_)) {
            find_or_make_table(held, family);
        }
    });
}

#[cfg(test)]
#[expect(unreachable_pub, reason = "the methods of an allocator that the macro declares are public")]
mod tests {
    use core::alloc::Layout;

    use ephemera_prim::pages;
    use ephemera_prim::record::Record;

    use super::{Heaps, Held, run_then_release};
    use crate::threads::lease_end;
    use crate::threads::records::REGISTRY;
    use crate::threads::visit;
    use crate::{Pooled, PooledBox};

    #[test]
    fn conc_a_remote_free_during_a_momentary_lease_is_drained_at_its_release() {
        // The tests take turns, because a thread of another test could lease the record.
        ephemera_testkit::suite::take_turn();
        struct Value(u64);
        crate::pooled!(Value);
        let held = || PooledBox::<Value>::stats().bytes_held;
        let value = std::thread::spawn(|| PooledBox::new(Value(7))).join().expect("no panic");
        let record = REGISTRY.records().find(|record| Heaps::find(record, Value::__family()).is_some());
        let lease = record.and_then(Record::try_lease).expect("its thread ended");
        assert_eq!(value.0, 7);
        drop(value);
        assert_ne!(held(), 0, "only the holder of the record drains it");
        lease_end::release(lease);
        assert_eq!(held(), 0);
    }

    #[test]
    fn units_that_a_momentary_holder_empties_are_freed_at_its_release() {
        ephemera_testkit::suite::take_turn();
        struct Value([u8; 512]);
        crate::pooled!(Value);
        let units = || PooledBox::<Value>::stats().units;
        // Fill two units, so that no free slot of the class is left after the thread has ended.
        let fill = move || {
            let mut values = std_alloc::vec::Vec::new();
            while units() <= 2 {
                values.push(PooledBox::new(Value([7; 512])));
            }
            values.pop();
            values
        };
        let values = std::thread::spawn(fill).join().expect("no panic");
        assert_eq!((units(), values[0].0[0]), (2, 7));
        let record = REGISTRY.records().find(|record| Heaps::find(record, Value::__family()).is_some());
        let lease = record.and_then(Record::try_lease).expect("its thread ended");
        drop(values);
        let slot = run_then_release(Held::Leased(lease), |held| {
            let heaps = Heaps::find(held.record(), Value::__family()).expect("a table");
            // SAFETY: this thread holds the record; a family of one type has one heap.
            unsafe { visit::refill(heaps, 0, size_of::<Value>()) }.expect("memory")
        });
        let left = units();
        // SAFETY: the slot was just allocated for a value of this type.
        unsafe { slot.cast::<Value>().write(Value([8; 512])) };
        // SAFETY: the slot has a value and is a live slot of the type's pool, as if from a box.
        drop(unsafe { PooledBox::<Value>::from_raw(slot.cast()) });
        assert_eq!((left, units()), (1, 0), "one unit has the slot, and the other one is empty");
    }

    #[test]
    fn a_push_during_a_lease_whose_table_cannot_be_made_is_drained_at_its_end() {
        ephemera_testkit::suite::take_turn();
        struct Value(u64);
        crate::pooled!(Value);
        crate::pooled_allocator! {
            /// A family without a table on the record.
            struct Other;
        }
        let bytes_held = || PooledBox::<Value>::stats().bytes_held;
        let value = std::thread::spawn(|| PooledBox::new(Value(7))).join().expect("no panic");
        let record = REGISTRY.records().find(|record| Heaps::find(record, Value::__family()).is_some());
        let lease = record.and_then(Record::try_lease).expect("its thread ended");
        assert_eq!(value.0, 7);
        // If no pages come from the system, as under Miri, the memory for the table is never
        // refused.
        let refuses = pages::usage().bytes_mapped != 0;
        let (heaps, before) = run_then_release(Held::Leased(lease), |held| {
            pages::refuse_call(usize::MAX);
            // Use up the rest of the permanent memory, in which the table would fit.
            while refuses && pages::permanent(Layout::new::<[u64; 8]>()).is_ok() {}
            // SAFETY: this thread holds the record; records and families are never freed.
            let heaps = unsafe { Heaps::find_or_make(held.record(), Other::__family()) };
            pages::refuse_call(0);
            drop(value);
            (heaps, bytes_held())
        });
        assert_eq!(heaps.is_none(), refuses, "the system refuses the table");
        assert_ne!(before, 0, "only the holder of the record drains it");
        assert_eq!(bytes_held(), 0);
    }
}
