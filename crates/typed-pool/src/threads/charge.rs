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

/// The scope that a block counts for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Charge(Note);

impl Charge {
    /// Returns the charge of blocks that a thread with this table allocates, or `None` if the table
    /// is not that of a scope.
    pub(super) fn of_table(heaps: Heaps<'static>) -> Option<Self> {
        let ledger = heaps.first().ledger()?;
        Some(Self(Note { whose: NonNull::from(ledger).cast(), number: ledger.birth() }))
    }

    /// Removes and returns the charge of a block, or returns `None` if the block has none.
    ///
    /// # Safety
    /// The caller owns the block. It has this layout, came from the operating system's pages and is
    /// not of size zero.
    pub(super) unsafe fn take(block: NonNull<u8>, layout: Layout) -> Option<Self> {
        // SAFETY: this function has the same contract (G6).
        unsafe { notes::take(block, layout) }.map(Self)
    }

    /// Returns whether a block counts for a scope.
    ///
    /// # Safety
    /// The caller owns the block. It has this layout, came from the operating system's pages and is
    /// not of size zero.
    #[inline]
    pub(super) unsafe fn is_noted(block: NonNull<u8>, layout: Layout) -> bool {
        // SAFETY: this function has the same contract (G6).
        unsafe { notes::has(block, layout) }
    }

    fn ledger(self) -> &'static Ledger {
        // SAFETY: S1: notes name ledgers of scopes, which are permanent memory.
        unsafe { self.0.whose.cast().as_ref() }
    }

    /// Counts a new block for this scope, unless the block is of size zero. If the note cannot be
    /// stored, the block does not count for any scope.
    ///
    /// # Safety
    /// The caller owns the block. It has this layout and came from the operating system's pages.
    /// Each path that frees the block must take its charge first.
    pub(super) unsafe fn count_block(self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: this function has the same contract (G6), and the size is not zero.
        if layout.size() != 0 && unsafe { notes::set(block, layout, self.0) } {
            self.ledger().add_large(1, layout.size());
        }
    }

    /// Counts the free of a block of `bytes` bytes that counted for this scope.
    pub(super) fn count_free(self, bytes: usize) {
        self.ledger().sub_large(1, bytes, self.0.number);
    }

    /// Stores the charge of a block again, after [`take`](Self::take). If the note cannot be
    /// stored, the block no longer counts for any scope.
    ///
    /// # Safety
    /// The contract of [`count_block`](Self::count_block) holds, and the block is not of size zero.
    pub(super) unsafe fn put_back(self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: this function has the same contract (G6).
        if !unsafe { notes::set(block, layout, self.0) } {
            self.count_free(layout.size());
        }
    }

    /// Counts `more` bytes by which a block of this scope grew. The calling thread must be in the
    /// scope.
    pub(super) fn count_growth(self, more: usize) {
        self.ledger().add_large(0, more);
    }

    /// Counts `less` bytes by which a block of this scope shrank.
    pub(super) fn count_shrink(self, less: usize) {
        self.ledger().sub_large(0, less, self.0.number);
    }
}
