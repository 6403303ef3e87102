//! Releases records, with the drains and trims that belong to a release. A thread releases records
//! when it exits, after a momentary lease, and when it leaves a scope or ends it.

use ephemera_prim::account::Account;
use ephemera_prim::record::{Lease, Record};
use ephemera_prim::sync::{Ordering, fence};

use super::owner::HeapOwner;
use super::state::{PoolRecord, ThreadHeap};
use super::table::Heaps;
use crate::heap;
use crate::heap::supply::LeftUnits;

// ORDERING: Acquire. Pairs with the fence that separates a push from `mark_mail`: this thread sees
// the pushes of all threads that marked the record, because each exchange continues the earlier
// release sequences.
ordering!(unmark_order = Acquire, Relaxed if "mail_unmark_relaxed");

/// Releases a lease, then drains the inboxes if they have mail. A thread that pushed while the
/// record was held left the drain to the holder. Also frees the empty units that holders left
/// ([`trim_leftovers`]).
#[inline]
pub(super) fn release(lease: Lease<'_, PoolRecord>) {
    let record = lease.record();
    lease.release(has_mail, drain);
    if has_leftovers(record.data()) {
        trim_leftovers(record);
    }
}

/// Releases the record of a scope that this thread leaves. The release drains the heaps that have
/// remote frees, and frees their empty units. All other heaps keep their empty units, unless
/// [`trim_leftovers`] trims the record.
#[inline]
pub(super) fn leave_scope(lease: Lease<'_, PoolRecord>) {
    for heaps in Heaps::of(lease.record().data()) {
        if heaps.family().account().is_limited() {
            note_fronts(heaps);
        }
    }
    if !weakened!("scope_is_left_without_a_look") {
        release(lease);
    }
}

/// Counts one event in the account if this thread leaves a front in any heap of a table. The front
/// may be empty, so a thread whose request was refused must search again. The end of the scope need
/// not count another event when it sets a front aside. If a thread has searched since this event,
/// the search gave up the front, and there is none to set aside.
#[cold]
#[inline(never)]
fn note_fronts(heaps: Heaps<'_>) {
    let has_front = heaps.used().any(|heap| heap.heap.has_front());
    if has_front && !weakened!("fronts_left_are_no_spares") {
        heaps.family().account().spare();
    }
}

/// Trims all tables of a record that this thread holds, and frees the record's cached spans.
pub(super) fn trim_record(record: &Record<PoolRecord>) {
    let mut leaves_some = false;
    for heaps in Heaps::of(record.data()) {
        // SAFETY: this thread holds the record.
        leaves_some |= !unsafe { heaps.trim() };
    }
    record.data().leftovers.set(usize::from(leaves_some));
    #[cfg(not(ephemera_loom))]
    record.data().pushed.forget();
    if !weakened!("ended_thread_keeps_spans") {
        record.data().spans.clear();
    }
}

/// Returns whether the record may contain empty units that [`trim_leftovers`] must free.
#[inline]
fn has_leftovers(data: &PoolRecord) -> bool {
    data.leftovers.get() != 0 || has_ended(data)
}

/// Frees the empty units that a former holder of the record left. A walker protected these units,
/// or a momentary holder booked their last frees, or another thread ended the scope or trimmed the
/// family while a thread held the record.
///
/// A former holder calls this function after its release, a walker after it has written `walks`,
/// and a thread that ends a scope or trims the family after it has written `ended`. A fence
/// separates the release from the former holder's reads of these words, and another fence separates
/// each write from the check of the lease. Therefore either the former holder sees the write and
/// trims again, or the other thread sees a free record and trims it.
#[cold]
#[inline(never)]
pub(super) fn trim_leftovers(record: &Record<PoolRecord>) {
    let data = record.data();
    while has_leftovers(data) {
        let walks = data.walks.load(Ordering::Relaxed);
        let Some(lease) = record.try_lease() else { return };
        data.ended.store(0, Ordering::Relaxed);
        trim_record(record);
        if weakened!("scope_ends_without_a_look") {
            return;
        }
        lease.release(has_mail, drain);
        if data.walks.load(Ordering::Relaxed) == walks && !has_ended(data) {
            return;
        }
    }
}

/// Frees the empty units of a scope's record at the end of the scope. Keeps up to `bytes` bytes of
/// units, which the next scope on the same heaps probably needs. Returns how many of these bytes
/// are left for other records.
///
/// If another thread holds the record, that thread frees all empty units when it releases the
/// record.
pub(super) fn end_scope_keeping(record: &Record<PoolRecord>, mut bytes: usize, left: LeftUnits) -> usize {
    let Some(lease) = record.try_lease() else {
        end_scope(record);
        return bytes;
    };
    let mut all = true;
    // The heaps of small slots come first, because their units are the smallest: in this order, the
    // most heaps can keep a unit.
    for heap in Heaps::of(record.data()).flat_map(Heaps::used) {
        // SAFETY: the lease makes this thread the holder.
        let (kept, freed) = heap::supply::trim_keeping(unsafe { HeapOwner::new(heap) }, bytes, left);
        bytes -= kept;
        all &= freed;
    }
    record.data().leftovers.set(usize::from(!all));
    release(lease);
    bytes
}

