//! Who counts blocks without units: the thread that asks for one or gives one back, for itself.
//!
//! So each takes one exchange, on the word that the limit is checked against. A count of blocks and one of bytes that all threads share
//! would be two more.

use ephemera_prim::word::OwnerUsize;

#[cfg(not(ephemera_loom))]
use crate::account::changed;

/// What came less what went, as the threads that held one record saw it: below zero, and wrapped, where others had asked for what they gave
/// back. The sum over all records and the family's own account is what is alive.
#[derive(Debug)]
pub(super) struct Tally {
    blocks: OwnerUsize,
    bytes: OwnerUsize,
}

impl Tally {
    ephemera_prim::const_unless_loom! {
        pub(super) fn new() -> Self {
            Self { blocks: OwnerUsize::new(0), bytes: OwnerUsize::new(0) }
        }
    }

    /// Blocks came or went, or changed their size by that much. The owner's alone.
    #[cfg(not(ephemera_loom))]
    pub(super) fn change(&self, blocks: usize, bytes: usize, came: bool) {
        self.blocks.set(changed(self.blocks.get(), blocks, came));
        self.bytes.set(changed(self.bytes.get(), bytes, came));
    }

    /// Adds it to a number of blocks and their bytes.
    pub(super) fn add_to(&self, (blocks, bytes): (usize, usize)) -> (usize, usize) {
        (blocks.wrapping_add(self.blocks.get()), bytes.wrapping_add(self.bytes.get()))
    }
}
