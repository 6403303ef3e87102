//! What other threads give back: the foreign word of a unit and the inbox of its record.
//!
//! A unit (chunk, page) belongs to one record for ever. The thread that holds the record's lease counts
//! with plain loads and stores; every other thread gives back with **one** read-modify-write on the unit's
//! foreign word. Whoever finds that word at zero also pushes the unit to the record's inbox.
//!
//! ```text
//!            give_back: word 0 -> n, then push             take: head -> null, then per unit:
//!  other ------------------------------------------> inbox -----------------------------> holder
//!            give_back: word m -> m + n (m > 0), no push   read link, then word -> 0, book n
//! ```
//!
//! # Invariants
//! * **F1** A unit is in the inbox, or about to be pushed, exactly while its word is not zero.
//! * **F2** The word goes back to zero only in [`Taken::next`], that is for a unit that was dequeued.
//! * **F3** A unit is not freed while its word is not zero: what the word holds is not booked yet, and the
//!   holder frees a unit only when everything is booked as home.
//! * **F4** After its read-modify-write (where that found another value than zero) or after its push, a
//!   freeing thread touches the unit no more.
//!
//! F1 to F3 are why a holder must never take the word at another moment, say when it retires the unit or
//! for its statistics: a pusher may stand between its add and its push, and the next one to find zero
//! would link the unit twice.

use core::ptr::{self, NonNull};

use crate::sync::{AtomicPtr, AtomicU64, Ordering};
use crate::witness::Witness;

// ORDERING: AcqRel. Pairs with itself and with `Taken::next`. Release publishes the end of use of the block;
// Acquire orders the pusher's write of the link behind the holder's read of it, which came before the zero.
const GIVE: Ordering = if cfg!(ephemera_weaken = "give_relaxed") {
    Ordering::Relaxed
} else if cfg!(ephemera_weaken = "give_release") {
    Ordering::Release
} else {
    Ordering::AcqRel
};
// ORDERING: AcqRel. Pairs with `Inbox::give_back_add` and `Inbox::give_back_bits`: Acquire sees the end of use of all
// that is booked, Release orders the read of the link before the zero that lets the next pusher write it.
const BOOK: Ordering = if cfg!(ephemera_weaken = "book_relaxed") {
    Ordering::Relaxed
} else if cfg!(ephemera_weaken = "book_acquire") {
    Ordering::Acquire
} else {
    Ordering::AcqRel
};
// ORDERING: Release. Pairs with the Acquire in `Inbox::take`. Publishes: the unit's link.
const PUSH: Ordering =
    if cfg!(ephemera_weaken = "push_relaxed") { Ordering::Relaxed } else { Ordering::Release };
// ORDERING: Acquire. Pairs with the Release in `Inbox::push`.
const TAKE: Ordering =
    if cfg!(ephemera_weaken = "take_relaxed") { Ordering::Relaxed } else { Ordering::Acquire };

/// The foreign word of a unit, and its link in the inbox.
///
/// Keep it on another cache line than what the owner writes: foreign frees must not take that line away.
#[derive(Debug)]
pub struct Foreign<U> {
    word: AtomicU64,
    link: AtomicPtr<U>,
    witness: Witness,
}

impl<U> Foreign<U> {
    crate::const_unless_loom! {
        /// Nothing given back.
        #[must_use]
        pub fn new() -> Self {
            Self { word: AtomicU64::new(0), link: AtomicPtr::new(ptr::null_mut()), witness: Witness::new() }
        }
    }

    /// What was given back and is not booked yet. For statistics: exact only at rest.
    #[inline]
    pub fn unbooked(&self) -> u64 {
        self.word.load(Ordering::Relaxed)
    }

    /// The unit is about to be freed: its word is zero and nobody else may touch it (F3).
    #[inline]
    pub fn end(&self) {
        self.witness.end();
        debug_assert!(self.unbooked() == 0, "a unit is freed with foreign frees unbooked");
    }
}

impl<U> Default for Foreign<U> {
    fn default() -> Self {
        Self::new()
    }
}

/// A unit of memory with a header that holds a [`Foreign`].
///
/// # Safety
/// [`Unit::foreign`] returns the address of one and the same `Foreign` inside the unit, for as long as the
/// unit lives, without making a reference to anything else in it.
pub unsafe trait Unit: Sized {
    /// Where the unit keeps its foreign word.
    ///
    /// # Safety
    /// `unit` is alive.
    unsafe fn foreign(unit: NonNull<Self>) -> NonNull<Foreign<Self>>;
}

/// The units of one record that other threads gave something back to: a stack that many push and one takes whole.
///
/// Taken whole, it has no ABA: no thread ever follows the link of a unit that another thread may pop.
#[derive(Debug)]
pub struct Inbox<U> {
    head: AtomicPtr<U>,
}

