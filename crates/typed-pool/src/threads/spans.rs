//! The spans that a thread keeps for its next large blocks. They are on the thread's own record,
//! also while the thread is in a scope.

use ephemera_prim::local;
use ephemera_prim::pages::CachedPages;

use super::table::PoolRecord;

/// Returns the process's pages, with this thread's own cache of spans if the thread has a record.
#[inline]
pub(super) fn own_pages() -> CachedPages {
    let cache = local::bound::<PoolRecord>().map(|record| &record.data().spans);
    // SAFETY: the record is bound to this thread, which alone uses the value: `CachedPages` does
    // not leave the calling function.
    unsafe { CachedPages::new(cache) }
}

/// Frees the spans that this thread keeps for large blocks to the process.
pub(super) fn clear_spans() {
    if let Some(record) = local::bound::<PoolRecord>() {
        record.data().spans.clear();
    }
}
