//! `FamilyCell` and `ThisCell`: the thread-local through which a thread reaches its heaps of a
//! family.

use core::cell::Cell;
use core::ptr::{self, NonNull};
use std::thread::LocalKey;

use ephemera_prim::record::Record;

use super::state::{FamilyCell, PoolRecord, ThisCell, ThreadHeap};
use super::table::Heaps;
use crate::class::CLASSES;

/// The heaps of threads that own nothing: as many as the largest family has. They have no front and
/// are never written.
static NO_HEAPS: [ThreadHeap; CLASSES] = [const { ThreadHeap::nowhere() }; CLASSES];

/// The two pointers of a [`FamilyCell`] that say from which heaps its thread allocates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CellState {
    heaps: *const ThreadHeap,
    counting: *const ThreadHeap,
}

/// The address of [`NO_HEAPS`], the heaps of threads that own nothing.
pub(super) const NOTHING: *const ThreadHeap = (&raw const NO_HEAPS).cast();

impl CellState {
    /// The content of the cell of a thread that owns nothing.
    pub(super) const NOTHING: Self = Self { heaps: NOTHING, counting: ptr::null() };

    /// Returns the content of the cell of a thread that allocates from its own table.
    pub(super) fn own(heaps: Heaps<'_>) -> Self {
        Self { heaps: heaps.as_ptr(), counting: ptr::null() }
    }

    /// Returns the table that this content names, or null if it names none.
    #[inline]
    pub(super) fn table(self) -> *const ThreadHeap {
        if ptr::eq(self.heaps, NOTHING) { self.counting } else { self.heaps }
    }

    /// Returns the content of the cell of a thread that is in a scope with this table.
    #[inline]
    pub(super) fn inside(heaps: Heaps<'_>, counting: bool) -> Self {
        if counting { Self { heaps: NOTHING, counting: heaps.as_ptr() } } else { Self::own(heaps) }
    }

    /// Returns the content that the holder's cell had before the holder entered this record's
    /// scope.
    #[inline]
    pub(super) fn outside(record: &PoolRecord) -> Self {
        let [heaps, counting] = &record.outer;
        Self { heaps: heaps.get(), counting: counting.get() }
    }

    /// Stores this content, which the holder's cell had before the holder entered this record's
    /// scope.
    #[inline]
    fn keep_outside(self, record: &PoolRecord) {
        let [heaps, counting] = &record.outer;
        heaps.set(self.heaps.cast_mut());
        counting.set(self.counting.cast_mut());
    }

    /// Returns whether this content names a table of this record.
    #[inline]
    fn is_of(self, record: &Record<PoolRecord>) -> bool {
        // SAFETY: T1: the pointer is null or names a table, which is never freed.
        unsafe { self.table().as_ref() }.is_some_and(|heap| ptr::eq(heap.record, record))
    }
}

impl PoolRecord {
    /// Returns the record that the holder allocated from before it entered the scope of this
    /// record, if any. That record belongs to the outer scope, or is the thread's own. The calling
    /// thread holds both records.
    pub(super) fn outer(&self) -> Option<&Record<Self>> {
        self.ledger()?;
        // SAFETY: T1: the pointer is null or names a table, which is never freed.
        Some(unsafe { CellState::outside(self).table().as_ref() }?.record())
    }
}

impl FamilyCell {
    /// Creates the cell of a thread that owns nothing.
    #[must_use]
    pub const fn nowhere() -> Self {
        Self { heaps: Cell::new(NOTHING), counting: Cell::new(ptr::null()), last: Cell::new(ptr::null()) }
    }

    #[inline]
    fn state(&self) -> CellState {
        CellState { heaps: self.heaps.get(), counting: self.counting.get() }
    }

    #[inline]
    fn replace(&self, new: CellState) -> CellState {
        CellState { heaps: self.heaps.replace(new.heaps), counting: self.counting.replace(new.counting) }
    }
}

