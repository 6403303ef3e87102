//! `Books`: the account for blocks without units, as one thread uses it.

use ephemera_prim::account::{Account, Booked, SharedAccount};

use super::state::Family;
use super::table::Heaps;
use super::tally::LargeTally;

/// A family's account. If the calling thread has a table, its tally is part of the books.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Books<'w> {
    account: &'w SharedAccount,
    tally: Option<&'w LargeTally>,
}

impl<'w> Books<'w> {
    /// Creates the books. `heaps` is the family's table on a record that the calling thread holds.
    pub(super) fn new(family: &'w Family, heaps: Option<Heaps<'w>>) -> Self {
        Self { account: family.account(), tally: heaps.map(Heaps::tally) }
    }
}

impl Account for Books<'_> {
    fn reserve(&self, bytes: usize) -> bool {
        self.account.reserve(bytes)
    }

    fn reserve_beyond(&self, bytes: usize) {
        self.account.reserve_beyond(bytes);
    }

    fn spare(&self) {
        self.account.spare();
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
