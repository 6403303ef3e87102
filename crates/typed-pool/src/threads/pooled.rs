//! The thread-local and the family of `PooledAllocator`. Only this family has heaps in scopes.

use super::state::{Family, FamilyCell, ThisCell};

std::thread_local! {
    static CELL: FamilyCell = const { FamilyCell::nowhere() };
}

// SAFETY: the thread-local belongs to this family alone.
static FAMILY: Family = unsafe { Family::of_classes(pooled_cell) };

#[inline]
pub(crate) fn pooled_cell() -> ThisCell {
    ThisCell::of(&CELL)
}

#[inline]
pub(crate) fn pooled_family() -> &'static Family {
    &FAMILY
}