impl ThisCell {
    /// Returns the calling thread's cell of this key.
    #[inline]
    #[must_use]
    pub fn of(key: &'static LocalKey<FamilyCell>) -> Self {
        Self(key.try_with(|cell| NonNull::from(cell)).ok())
    }

    /// Creates the pointer to a cell that is not a thread-local of the standard library.
    ///
    /// # Safety
    /// T3: the cell belongs to the calling thread. No function keeps the pointer after its call.
    #[inline]
    #[must_use]
    pub unsafe fn new(cell: NonNull<FamilyCell>) -> Self {
        Self(Some(cell))
    }

    #[inline]
    fn cell(&self) -> Option<&FamilyCell> {
        // SAFETY: T3: the cell is alive during the call that uses the pointer, and all its fields
        // are cells of this thread.
        self.0.map(|cell| unsafe { cell.as_ref() })
    }

    /// Returns the address of the cell, or 0 if the cell is destroyed.
    pub(super) fn addr(self) -> usize {
        self.0.map_or(0, |cell| cell.addr().get())
    }

    /// Returns the scope's record that the thread last passed to [`remember`](Self::remember), if
    /// any.
    pub(super) fn last(self) -> Option<&'static Record<PoolRecord>> {
        let last = self.cell().map_or(ptr::null(), |cell| cell.last.get());
        // SAFETY: the pointer is null or points to a scope's record, which is never freed (S1).
        unsafe { last.as_ref() }
    }

    /// Makes the thread remember the record of a scope. Does nothing if the thread's cell is
    /// destroyed.
    pub(super) fn remember(self, record: &'static Record<PoolRecord>) {
        if let Some(cell) = self.cell() {
            cell.last.set(record);
        }
    }

    /// Returns the heaps that the fast paths of this thread use.
    #[inline]
    pub(crate) fn heaps(self) -> Heaps<'static> {
        let first = self.cell().map_or(NOTHING, |cell| cell.heaps.get());
        // SAFETY: T1 and T2: tables and the static heaps are never freed.
        unsafe { Heaps::new(first) }
    }

    /// Returns the table that this thread allocates from, if it has one. The thread holds the
    /// record of that table.
    #[inline]
    pub(super) fn table(self) -> Option<Heaps<'static>> {
        let first = self.cell()?.state().table();
        // SAFETY: T1 and T2: tables are never freed.
        (!first.is_null()).then(|| unsafe { Heaps::new(first) })
    }

    /// Stores this content and returns the former one. The thread must hold the record of the table
    /// that the content names, if any. Returns `None` if the cell is destroyed: each allocation
    /// then takes the slow path.
    #[inline]
    pub(super) fn set(self, new: CellState) -> Option<CellState> {
        Some(self.cell()?.replace(new))
    }

    /// Makes the thread allocate from the table of a scope's record that it has just leased.
    /// Returns `false`, and does nothing else, if the thread's cell is destroyed.
    #[inline]
    pub(super) fn enter(self, record: &Record<PoolRecord>, inside: CellState) -> bool {
        let before = self.set(inside);
        if let Some(before) = before {
            before.keep_outside(record.data());
        }
        before.is_some()
    }

    /// Makes the thread allocate from the table that it had before it entered the scope of this
    /// record.
    ///
    /// Does nothing if thread exit has reset the cell.
    ///
    /// # Aborts
    ///
    /// Ends the process if the thread now allocates from another record, because it then leaves its
    /// scopes out of order, and another thread may hold the record of the table that this function
    /// would restore.
    #[inline]
    pub(super) fn leave(self, record: &Record<PoolRecord>) {
        let Some(cell) = self.cell() else { return };
        let now = cell.state();
        if now.is_of(record) {
            cell.replace(CellState::outside(record.data()));
        } else if now != CellState::NOTHING {
            ephemera_prim::invariant::broken("a thread left a scope before one that it entered later");
        }
    }
}
