//! Lends units: a thread, usually not the holder, *borrows* all units of an inbox. It takes the
//! units out, examines them, and puts them back or frees them.
//!
//! While a unit is lent, its foreign word is not zero and no thread can book the unit. So only the
//! borrowing thread can free it (F3), however long the loan takes. During the loan, the owner does
//! not find the units in the inbox, as if no thread had pushed them yet (F1).

use core::ptr::{self, NonNull};

use super::{Foreign, ForeignHeader, Inbox, foreign_of, push_order};
use crate::sync::{Ordering, fence};

// ORDERING: Acquire. Pairs with `Inbox::give_back_add` and `Inbox::give_back_bits`: this thread
// sees all accesses to the blocks that the word counts, by the threads that freed them.
ordering!(count_order = Acquire, Relaxed if "observe_word_relaxed");

/// All units that a thread borrowed from an inbox, and that it must put back or free.
#[derive(Debug)]
#[must_use = "lent units that are not put back are lost"]
pub struct LentUnits<'i, U> {
    /// The first of the units that the thread has not taken yet, or null.
    rest: *mut U,
    /// The first and the last of the units that the thread has set aside, or `None` if there are
    /// none.
    seen: Option<(NonNull<U>, NonNull<U>)>,
    /// The inbox that receives the units of `rest`.
    inbox: &'i Inbox<U>,
    /// The inbox that receives the units of `seen`.
    aside: &'i Inbox<U>,
}

impl<U> Foreign<U> {
    /// Returns the word, like [`Self::unbooked`]. The accesses to the blocks that the word counts,
    /// by the threads that freed them, happen before the return. Any thread that keeps the unit
    /// from being freed may call this.
    #[inline]
    pub fn observe(&self) -> u64 {
        // ORDERING: `count_order`. Pairs with `Inbox::give_back_add` and `Inbox::give_back_bits`.
        self.word.load(count_order())
    }

    /// Tells the model checker that every block of the unit has been freed, and that the caller
    /// uses their memory.
    pub fn reuse(&self) {
        self.witness.write();
    }

    /// Tells the model checker that the thread that borrowed the unit is about to free it. No
    /// thread will book the remote frees that the word counts.
    pub fn end_lent(&self) {
        self.end_witnesses();
    }
}

impl<U: ForeignHeader> LentUnits<'_, U> {
    /// Sets the next unit aside and returns it, or returns `None` after the last unit. The unit
    /// stays live until it is put back.
    pub fn look(&mut self) -> Option<NonNull<U>> {
        let unit = self.take()?;
        // SAFETY: the unit has just been taken off `rest`.
        unsafe { self.set_aside(unit) };
        Some(unit)
    }

    /// Returns the next unit, or `None` after the last. The caller must pass the unit to
    /// [`LentUnits::set_aside`] or free it; otherwise it is lost. No other thread frees the unit
    /// before it is put back.
    pub fn take(&mut self) -> Option<NonNull<U>> {
        let unit = NonNull::new(self.rest)?;
        // SAFETY: the unit is on this list, so it is lent and live (F3).
        let foreign = unsafe { foreign_of(unit) };
        foreign.linked.touch();
        self.rest = foreign.link.load(Ordering::Relaxed);
        Some(unit)
    }

    /// Adds a unit to `seen`.
    ///
    /// # Safety
    /// [`LentUnits::take`] of this value returned the unit. The caller has neither freed it nor
    /// passed it to this method before.
    pub unsafe fn set_aside(&mut self, unit: NonNull<U>) {
        let first = match self.seen {
            None => unit,
            Some((first, last)) => {
                // SAFETY: the unit is on `seen`, so it is lent and live (F3).
                let foreign = unsafe { foreign_of(last) };
                // The link already leads to `unit` if the caller took `unit` right after `last`.
                if foreign.link.load(Ordering::Relaxed) != unit.as_ptr() {
                    foreign.linked.write();
                    foreign.link.store(unit.as_ptr(), Ordering::Relaxed);
                }
                first
            }
        };
        self.seen = Some((first, unit));
    }

    /// Puts back the unit that was pushed last, unless a unit was set aside. The caller must still
    /// call [`LentUnits::put_back`], whose fence covers this unit too.
    pub fn put_newest_back(&mut self) {
        if self.seen.is_some() {
            return;
        }
        if let Some(unit) = self.take() {
            // SAFETY: the unit is a list of one, and `lend` borrowed it from an inbox of this
            // record. So it is live (F3), and its link belongs to this thread (F5).
            unsafe { self.inbox.push_list(unit, unit) };
        }
    }

    /// Puts back the units that no call has taken, below the units that were pushed during the
    /// loan. The caller must still call [`LentUnits::put_back`], whose fence covers these units
    /// too.
    ///
    /// The number of rounds is bounded by the pushes of other threads since the units were lent.
    pub fn put_rest_back(&mut self) {
        let (inbox, null) = (self.inbox, ptr::null_mut());
        while !self.rest.is_null() {
            // ORDERING: `push_order`. Pairs with `Inbox::take` and `Inbox::lend`.
            if inbox.head.compare_exchange(null, self.rest, push_order(), Ordering::Relaxed).is_ok() {
                self.rest = null;
                return;
            }
            // SAFETY: this is one inbox. No thread ever closes it, because `lend` returned `self`.
            let mut pushed = unsafe { inbox.lend(inbox, inbox) };
            while pushed.look().is_some() {}
            if let Some((first, last)) = pushed.seen {
                // SAFETY: this thread has just borrowed the unit, so it is live (F3).
                let foreign = unsafe { foreign_of(last) };
                foreign.linked.write();
                foreign.link.store(self.rest, Ordering::Relaxed);
                self.rest = first.as_ptr();
            }
        }
    }

    /// Puts all units back. Ends with a sequentially consistent fence. The caller must then check
    /// whether the record is free, and drain both inboxes if it is.
    pub fn put_back(mut self) {
        if let Some((first, last)) = self.seen {
            // SAFETY: `lend` borrowed the units from an inbox of this record. So they are live
            // (F3), and their links, which lead from `first` to `last`, belong to this thread (F5).
            unsafe { self.aside.push_list(first, last) };
        }
        self.put_rest_back();
        if !weakened!("put_back_without_fence") {
            // ORDERING: SeqCst fence. Pairs with the one in `Lease::release`: either this thread
            // sees that the record is free, or the thread that releases it sees the units.
            fence(Ordering::SeqCst);
        }
    }
}

impl<U: ForeignHeader> Inbox<U> {
    /// Takes all units out of the inbox, for a thread that looks at them and does not book their
    /// frees. [`LentUnits::put_back`] puts the units that the thread set aside into `aside`, and
    /// the others into `inbox`. Any thread may call this while others push and the holder drains.
    ///
    /// # Safety
    /// The three inboxes belong to one record, and no thread ever closes them.
    pub unsafe fn lend<'i>(&self, aside: &'i Inbox<U>, inbox: &'i Inbox<U>) -> LentUnits<'i, U> {
        LentUnits { rest: self.take_list(), seen: None, inbox, aside }
    }
}
