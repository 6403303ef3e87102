//! The *charge* of a block without a size class: the scope that the block counts for.
//!
//! Such a block is not in a unit, so a note for the block's address names its scope. Only the code
//! for these blocks writes and reads the note. A block that grows counts from then on for the scope
//! in which it grew, as if it had moved to a new block. A block that shrinks continues to count for
//! its scope, unless it shrinks to a size class: it then counts for the scope in which it shrank.

use core::alloc::Layout;
use core::ptr::NonNull;

use ephemera_prim::pages::notes::{self, Note};

use super::ledger::Ledger;
use super::table::Heaps;

/// The scope that a block counts for, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Charge(Option<Note>);

impl Charge {
    /// Returns the charge of blocks that a thread with this table allocates. They have no charge
    /// unless the table belongs to a scope.
    pub(super) fn of_table(heaps: Option<Heaps<'static>>) -> Self {
        let ledger = heaps.and_then(|heaps| heaps.first().ledger());
        Self(ledger.map(|ledger| Note { whose: NonNull::from(ledger).cast(), number: ledger.birth() }))
    }

    /// Removes and returns the charge of a block.
    ///
    /// # Safety
    /// The caller owns the block. It has this layout, came from the operating system's pages and is
    /// not of size zero.
    pub(super) unsafe fn take(block: NonNull<u8>, layout: Layout) -> Self {
        // SAFETY: this function has the same contract (G6).
        Self(unsafe { notes::take(block, layout) })
    }

    /// Counts a new block for this scope, unless the block is of size zero. If the note cannot be
    /// stored, the block does not count for any scope.
    ///
    /// # Safety
    /// The caller owns the block. It has this layout and came from the operating system's pages.
    /// Each path that frees the block must take its charge first.
    pub(super) unsafe fn count_block(self, block: NonNull<u8>, layout: Layout) {
        let Some(note) = self.0.filter(|_| layout.size() != 0) else { return };
        // SAFETY: this function has the same contract (G6), and the size is not zero.
        if unsafe { notes::set(block, layout, note) } {
            ledger_of(note).add_large(1, layout.size());
        }
    }

    /// Counts the free of a block of `bytes` bytes that counted for this scope.
    pub(super) fn count_free(self, bytes: usize) {
        if let Some(note) = self.0 {
            ledger_of(note).sub_large(1, bytes, note.number);
        }
    }

    /// Stores the charge of a block again, after [`take`](Self::take). If the note cannot be
    /// stored, the block no longer counts for any scope.
    ///
    /// # Safety
    /// The contract of [`count_block`](Self::count_block) holds, and the block is not of size zero.
    pub(super) unsafe fn put_back(self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: this function has the same contract (G6).
        if self.0.is_some_and(|note| !unsafe { notes::set(block, layout, note) }) {
            self.count_free(layout.size());
        }
    }

    /// Counts `more` bytes by which a block of this scope grew. The calling thread must be in the
    /// scope.
    pub(super) fn count_growth(self, more: usize) {
        if let Some(note) = self.0 {
            ledger_of(note).add_large(0, more);
        }
    }

    /// Counts `less` bytes by which a block of this scope shrank.
    pub(super) fn count_shrink(self, less: usize) {
        if let Some(note) = self.0 {
            ledger_of(note).sub_large(0, less, note.number);
        }
    }
}

fn ledger_of(note: Note) -> &'static Ledger {
    // SAFETY: S1: notes name ledgers of scopes, which are permanent memory.
    unsafe { note.whose.cast().as_ref() }
}
