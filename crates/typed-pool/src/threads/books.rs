//! `Books`: the account for blocks without units, as one thread uses it.

use ephemera_prim::account::{Account, Booked, SharedAccount};

use super::Family;
use super::ledger::Ledger;
use super::table::Heaps;
use super::tally::LargeTally;

/// A family's account. If the calling thread has a table, its tally is part of the books, and so is
/// the ledger of the scope that the thread is in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Books<'w> {
    account: &'w SharedAccount,
    tally: Option<&'w LargeTally>,
    ledger: Option<&'w Ledger>,
}

impl<'w> Books<'w> {
    /// Creates the books. `heaps` is the family's table on a record that the calling thread holds.
    pub(super) fn new(family: &'w Family, heaps: Option<Heaps<'w>>) -> Self {
        let ledger = heaps.and_then(|heaps| heaps.first().ledger());
        Self { account: family.account(), tally: heaps.map(Heaps::tally), ledger }
    }
}

impl Account for Books<'_> {
    fn reserve(&self, bytes: usize) -> bool {
        self.account.reserve(bytes)
    }

    fn reserve_beyond(&self, bytes: usize) {
        self.account.reserve_beyond(bytes);
    }

    /// A refused request must not change the peak of the scope, so its ledger counts from here.
    fn granted(&self, bytes: usize) {
        if let Some(ledger) = self.ledger {
            ledger.add_large(bytes);
        }
    }

    fn refused(&self, bytes: usize) {
        self.account.release(bytes);
    }

    fn spare(&self) {
        self.account.spare();
    }

    fn release(&self, bytes: usize) {
        self.account.release(bytes);
        if let Some(ledger) = self.ledger {
            ledger.sub_large(bytes);
        }
    }

    fn large(&self, blocks: usize, bytes: usize, came: bool) {
        match self.tally {
            Some(tally) => tally.change(blocks, bytes, came),
            None => self.account.large(blocks, bytes, came),
        }
        let Some(ledger) = self.ledger.filter(|ledger| ledger.is_counting()) else { return };
        if came {
            ledger.count_large(blocks, bytes);
        } else {
            ledger.count_large_free(blocks);
        }
    }

    fn now(&self) -> Booked {
        self.account.now()
    }
}
