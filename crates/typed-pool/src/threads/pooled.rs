//! The thread-local and the family of `PooledAllocator`, which scopes have heaps of.

use std::thread::LocalKey;

use super::state::{Family, FamilyCell};

std::thread_local! {
    static CELL: FamilyCell = const { FamilyCell::nowhere() };
}

// SAFETY: the thread-local belongs to this family alone.
static FAMILY: Family = unsafe { Family::of_classes(pooled_cell) };

/// Returns the thread-local of `PooledAllocator`.
#[inline]
pub(crate) fn pooled_cell() -> &'static LocalKey<FamilyCell> {
    &CELL
}

/// Returns the family of `PooledAllocator`.
#[inline]
pub(crate) fn pooled_family() -> &'static Family {
    &FAMILY
}
