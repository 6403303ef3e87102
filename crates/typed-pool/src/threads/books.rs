//! `Books`: the account for blocks without units, as one thread uses it.

use ephemera_prim::account::{Account, Booked, SharedAccount};

use super::Family;
use super::tally::LargeTally;

/// A family's account, with the calling thread's tally if it has one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Books<'w> {
    account: &'w SharedAccount,
    tally: Option<&'w LargeTally>,
}

impl<'w> Books<'w> {
    /// Creates the books. `tally` belongs to the family's table on the record that the calling
    /// thread holds.
    pub(super) fn new(family: &'w Family, tally: Option<&'w LargeTally>) -> Self {
        Self { account: family.account(), tally }
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

    fn large(&self, blocks: usize, bytes: usize, came: bool) {
        match self.tally {
            Some(tally) => tally.change(blocks, bytes, came),
            None => self.account.large(blocks, bytes, came),
        }
    }

    fn now(&self) -> Booked {
        self.account.now()
    }
}
