//! Counts large blocks, which are not in a unit. `LargeTally` has the counts of one table. `Books`
//! combines a family's account with the tally of the calling thread.
//!
//! With the tally, an allocation of a large block takes one atomic read-modify-write, on the word
//! with the bytes to which the limit applies. Shared counters of blocks and of bytes would take two
//! more.

use ephemera_prim::account::{Account, Booked, SharedAccount, changed};
use ephemera_prim::word::OwnerUsize;

use crate::stats::Stats;

/// The number and the bytes of the large blocks that the holders of one record allocated, minus the
/// large blocks that they freed. A difference wraps if the holders freed more than they allocated.
/// The sum of all tallies and the family's account gives the number of live blocks and their bytes.
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

    /// Counts the allocation, free or resize of blocks. Adds both numbers if `adds` is true, and
    /// subtracts them otherwise. A resize passes 0 blocks. Only the holder of the record may call
    /// this.
    pub(super) fn change(&self, blocks: usize, bytes: usize, adds: bool) {
        self.blocks.set(changed(self.blocks.get(), blocks, adds));
        self.bytes.set(changed(self.bytes.get(), bytes, adds));
    }

    /// Adds the blocks and the bytes of this tally to `stats`.
    pub(super) fn add_to(&self, stats: &mut Stats) {
        stats.large_blocks = stats.large_blocks.wrapping_add(self.blocks.get());
        stats.large_bytes = stats.large_bytes.wrapping_add(self.bytes.get());
    }
}

/// A family's account, together with the tally of the calling thread's table. The tally counts the
/// large blocks; if the thread has no table, the account itself counts them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Books<'w> {
    pub(super) account: &'w SharedAccount,
    pub(super) tally: Option<&'w LargeTally>,
}

impl Account for Books<'_> {
    fn reserve(&self, bytes: usize) -> bool {
        self.account.reserve(bytes)
    }

    fn reserve_beyond(&self, bytes: usize) {
        self.account.reserve_beyond(bytes);
    }

    fn release(&self, bytes: usize) {
        self.account.release(bytes);
    }

    fn large(&self, blocks: usize, bytes: usize, adds: bool) {
        match self.tally {
            Some(tally) => tally.change(blocks, bytes, adds),
            None => self.account.large(blocks, bytes, adds),
        }
    }

    fn now(&self) -> Booked {
        self.account.now()
    }
}
