//! The search for memory before a refusal. The searching thread frees the empty units of its own
//! tables and of records that no thread holds, and asks running threads to free theirs at their
//! next slow path.

use super::lease_end;
use super::publish::publish_own;
use super::state::{Family, ThreadHeap};
use super::table::Heaps;
#[cfg(not(ephemera_loom))]
use super::this_thread;

/// Frees the empty units of this table, of the thread's other tables of the family, and of the
/// records that no thread holds, and asks running threads to free theirs. Until its next slow path,
/// a running thread may keep the memory that this thread needs.
///
/// Under a limit, only three events make a thread repeat a search outside its own tables: a heap of
/// the family kept another empty unit, a thread left a scope whose heaps have a front, or the limit
/// changed. Without these events, a search cannot succeed, because all other freed memory is
/// released to the account, where the next request finds it.
///
/// # Safety
/// The calling thread holds the table's record.
pub(super) unsafe fn make_room(heaps: Heaps<'_>) {
    let family = heaps.family();
    let spares = family.account().spares();
    // SAFETY: the caller holds the record.
    unsafe { heaps.trim() };
    let looked = &heap_that_remembers(heaps).looked;
    if spares == Some(looked.get()) && !weakened!("refusal_is_forgotten") {
        // A running thread may have an empty front, which `spares` does not count, so this thread
        // asks the others to trim again. The request costs one read-modify-write.
        if !weakened!("refusal_asks_once") {
            heaps.ask_others_to_trim();
        }
        // If the thread is in a scope, it may have freed blocks of its other tables since the last
        // search.
        #[cfg(not(ephemera_loom))]
        if !weakened!("refusal_trims_one_table") {
            this_thread::trim_outside(family);
        }
        return;
    }
    looked.set(spares.unwrap_or(0));
    make_room_elsewhere(family, Some(heaps));
}

/// Returns the heap that remembers a fruitless search: the first heap of the thread's own table, or
/// of `heaps` if the thread has no table of its own. If each scope remembered its own searches, a
/// thread would search once in each scope that it enters.
fn heap_that_remembers(heaps: Heaps<'_>) -> &ThreadHeap {
    #[cfg(not(ephemera_loom))]
    if heaps.first().ledger().is_some() && !weakened!("each_scope_searches") {
        if let Some(own) = this_thread::own_heaps(heaps.family()) {
            return own.first();
        }
    }
    heaps.first()
}

/// Asks running threads to free their empty units, and publishes this thread's bundle. Frees the
/// empty units of this thread's other tables and of records that no thread holds. `trimmed` is the
/// table that this thread has just trimmed, if it has one.
fn make_room_elsewhere(family: &Family, trimmed: Option<Heaps<'_>>) {
    #[cfg(all(test, not(ephemera_loom)))]
    family.looks.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
    if !weakened!("refusal_asks_nobody") {
        match trimmed {
            Some(heaps) => heaps.ask_others_to_trim(),
            None => family.epoch.raise(),
        }
    }
    publish_own();
    #[cfg(not(ephemera_loom))]
    this_thread::trim_outside(family);
    trim_free_records(family);
}

/// Frees the family's empty units of records that no thread holds. Also asks each thread in a scope
/// to trim the scope's record when it leaves, because it may take no slow path before that.
pub(super) fn trim_free_records(family: &Family) {
    for record in family.records() {
        if let Some(ledger) = record.data().ledger() {
            ledger.forget_streak();
            if !weakened!("trims_miss_held_scopes") {
                lease_end::end_scope(record);
                continue;
            }
        }
        let Some(lease) = record.try_lease() else { continue };
        if let Some(heaps) = Heaps::find(record, family) {
            // SAFETY: the lease makes this thread the holder.
            if !unsafe { heaps.trim() } {
                record.data().leftovers.set(1);
            }
        }
        lease_end::release(lease);
    }
}

/// Frees the empty units of this thread and of records that no thread holds, and asks running
/// threads to free theirs. The caller is about to refuse a request.
#[cfg(not(ephemera_loom))]
pub(super) fn make_room_for_thread(family: &Family) {
    match (family.cell)().table() {
        // SAFETY: T2: the thread holds the record of the table in its cell.
        Some(heaps) => unsafe { make_room(heaps) },
        None => make_room_elsewhere(family, None),
    }
}
