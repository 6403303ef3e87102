//! Closes an inbox when its pool is dropped. Afterwards, no remote free waits for a holder to book
//! it.
//!
//! A pool that is dropped closes each of its inboxes once. The closing thread counts the remote
//! frees of the units in the inbox. A pusher that finds the inbox closed counts all slots in its
//! unit's word. A thread whose free finds the word closed counts its own slots. Each remote free is
//! therefore counted exactly once.

use core::ptr::NonNull;

use super::{CLOSED, ForeignHeader, Inbox, Taken, book_order, closed, foreign_of, give_order, take_order};

impl<U: ForeignHeader> Inbox<U> {
    /// Frees the slots of `bits` while another thread may close the inbox. Returns the old word if
    /// the caller must continue with [`Inbox::push_or_count`], and `None` otherwise.
    ///
    /// # Safety
    /// `unit` is live. `bits` is not zero, excludes [`CLOSED`], and is the set of slots that the
    /// caller owned and gives up by this call. None of its bits is set in the word. The caller must
    /// pass a returned word on to [`Inbox::push_or_count`].
    #[inline]
    pub unsafe fn give_back_until_closed(unit: NonNull<U>, bits: u64) -> Option<u64> {
        // SAFETY: no thread has booked or counted the slots of `bits` yet, so the unit is live (F3,
        // F7).
        let foreign = unsafe { foreign_of(unit) };
        foreign.witness.touch();
        // ORDERING: `give_order`. Pairs with `Taken::next` and with the swap in
        // `Inbox::push_or_count`.
        let old = foreign.word.fetch_or(bits, give_order());
        crate::invariant!(old & bits == 0, "a slot is freed twice");
        // One comparison checks whether the old word is zero or closed.
        (old.wrapping_sub(1) >= CLOSED - 1).then_some(old)
    }

    /// Completes a call to [`Inbox::give_back_until_closed`]: pushes the unit, unless the inbox was
    /// closed. Returns the slots that the caller must count: none unless the inbox was closed.
    /// These slots keep the unit live until the caller has counted them.
    ///
    /// # Safety
    /// `unit` belongs to the record of this inbox. This thread set `bits` in the unit's word by
    /// [`Inbox::give_back_until_closed`], which returned `old`.
    pub unsafe fn push_or_count(&self, unit: NonNull<U>, bits: u64, old: u64) -> u64 {
        if old != 0 {
            return bits;
        }
        // SAFETY: the caller's unit belongs to this inbox. This thread found zero, so it pushes the
        // unit (F1).
        if unsafe { self.push(unit) } || weakened!("closed_push_counts_nothing") {
            return 0;
        }
        // SAFETY: the slots in the word keep the unit live until they are counted (F7).
        let foreign = unsafe { foreign_of(unit) };
        // ORDERING: `book_order`. Pairs with `Inbox::give_back_until_closed`.
        foreign.word.swap(CLOSED, book_order())
    }

    /// Closes the inbox and takes its units. The iterator sets each unit's word to [`CLOSED`], and
    /// yields the unit with its remote frees.
    ///
    /// # Safety
    /// No other thread takes from this inbox. After this call, the inbox is never taken from or
    /// closed again. Every remote free goes through [`Inbox::give_back_until_closed`].
    pub unsafe fn close(&self) -> Taken<U, CLOSED> {
        // ORDERING: `take_order`. Pairs with `Inbox::push`.
        Taken { next: self.head.swap(closed(), take_order()) }
    }
}

#[cfg(all(test, feature = "std", not(ephemera_loom)))]
mod tests {
    use super::{CLOSED, ForeignHeader, Inbox, NonNull};
    use crate::foreign::Foreign;

    #[repr(C)]
    struct Page(Foreign<Page>);

    // SAFETY: the only field of `Page`, a `Foreign<Page>`, is at offset 0.
    unsafe impl ForeignHeader for Page {
        const FOREIGN: usize = 0;
    }

    #[test]
    fn a_free_counts_its_own_slot_after_the_inbox_is_closed() {
        let (first, second) = (Page(Foreign::new()), Page(Foreign::new()));
        let inbox = Inbox::<Page>::new();
        let give = |page: &Page, bits| {
            // SAFETY: the pages live as long as the test, and each bit is freed once.
            let old = unsafe { Inbox::give_back_until_closed(NonNull::from(page), bits) };
            // SAFETY: both pages belong to this inbox. The call above set these bits in the page's
            // word and found `old` there.
            old.map_or(0, |old| unsafe { inbox.push_or_count(NonNull::from(page), bits, old) })
        };
        assert_eq!((give(&first, 1), give(&first, 2)), (0, 0), "the holder books them");
        // SAFETY: no other thread uses the inbox, and this call alone takes from it and closes it.
        let waiting: alloc::vec::Vec<_> = unsafe { inbox.close() }.collect();
        assert_eq!(waiting, [(NonNull::from(&first), 3)]);
        assert_eq!(give(&first, 4), 4, "the page was closed with the inbox");
        assert_eq!(give(&second, 1), 1, "its pusher finds the inbox closed");
        assert_eq!((give(&second, 8), second.0.unbooked()), (8, CLOSED | 8));
        first.0.end_closable();
        second.0.end_closable();
    }
}
