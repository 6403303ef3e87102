//! The slow path of an allocation, and the work that it does for other threads.

use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;
#[cfg(not(ephemera_loom))]
use ephemera_prim::idle::LOOK_EVERY;
use ephemera_prim::record::Record;

use super::owner::HeapOwner;
use super::publish::publish_own;
use super::state::PoolRecord;
use super::table::Heaps;
#[cfg(not(ephemera_loom))]
use super::{idle_queue, this_thread};
use crate::heap::{self, PoolEnv};

/// The number of visits to the slow path in a *round*. At the end of each round, a thread books the
/// remote frees of all heaps of its record.
const ROUND: usize = 64;

/// Allocates a slot from the heap with this index by the slow path.
///
/// # Safety
/// The calling thread holds the record, and the family has more than `heap` heaps.
pub(super) unsafe fn refill(heaps: Heaps<'_>, heap: usize, size: usize) -> Result<NonNull<u8>, AllocError> {
    // SAFETY: the caller holds the record, and the index is in the table.
    let owner = unsafe { heaps.owner(heap) };
    // A miss of a heap that hosts does not count as a visit, because the heap's inspections count
    // instead.
    if let Some(slot) = owner.heap().take_withheld(size) {
        return Ok(slot);
    }
    // SAFETY: the caller holds the record.
    unsafe { visit(heaps) };
    heaps.mark_used(heap);
    heap::refill(owner, size)
}

/// Counts a visit to the slow path, and does the work that other threads leave to this one. Each
/// visit publishes the bundle and obeys a requested trim. Every [`ROUND`]th visit books the remote
/// frees of all heaps of the record, and every `LOOK_EVERY`th visit looks for idle owners.
///
/// # Safety
/// The calling thread holds the table's record.
#[inline]
pub(super) unsafe fn visit(heaps: Heaps<'_>) {
    let record = heaps.first().record();
    let visits = record.data().visits.add(1);
    publish_own();
    if visits % ROUND == 0 {
        look_after_all(record);
    }
    #[cfg(not(ephemera_loom))]
    if visits % LOOK_EVERY == 0 {
        idle_queue::look();
    }
    if heaps.take_trim_request() {
        // SAFETY: the caller holds the record.
        unsafe { trim_on_request(heaps) };
    }
}

/// Frees the empty units of this table, and the spans that the thread keeps.
///
/// # Safety
/// The calling thread holds the table's record.
#[cold]
#[inline(never)]
unsafe fn trim_on_request(heaps: Heaps<'_>) {
    // SAFETY: the caller holds the record.
    unsafe { heaps.trim() };
    #[cfg(not(ephemera_loom))]
    this_thread::clear_spans();
}

/// Allocates a slot like [`refill`], for a block that shrinks. If that fails, allocates from a new
/// unit, even beyond the limit.
///
/// # Safety
/// The calling thread holds the record, and the family has more than `heap` heaps.
pub(super) unsafe fn refill_beyond(
    heaps: Heaps<'_>,
    heap: usize,
    size: usize,
) -> Result<NonNull<u8>, AllocError> {
    // SAFETY: this function has the same contract.
    unsafe { refill(heaps, heap, size) }.or_else(|AllocError| {
        // SAFETY: the caller holds the record, and the index is in the table.
        heap::slow::refill_beyond(unsafe { heaps.owner(heap) }, size)
    })
}

/// The maximum number of outer scopes for which a thread books remote frees in one visit.
const OUTER: usize = 8;

/// Books the remote frees of all heaps of the record. For the record of a scope, also books the
/// remote frees of the next [`OUTER`] outer scopes and of the thread's own record. While the thread
/// is in an inner scope, it never takes the slow path of those heaps.
#[cold]
fn look_after_all(record: &Record<PoolRecord>) {
    look_after(record);
    #[cfg(not(ephemera_loom))]
    if record.data().ledger().is_some() {
        if !weakened!("outer_scopes_are_not_looked_after") {
            let outer = core::iter::successors(record.data().outer(), |record| record.data().outer());
            outer.take(OUTER).for_each(look_after);
        }
        if let Some(own) = this_thread::record() {
            look_after(own);
        }
    }
}

/// The number of a heap's units that other threads must empty during a round for the heap's units
/// to rest. If one thread hands all of its blocks over to another, the other thread empties 7 units
/// or more in a round, even if queued units become fronts too. If all threads free random blocks,
/// other threads empty 1.
const LEAST_EMPTIED: u16 = 4;

/// Decides which heap of a table lets its units rest during the next round. A heap whose units rest
/// stays the chosen one while other threads empty at least [`LEAST_EMPTIED`] of its units in each
/// round. Otherwise the heap with the most emptied units is chosen, if other threads emptied at
/// least that many of its units.
///
/// # Safety
/// The calling thread holds the table's record.
unsafe fn choose_resting(heaps: Heaps<'_>) {
    let least = if weakened!("units_rest_at_once") { 1 } else { LEAST_EMPTIED };
    let (mut has_resting, mut next) = (false, None::<(u16, HeapOwner<'_>)>);
    for heap in heaps.used() {
        // SAFETY: the caller holds the record.
        let owner = unsafe { HeapOwner::new(heap) };
        let kept = owner.heap().kept();
        let emptied = kept.take_emptied();
        if kept.has_resting() {
            if emptied >= least || weakened!("units_rest_forever") {
                has_resting = true;
            } else {
                heap::supply::set_resting(owner, false);
            }
        } else if emptied >= least && next.is_none_or(|(most, _)| emptied > most) {
            next = Some((emptied, owner));
        }
    }
    if let Some((_, owner)) = next.filter(|_| !has_resting || weakened!("every_heap_rests")) {
        heap::supply::set_resting(owner, true);
    }
}

/// Books the remote frees of all heaps of the record, and obeys the trims that were requested for
/// its tables. Some of these tables may serve families that this thread never uses, because earlier
/// holders of the record made them.
fn look_after(record: &Record<PoolRecord>) {
    for heaps in Heaps::of(record.data()) {
        if heaps.take_trim_request() {
            // SAFETY: this thread holds the record.
            unsafe { trim_on_request(heaps) };
        } else {
            // SAFETY: this thread holds the record.
            heaps.used().for_each(|heap| unsafe { HeapOwner::new(heap) }.book_mail());
            // SAFETY: this thread holds the record.
            unsafe { choose_resting(heaps) };
        }
    }
    // If the thread leases the record only for a moment, no later slow path frees the units that
    // became empty here, so the release frees them. The release of a scope's record does not,
    // because a scope keeps empty units.
    if record.data().ledger().is_none() {
        record.data().leftovers.set(1);
    }
}
