//! `LargeTally`: a thread's own count of the blocks without units that it allocated and freed.
//!
//! With it, an allocation of such a block takes one atomic exchange, on the word that the limit is
//! checked against. Two shared counters, of blocks and of bytes, would take two more.

use ephemera_prim::word::OwnerUsize;

#[cfg(not(ephemera_loom))]
use ephemera_prim::account::changed;

/// Allocations minus frees, as counted by the holders of one record. It is negative, and wrapped,
/// if they freed blocks that other threads allocated. The sum over all records and the family's own
/// account is the number of live blocks.
#[derive(Debug)]
pub(super) struct LargeTally {
    blocks: OwnerUsize,
    bytes: OwnerUsize,
}

impl LargeTally {
    ephemera_prim::const_unless_loom! {
        pub(super) fn new() -> Self {
            Self { blocks: OwnerUsize::new(0), bytes: OwnerUsize::new(0) }
        }
    }

    /// Counts blocks that were allocated or freed, or that changed their size by `bytes`.
    /// They are added if `adds`,
    /// else subtracted. Only the owner calls this.
    #[cfg(not(ephemera_loom))]
    pub(super) fn change(&self, blocks: usize, bytes: usize, adds: bool) {
        self.blocks.set(changed(self.blocks.get(), blocks, adds));
        self.bytes.set(changed(self.bytes.get(), bytes, adds));
    }

    /// Adds this tally to a number of blocks and their bytes.
    pub(super) fn add_to(&self, (blocks, bytes): (usize, usize)) -> (usize, usize) {
        (blocks.wrapping_add(self.blocks.get()), bytes.wrapping_add(self.bytes.get()))
    }
}
