//! `FamilyCell`: the thread-local through which a thread reaches its heaps of a family.

use core::cell::Cell;
use core::ptr;
use std::thread::LocalKey;

use ephemera_prim::record::Record;

use super::state::{FamilyCell, PoolRecord, ThreadHeap};
use super::table::Heaps;
use crate::class::CLASSES;

/// The heaps of threads that own nothing. Their number is that of the largest family. They have no
/// front and are never written.
static NO_HEAPS: [ThreadHeap; CLASSES] = [const { ThreadHeap::nowhere() }; CLASSES];

/// The content of a [`FamilyCell`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CellState {
    heaps: *const ThreadHeap,
    counting: *const ThreadHeap,
}

pub(super) const NOTHING: *const ThreadHeap = (&raw const NO_HEAPS).cast();

impl CellState {
    /// The content of the cell of a thread that owns nothing.
    pub(super) const NOTHING: Self = Self { heaps: NOTHING, counting: ptr::null() };

    /// The content of the cell of a thread that allocates from its own table.
    pub(super) fn own(heaps: Heaps<'_>) -> Self {
        Self { heaps: heaps.as_ptr(), counting: ptr::null() }
    }

    /// Returns the table that the thread allocated from, or null if it had none.
    #[inline]
    pub(super) fn table(self) -> *const ThreadHeap {
        if ptr::eq(self.heaps, NOTHING) { self.counting } else { self.heaps }
    }

    /// The content of the cell of a thread that is in a scope with this table.
    #[inline]
    pub(super) fn inside(heaps: Heaps<'_>, counting: bool) -> Self {
        if counting { Self { heaps: NOTHING, counting: heaps.as_ptr() } } else { Self::own(heaps) }
    }
}

impl FamilyCell {
    /// Creates the cell of a thread that owns nothing.
    #[must_use]
    pub const fn nowhere() -> Self {
        Self { heaps: Cell::new(NOTHING), counting: Cell::new(ptr::null()), last: Cell::new(ptr::null()) }
    }

    /// Returns the record of a scope that the thread remembers.
    pub(super) fn last(key: &'static LocalKey<Self>) -> Option<&'static Record<PoolRecord>> {
        let last = key.try_with(|cell| cell.last.get()).unwrap_or(ptr::null());
        // SAFETY: S1: records of scopes are permanent memory.
        unsafe { last.as_ref() }
    }

    /// Makes the thread remember the record of a scope.
    pub(super) fn remember(key: &'static LocalKey<Self>, record: &'static Record<PoolRecord>) {
        // A thread whose cell is destroyed remembers nothing.
        let _ = key.try_with(|cell| cell.last.set(record));
    }

    /// Returns the heaps whose fronts serve this thread.
    #[inline]
    pub(crate) fn get(key: &'static LocalKey<Self>) -> Heaps<'static> {
        let first = key.try_with(|cell| cell.heaps.get()).unwrap_or(NOTHING);
        // SAFETY: T1 and T2: neither tables nor the static heaps are ever freed.
        unsafe { Heaps::new(first) }
    }

    /// Returns the table that this thread allocates from, if it has one. The thread holds its
    /// record.
    #[inline]
    pub(super) fn table(key: &'static LocalKey<Self>) -> Option<Heaps<'static>> {
        let first = key.try_with(|cell| cell.state().table());
        // SAFETY: T1 and T2: tables are never freed.
        first.ok().filter(|first| !first.is_null()).map(|first| unsafe { Heaps::new(first) })
    }

    /// Makes the thread allocate as `inside` says, from the table of a scope whose record it holds.
    /// Returns the former content, or `None` if the cell is destroyed.
    #[inline]
    pub(super) fn enter(key: &'static LocalKey<Self>, inside: CellState) -> Option<CellState> {
        key.try_with(|cell| cell.set(inside)).ok()
    }

    /// Makes the thread allocate from the table that it had before it stored `inside`.
    ///
    /// If the cell has another content, then a thread left a scope while it was in a scope that it
    /// entered later. In that case `before` may name a table whose record another thread holds, so
    /// the process ends. A thread that ends resets its cell, which then stays as it is.
    #[inline]
    pub(super) fn restore(key: &'static LocalKey<Self>, inside: CellState, before: CellState) {
        let _ = key.try_with(|cell| {
            let now = cell.state();
            if now == inside {
                cell.set(before);
            } else if now != CellState::NOTHING {
                ephemera_prim::invariant::broken("a thread left a scope before one that it entered later");
            }
        });
    }

    #[inline]
    fn state(&self) -> CellState {
        CellState { heaps: self.heaps.get(), counting: self.counting.get() }
    }

    #[inline]
    pub(super) fn set(&self, new: CellState) -> CellState {
        CellState { heaps: self.heaps.replace(new.heaps), counting: self.counting.replace(new.counting) }
    }
}