/// Returns whether the record's scope has ended, or its family was trimmed, since a thread last
/// trimmed the record.
#[inline]
fn has_ended(data: &PoolRecord) -> bool {
    data.ended.load(Ordering::Relaxed) != 0 && !weakened!("ended_scope_is_not_trimmed")
}

/// Frees the empty units of a scope's record, at the end of the scope or because a thread trims the
/// family. If a thread holds the record, that thread frees them at its release.
pub(super) fn end_scope(record: &Record<PoolRecord>) {
    record.data().ended.store(1, Ordering::Relaxed);
    // ORDERING: SeqCst fence. Pairs with the one in `Lease::release`: either the holder sees
    // `ended`, or this thread sees a free record.
    fence(Ordering::SeqCst);
    if weakened!("ended_scope_is_not_trimmed") {
        if let Some(lease) = record.try_lease() {
            trim_record(record);
            release(lease);
        }
    }
    trim_leftovers(record);
}

/// Drains the record of a heap to which this thread has pushed or returned groups, if no thread
/// holds the record. Without this call, the groups in the inbox would wait until a thread leases
/// the record. Also frees the empty units, because no thread allocates from them. Marks a scope's
/// record first ([`mark_mail`]). A fence must separate the push from this call.
#[inline]
pub(super) fn drain_free_record(heap: &ThreadHeap) {
    let record = heap.record();
    if record.data().ledger().is_some() {
        mark_mail(record.data());
    }
    if record.is_free() && !weakened!("push_without_a_look") {
        record.look_after(has_mail, drain);
        trim_leftovers(record);
    }
}

/// Marks a scope's record to which this thread has pushed. The thread that releases the record
/// checks the mark. A fence must separate the push from this call.
#[cold]
#[inline(never)]
fn mark_mail(data: &PoolRecord) {
    if weakened!("mail_mark_is_stored") {
        data.mailed.store(1, Ordering::Relaxed);
    } else if !weakened!("scope_has_no_mail_mark") {
        // Relaxed: the fence before this call publishes the push to the Acquire in `drain`. This is
        // an exchange because a store would end the release sequence of another thread's mark.
        data.mailed.swap(1, Ordering::Relaxed);
    }
    if !weakened!("mail_mark_without_fence") {
        // ORDERING: SeqCst fence. Pairs with the one in `Lease::release`: either the thread that
        // releases the record sees the mark, or this thread sees that the record is free.
        fence(Ordering::SeqCst);
    }
}

/// Frees the empty units that an earlier holder left on a record that this thread has just leased.
/// Such units may exist if that holder had the lease when the record's scope ended or its family
/// was trimmed, and no thread has trimmed the record since.
#[inline]
pub(super) fn trim_ended(record: &Record<PoolRecord>) {
    if has_ended(record.data()) {
        record.data().ended.store(0, Ordering::Relaxed);
        trim_record(record);
    }
}

/// Returns whether any heap of the record may have mail.
#[inline]
pub(super) fn has_mail(data: &PoolRecord) -> bool {
    if data.ledger().is_some() { data.mailed.load(Ordering::Relaxed) != 0 } else { any_has_mail(data) }
}

fn any_has_mail(data: &PoolRecord) -> bool {
    Heaps::of(data).flat_map(Heaps::used).any(|heap| heap.mail.is_some())
}

/// Drains the inboxes of a record that this thread has leased only to drain them. If a unit still
/// has a live slot after its remote frees are booked, it usually becomes abandoned, because no
/// thread allocates from it.
pub(super) fn drain(record: &Record<PoolRecord>) {
    let mailed = &record.data().mailed;
    if mailed.load(Ordering::Relaxed) != 0 && !weakened!("mail_is_unmarked_last") {
        // ORDERING: `unmark_order`. Pairs with the fence before `mark_mail`. A later push marks the
        // record again.
        mailed.swap(0, unmark_order());
    }
    for heap in Heaps::of(record.data()).flat_map(Heaps::used) {
        if heap.mail.is_some() {
            #[cfg(all(test, not(ephemera_loom)))]
            heap.drains.add(1);
            // SAFETY: this thread holds the record.
            if !heap::abandon::drain(unsafe { HeapOwner::new(heap) }) {
                record.data().leftovers.set(1);
            }
        }
    }
    if weakened!("mail_is_unmarked_last") {
        mailed.store(0, Ordering::Relaxed);
    }
}
