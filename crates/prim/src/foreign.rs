//! Remote frees: the foreign word of a unit and the inbox of its record.
//!
//! A unit (chunk, page) belongs to one record for its whole life. The thread that holds the record's lease
//! counts with plain loads and stores. Every other thread frees with **one** read-modify-write on the unit's
//! foreign word, and the thread that finds the word at zero also pushes the unit to the record's inbox.
//!
//! A unit whose record has no holder can count down instead: the holder of a momentary lease stores in the
//! word how much is still live, and only the free that completes the count pushes the unit. So a thread that
//! frees the blocks of an ended thread takes the lease twice for each unit, not once for each block.
//!
//! ```text
//!   word           meaning                                    in the inbox, or about to be pushed
//!   0              nothing freed                              no
//!   n              n freed since the last dequeue             yes
//!   countdown      less than COMPLETE is freed                no
//!   COMPLETE       every live block was freed                 yes
//! ```
//!
//! The crate's design has the picture, the invariants F1 to F6, and the orderings in pairs.
//!
//! A holder takes a word that is not a countdown only when it dequeues the unit. A pusher may stand between its
//! read-modify-write and its push, and the next thread to find zero would link the unit twice.

mod close;

pub use close::CLOSED;

use core::ptr::{self, NonNull};

use crate::sync::{AtomicPtr, AtomicU64, Ordering, fence, guess};
use crate::witness::Witness;

/// The bit of a foreign word that marks a countdown. A unit with a bit for each slot has at most 63 slots for each word.
pub const COUNTDOWN: u64 = 1 << 63;

/// The foreign word of a unit that counts, once its countdown is complete.
pub const COMPLETE: u64 = 3 << 62;

/// The foreign word of a unit with a bit for each slot, once its countdown is complete.
pub const COMPLETE_BITS: u64 = u64::MAX;

// ORDERING: AcqRel. Pairs with `Taken::next`, in both directions. Release publishes the end of use of the block;
// Acquire orders the pusher's write of the link behind the holder's read of it, which came before the zero (F5).
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

// ORDERING: AcqRel. Pairs with `Inbox::give_back_add` and `Inbox::give_back_bits`: Acquire sees the end of use of every
// block that was freed during the countdown, Release orders the countdown before the next push.
const COUNT_STOP: Ordering =
    if cfg!(ephemera_weaken = "stop_relaxed") { Ordering::Relaxed } else { Ordering::AcqRel };

/// The foreign word of a unit, and its link in the inbox.
///
/// Keep it on another cache line than what the owner writes: foreign frees must not take that line away.
#[derive(Debug)]
pub struct Foreign<U> {
    word: AtomicU64,
    link: AtomicPtr<U>,
    /// Of the unit: whoever gives back touches it, whoever frees it ends it.
    witness: Witness,
    /// Of the link: loom runs no load after a store that follows it, so that the link's value alone would not show
    /// that the next pusher's write is ordered behind the holder's read.
    linked: Witness,
}

impl<U> Foreign<U> {
    crate::const_unless_loom! {
        /// Nothing given back.
        #[must_use]
        pub fn new() -> Self {
            Self {
                word: AtomicU64::new(0),
                link: AtomicPtr::new(ptr::null_mut()),
                witness: Witness::new(),
                linked: Witness::new(),
            }
        }
    }

    /// The word: remote frees that are not booked yet, or a countdown. For statistics: exact only at rest.
    #[inline]
    pub fn unbooked(&self) -> u64 {
        self.word.load(Ordering::Relaxed)
    }