impl<U> Inbox<U> {
    crate::const_unless_loom! {
        /// An empty inbox.
        #[must_use]
        pub fn new() -> Self {
            Self { head: AtomicPtr::new(ptr::null_mut()) }
        }
    }

    /// Whether nothing waits, as far as this thread has seen.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed).is_null()
    }
}

impl<U> Default for Inbox<U> {
    fn default() -> Self {
        Self::new()
    }
}

impl<U: Unit> Inbox<U> {
    /// Gives back by adding `amount` to the unit's word: for units that count.
    /// Returns whether the unit was pushed, that is whether its holder has news.
    ///
    /// # Safety
    /// `unit` is alive and its record's inbox is this one; `amount` is not zero, stands for something of that unit
    /// which the caller had and gives up by this call, and the sum of all that is out fits the word.
    #[inline]
    pub unsafe fn give_back_add(&self, unit: NonNull<U>, amount: u64) -> bool {
        // ORDERING: `GIVE`. Pairs with `Taken::next`.
        // SAFETY: the caller's duties are those of `give`.
        unsafe { self.give(unit, |word| word.fetch_add(amount, GIVE)) }
    }

    /// Gives back by setting `bits` in the unit's word: for units that have a bit for each slot.
    /// Returns whether the unit was pushed.
    ///
    /// # Safety
    /// As [`Inbox::give_back_add`]; `bits` is not zero and none of its bits is set in the word.
    #[inline]
    pub unsafe fn give_back_bits(&self, unit: NonNull<U>, bits: u64) -> bool {
        // ORDERING: `GIVE`. Pairs with `Taken::next`.
        // SAFETY: the caller's duties are those of `give`.
        unsafe { self.give(unit, |word| word.fetch_or(bits, GIVE)) }
    }

    /// # Safety
    /// As [`Inbox::give_back_add`]; `change` is one read-modify-write that gives back and returns the old word.
    #[inline]
    unsafe fn give(&self, unit: NonNull<U>, change: impl FnOnce(&AtomicU64) -> u64) -> bool {
        // SAFETY: the unit is alive: what is given back here is not booked yet (F3).
        let foreign = unsafe { U::foreign(unit) };
        // SAFETY: as above; a reference to the witness alone.
        let witness = unsafe { &(*foreign.as_ptr()).witness };
        witness.touch();
        // SAFETY: as above; a reference to the atomic alone.
        let word = unsafe { &(*foreign.as_ptr()).word };
        let first = change(word) == 0;
        if first {
            // SAFETY: this thread found zero, so it pushes (F1), and F3 keeps the unit alive until it did.
            unsafe { self.push(unit, foreign) };
        }
        first
    }

    #[cold]
    unsafe fn push(&self, unit: NonNull<U>, foreign: NonNull<Foreign<U>>) {
        // SAFETY: the caller found the word at zero: the unit lives until it is dequeued (F3), which is after this push.
        let link = unsafe { &(*foreign.as_ptr()).link };
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            link.store(head, Ordering::Relaxed);
            // ORDERING: `PUSH`. Pairs with `Inbox::take`.
            match self.head.compare_exchange_weak(head, unit.as_ptr(), PUSH, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes all units that wait. Each comes out with what was given back to it, and **must be booked**:
    /// what the iterator yielded is in no word any more, and what it did not yield is in no list.
    ///
    /// # Safety
    /// The caller holds the lease of the record (or, for a closed pool, the gate of its lot), and so is the only
    /// one to take from this inbox.
    #[inline]
    pub unsafe fn take(&self) -> Taken<U> {
        if self.is_empty() {
            return Taken { next: ptr::null_mut() };
        }
        // ORDERING: `TAKE`. Pairs with `Inbox::push`.
        Taken { next: self.head.swap(ptr::null_mut(), TAKE) }
    }
}

/// Units that were taken from an inbox, each with what was given back to it.
#[derive(Debug)]
#[must_use = "what is not booked is lost"]
pub struct Taken<U> {
    next: *mut U,
}

impl<U: Unit> Iterator for Taken<U> {
    type Item = (NonNull<U>, u64);

    fn next(&mut self) -> Option<(NonNull<U>, u64)> {
        let unit = NonNull::new(self.next)?;
        // SAFETY: a unit in the inbox has a word that is not zero (F1), so it lives (F3).
        let foreign = unsafe { U::foreign(unit) };
        // SAFETY: as above. The link is read before the word goes to zero: the next pusher writes it.
        let link = unsafe { &(*foreign.as_ptr()).link };
        // SAFETY: as above.
        let word = unsafe { &(*foreign.as_ptr()).word };
        self.next = link.load(Ordering::Relaxed);
        // ORDERING: `BOOK`. Pairs with `Inbox::give_back_add`.
        let given = word.swap(0, BOOK);
        debug_assert!(given != 0, "a unit in the inbox had nothing given back");
        Some((unit, given))
    }
}
