//! `FamilyCell` and `ThisCell`: the thread-local through which a thread reaches its heaps of a
//! family.

use core::cell::Cell;
use core::ptr::{self, NonNull};
use std::thread::LocalKey;

use ephemera_prim::record::Record;

use super::state::{FamilyCell, PoolRecord, ThisCell, ThreadHeap};
use super::table::Heaps;
use crate::class::CLASSES;

/// The heaps of threads that own nothing. There are as many as the largest family has. They have no
/// front and are never written.
static NO_HEAPS: [ThreadHeap; CLASSES] = [const { ThreadHeap::nowhere() }; CLASSES];

/// The address of [`NO_HEAPS`].
pub(super) const NOTHING: *const ThreadHeap = (&raw const NO_HEAPS).cast();

/// The bit of a cell's `table` that marks the table of a counting scope. No address of a table has
/// this bit, because heaps are aligned to more than one byte.
const COUNTING: usize = 1;

/// Returns the table that `word` points to, or `None` if `word` is null. `word` is the field
/// `table` of a [`FamilyCell`]; its bit [`COUNTING`] is ignored.
#[inline]
fn table_of(word: *const ThreadHeap) -> Option<Heaps<'static>> {
    let first = word.map_addr(|addr| addr & !COUNTING);
    // SAFETY: T1 and T2: without its tag, the word is null or points to a table, and tables are
    // never freed.
    (!first.is_null()).then(|| unsafe { Heaps::new(first) })
}

impl PoolRecord {
    /// Returns the record of the scope that the holder was in when it entered the scope of this
    /// record. Returns `None` if it was in no scope, or if this record belongs to no scope. The
    /// calling thread must hold both records.
    pub(super) fn outer(&self) -> Option<&Record<Self>> {
        table_of(self.outer.get())?.scope_record()
    }
}

impl FamilyCell {
    /// Creates the cell of a thread that owns nothing.
    #[must_use]
    pub const fn nowhere() -> Self {
        Self { heaps: Cell::new(NOTHING), table: Cell::new(ptr::null()), last: Cell::new(ptr::null()) }
    }

    /// Stores `table`, and stores in `heaps` the pointer that T2 requires for this table. Returns
    /// the former value of `table`.
    #[inline]
    fn replace(&self, table: *const ThreadHeap) -> *const ThreadHeap {
        let is_plain = !table.is_null() && table.addr() & COUNTING == 0;
        self.heaps.set(if is_plain { table } else { NOTHING });
        self.table.replace(table)
    }
}

impl ThisCell {
    /// Returns a pointer to the calling thread's cell of this key, or an empty `ThisCell` if that
    /// cell is destroyed.
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

    /// Returns the scope's record that the thread last passed to [`remember`](Self::remember), or
    /// `None` if there is none or the cell is destroyed.
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

    /// Returns the heaps that the fast paths of this thread use (T2).
    #[inline]
    pub(crate) fn heaps(self) -> Heaps<'static> {
        let first = self.cell().map_or(NOTHING, |cell| cell.heaps.get());
        // SAFETY: T1 and T2: tables and the static heaps are never freed.
        unsafe { Heaps::new(first) }
    }

    /// Returns the table that this thread allocates from, or `None` if it has none or the cell is
    /// destroyed. The thread holds the record of that table (T2).
    #[inline]
    pub(super) fn table(self) -> Option<Heaps<'static>> {
        table_of(self.cell()?.table.get())
    }

    /// Makes the thread allocate from its own table, or from none if `table` is `None`. The thread
    /// must hold the table's record. Does nothing if the cell is destroyed: each allocation then
    /// takes the slow path.
    #[inline]
    pub(super) fn set(self, table: Option<Heaps<'_>>) {
        if let Some(cell) = self.cell() {
            cell.replace(table.map_or(ptr::null(), Heaps::as_ptr));
        }
    }

    /// Makes the thread allocate from the table of a scope's record that it has just leased.
    /// Returns `true` if the thread has entered. Returns `false`, and does nothing, if the thread's
    /// cell is destroyed.
    #[inline]
    pub(super) fn enter(self, heaps: Heaps<'_>, counting: bool) -> bool {
        let Some(cell) = self.cell() else { return false };
        let tag = if counting { COUNTING } else { 0 };
        let before = cell.replace(heaps.as_ptr().map_addr(|addr| addr | tag));
        heaps.first().record().data().outer.set(before.cast_mut());
        true
    }

    /// Makes the thread allocate from the table that it had before it entered the scope of this
    /// record.
    ///
    /// Does nothing if thread exit has reset or destroyed the cell.
    ///
    /// # Aborts
    ///
    /// Ends the process if the thread now allocates from another record. The thread then leaves its
    /// scopes out of order, and another thread may hold the record of the table that this function
    /// would restore.
    #[inline]
    pub(super) fn leave(self, record: &Record<PoolRecord>) {
        let Some(cell) = self.cell() else { return };
        let now = table_of(cell.table.get());
        if now.is_some_and(|heaps| ptr::eq(heaps.first().record, record)) {
            cell.replace(record.data().outer.get());
        } else if now.is_some() {
            ephemera_prim::invariant::broken("a thread left a scope before one that it entered later");
        }
    }
}
