//! The calling thread's own record: the tables on it, and the spans that the thread keeps.

use core::ptr;

use ephemera_prim::local;
use ephemera_prim::pages::CachedPages;
use ephemera_prim::record::Record;

use super::books::Books;
use super::state::{Family, PoolRecord};
use super::table::Heaps;

/// Returns the record that is bound to this thread, if there is one.
#[inline]
pub(super) fn record() -> Option<&'static Record<PoolRecord>> {
    local::bound::<PoolRecord>()
}

/// Returns the record that is bound to this thread, or NOWHERE or GONE if there is none. No unit
/// names these two records.
#[inline]
pub(crate) fn this_record() -> *const Record<PoolRecord> {
    local::current::<PoolRecord>()
}

/// Returns the thread's own table of this family, if it has one.
pub(super) fn own_heaps(family: &Family) -> Option<Heaps<'_>> {
    record().and_then(|record| Heaps::find(record, family))
}

/// Returns the records of the scopes that this thread is in, from the innermost to the outermost.
fn scopes(family: &Family) -> impl Iterator<Item = &'static Record<PoolRecord>> {
    let innermost = (family.cell)().table().and_then(Heaps::scope_record);
    core::iter::successors(innermost, |record| record.data().outer())
}

/// Returns whether this thread holds the record `of`: as its own, or because it is in the record's
/// scope.
pub(super) fn holds(family: &Family, of: &Record<PoolRecord>) -> bool {
    let outer = if weakened!("statistics_ignore_outer_scopes") { 1 } else { usize::MAX };
    record().into_iter().chain(scopes(family).take(outer)).any(|record| ptr::eq(record, of))
}

/// If the thread is in a scope, frees the empty units of the outer scopes and of the thread's own
/// table.
pub(super) fn trim_outside(family: &Family) {
    let outer = scopes(family).skip(1).filter(|_| !weakened!("outer_scopes_are_not_trimmed"));
    let inside = (family.cell)().table().map(|heaps| heaps.first().record);
    let own = record().filter(|own| inside != Some(ptr::from_ref(*own)));
    for heaps in outer.chain(own).filter_map(|record| Heaps::find(record, family)) {
        // SAFETY: the thread holds its own record and the records of the scopes that it is in.
        unsafe { heaps.trim() };
    }
}

/// Returns the family's account and, if this thread has a table, that table's tally.
pub(super) fn books(family: &'static Family) -> Books<'static> {
    let shared = Books { account: family.account(), tally: None };
    (family.cell)().table().map_or(shared, Heaps::books)
}

/// Returns the allocator `Pages`, with this thread's own cache of spans if the thread has a record.
#[inline]
pub(super) fn own_pages() -> CachedPages {
    let cache = record().map(|record| &record.data().spans);
    // SAFETY: the record is bound to this thread, which alone uses the value: `CachedPages` does
    // not leave the calling function.
    unsafe { CachedPages::new(cache) }
}

/// Frees the spans that this thread keeps for large blocks, so that other threads can use them.
pub(super) fn clear_spans() {
    if let Some(record) = record() {
        record.data().spans.clear();
    }
}