    /// Starts the countdown of a unit, whose word becomes `first`, unless a remote free has come since the unit was
    /// dequeued: then the unit is in the inbox again, and this returns `false`.
    ///
    /// `first` is [`COMPLETE`] less what is live in a unit that counts. In a unit with a bit for each slot it is [`COUNTDOWN`]
    /// with the bits of all slots that are **not** live. Only the holder of the record's lease calls this, after it
    /// booked everything that it dequeued, and something of the unit is live.
    pub fn start_countdown(&self, first: u64) -> bool {
        crate::invariant!(first & COUNTDOWN != 0, "a countdown that is not marked");
        // Relaxed: the exchange continues the release sequence of the one in `Taken::next`, which published that the link was read.
        self.word.compare_exchange(0, first, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Stops the countdown of a unit and returns the word that it had reached. `None` if the word is zero, if it counts
    /// frees that wait in the inbox, or if the countdown is `complete`: the unit is then in the inbox too, or about to be.
    ///
    /// Only the holder of the record's lease calls this. `complete` is [`COMPLETE`] or [`COMPLETE_BITS`].
    pub fn stop_countdown(&self, complete: u64) -> Option<u64> {
        let counts = |word: u64| word & COUNTDOWN != 0 && word != complete;
        let mut word = self.word.load(Ordering::Relaxed);
        while counts(word) {
            // ORDERING: `COUNT_STOP`. Pairs with `Inbox::give_back_add`.
            match self.word.compare_exchange_weak(word, 0, COUNT_STOP, Ordering::Relaxed) {
                Ok(_) => return Some(word),
                Err(now) => word = now,
            }
        }
        None
    }

    /// Somebody who neither owns the unit nor gives back to it reads its words, for statistics say.
    #[inline]
    pub fn touch(&self) {
        self.witness.touch();
    }

    /// The unit is about to be freed: its word is zero, or its inbox was closed, and nobody else may touch it (F3).
    #[inline]
    pub fn end(&self) {
        self.witness.end();
        self.linked.end();
        let word = self.unbooked();
        crate::invariant!(word == 0 || word >= CLOSED, "a unit is freed with foreign frees unbooked");
    }

    /// Takes the word without a dequeue: what F2 forbids, for the model that shows why.
    #[cfg(all(test, ephemera_loom))]
    pub(crate) fn steal(&self) -> u64 {
        self.word.swap(0, BOOK)
    }
}

impl<U> Default for Foreign<U> {
    fn default() -> Self {
        Self::new()
    }
}

/// A unit of memory, or a part of one, that has a [`Foreign`].
///
/// # Safety
/// [`Unit::foreign`] returns the address of one and the same `Foreign` inside the unit, for as long as the
/// unit lives, without making a reference to anything else in it. A unit may be given back to, and freed, by any
/// thread.
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
    /// Frees by adding `amount` to the unit's word: for units that count.
    ///
    /// Returns whether this call pushed the unit. If so, a sequentially consistent fence stands between the push and
    /// the return: the caller then looks whether the record is free, and drains the inbox if it is.
    ///
    /// # Safety
    /// `unit` is alive and its record's inbox is this one. `amount` is not zero and stands for something of that unit
    /// which the caller had and gives up by this call. All that is live in the unit adds up to less than
    /// 2^62.
    #[inline]
    pub unsafe fn give_back_add(&self, unit: NonNull<U>, amount: u64) -> bool {
        let add = |word: &AtomicU64| {
            // ORDERING: `GIVE`. Pairs with `Taken::next`.
            let old = word.fetch_add(amount, GIVE);
            old == 0 || completes(old.wrapping_add(amount), COMPLETE)
        };
        // SAFETY: the caller's duties are those of `give`.
        unsafe { self.give(unit, add) }
    }

    /// Frees by setting `bits` in the unit's word: for units that have a bit for each slot.
    ///
    /// Returns whether this call pushed the unit, as [`Inbox::give_back_add`] does.
    ///
    /// # Safety
    /// As [`Inbox::give_back_add`]; `bits` is not zero, and neither bit 63 nor any bit that is set in the word is in it.
    #[inline]
    pub unsafe fn give_back_bits(&self, unit: NonNull<U>, bits: u64) -> bool {
        let set = |word: &AtomicU64| {
            // ORDERING: `GIVE`. Pairs with `Taken::next`.
            let old = word.fetch_or(bits, GIVE);
            crate::invariant!(old & bits == 0, "a slot is freed twice");
            old == 0 || completes(old | bits, COMPLETE_BITS)
        };
        // SAFETY: the caller's duties are those of `give`.
        unsafe { self.give(unit, set) }
    }

    /// # Safety
    /// As [`Inbox::give_back_add`]; `change` is one read-modify-write that frees, and returns whether it found the word
    /// at zero or completed a countdown.
    #[inline]
    unsafe fn give(&self, unit: NonNull<U>, change: impl FnOnce(&AtomicU64) -> bool) -> bool {
        // SAFETY: the unit is alive: what is freed here is not booked yet (F3).
        let foreign = unsafe { U::foreign(unit) };
        // SAFETY: as above; a reference to the witness alone.
        let witness = unsafe { &(*foreign.as_ptr()).witness };
        witness.touch();
        // SAFETY: as above; a reference to the atomic alone.
        let word = unsafe { &(*foreign.as_ptr()).word };
        let pushes = change(word);
        if pushes {
            // SAFETY: this thread found zero or completed a countdown, so it pushes (F1), and F3 keeps the unit alive until then.
            let open = unsafe { self.push(unit, foreign) };
            crate::invariant!(open, "a remote free to a closed inbox goes through `give_back_until_closed`");
        }
        pushes
    }

    /// Pushes a unit, unless the inbox was closed. Returns whether it was pushed.
    ///
    /// # Safety
    /// `foreign` is that of `unit`, and the caller's read-modify-write found its word at zero or completed its countdown.
    #[cold]
    unsafe fn push(&self, unit: NonNull<U>, foreign: NonNull<Foreign<U>>) -> bool {
        // SAFETY: the caller is the one to push: the unit lives until it is dequeued (F3), which is after this push.
        let link = unsafe { &(*foreign.as_ptr()).link };
        // SAFETY: as above.
        let linked = unsafe { &(*foreign.as_ptr()).linked };
        linked.write();
        let mut head = guess(&self.head);
        while head != close::closed() {
            link.store(head, Ordering::Relaxed);
            // ORDERING: `PUSH`. Pairs with `Inbox::take`.
            match self.head.compare_exchange_weak(head, unit.as_ptr(), PUSH, Ordering::Relaxed) {
                Ok(_) => {
                    if !cfg!(ephemera_weaken = "push_without_fence") {
                        // ORDERING: SeqCst fence. Pairs with the one in `Lease::release`: either the pusher sees that the
                        // record is free, or the thread that releases it sees the push.
                        fence(Ordering::SeqCst);
                    }
                    return true;
                }
                Err(now) => head = now,
            }
        }
        false
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

/// Whether this word is that of a countdown at its end.
#[inline]
fn completes(word: u64, complete: u64) -> bool {
    word == complete && !cfg!(ephemera_weaken = "complete_without_push")
}

/// Units that were taken from an inbox, each with what was given back to it.
///
/// Each lives until it is yielded (F3), whoever holds the record by then; but only the holder may book it. Dropped
/// half-way it loses the rest: those units are never linked again, and so never freed.
///
/// `LEAVE` is what stays in the word: zero, or [`CLOSED`].
#[derive(Debug)]
#[must_use = "what is not booked is lost"]
pub struct Taken<U, const LEAVE: u64 = 0> {
    next: *mut U,
}

impl<U: Unit, const LEAVE: u64> Iterator for Taken<U, LEAVE> {
    type Item = (NonNull<U>, u64);

    fn next(&mut self) -> Option<(NonNull<U>, u64)> {
        let unit = NonNull::new(self.next)?;
        // SAFETY: a unit in the inbox has a word that is not zero (F1), so it lives (F3).
        let foreign = unsafe { U::foreign(unit) };
        // SAFETY: as above. The link is read before the word goes to zero: the next pusher writes it.
        let link = unsafe { &(*foreign.as_ptr()).link };
        // SAFETY: as above.
        let word = unsafe { &(*foreign.as_ptr()).word };
        // SAFETY: as above.
        let linked = unsafe { &(*foreign.as_ptr()).linked };
        linked.touch();
        self.next = link.load(Ordering::Relaxed);
        // ORDERING: `BOOK`. Pairs with `Inbox::give_back_add`.
        let given = word.swap(LEAVE, BOOK);
        crate::invariant!(given != 0, "a unit in the inbox has no remote frees");
        Some((unit, given))
    }
}

#[cfg(all(test, feature = "std", not(ephemera_loom)))]
mod tests;
