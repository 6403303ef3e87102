//! Remote frees: the foreign word of a unit and the inbox of its record.
//!
//! A *unit* is a chunk, a page or a group of slots. It belongs to one record for its whole life.
//! The *holder*, the thread that has leased the record, counts the unit's blocks with plain loads
//! and stores. Every other thread frees by **one** read-modify-write on the unit's *foreign word*.
//! The thread that finds the word at zero also pushes the unit to the record's *inbox*. Later the
//! holder takes all units out of the inbox and *books* their frees: it adds them to its own counts.
//!
//! A unit of a record without a holder can count down instead. A thread that leases the record only
//! to drain its inbox stores a *countdown* in the unit's word. The countdown shows what is still
//! live: by its distance to [`COMPLETE`], or by the bits that are not set. Only the free that
//! completes the countdown pushes the unit. A thread that frees the blocks of an exited thread
//! therefore takes the lease at most twice for each unit, and not once for each block.
//!
//! ```text
//!   word           meaning                                    waits for a dequeue (F1)
//!   0              nothing freed                              no
//!   n              n freed since the last dequeue             yes
//!   countdown      some blocks are still live                 no
//!   COMPLETE       the last live block was freed              yes
//! ```
//!
//! The design page has a picture, the invariants F1 to F7, and the pairs of orderings.
//!
//! The holder may set a word that is not a countdown to zero only when it dequeues the unit (F2).
//! Until then, the thread that found the word at zero might not have pushed the unit yet. If the
//! word became zero again before that push, the next thread to find zero would link the unit a
//! second time.

mod close;
mod lend;

pub use lend::LentUnits;

use core::ptr::{self, NonNull};

use crate::sync::{AtomicPtr, AtomicU64, Ordering, change_if, fence, push};
use crate::witness::Witness;

/// The bit of a foreign word that marks a countdown. The other 63 bits are available to a unit with
/// a bit for each slot.
pub const COUNTDOWN: u64 = 1 << 63;

/// The word of a complete countdown, in a unit that counts blocks.
pub const COMPLETE: u64 = 3 << 62;

/// The word of a complete countdown, in a unit with a bit for each slot.
pub const COMPLETE_BITS: u64 = u64::MAX;

/// The bit that marks a foreign word whose inbox was closed. Units of a closable inbox have at most
/// 63 slots.
pub const CLOSED: u64 = 1 << 63;

/// Returns the sentinel that is the head of every closed inbox. It is not the address of a unit.
fn closed<U>() -> *mut U {
    ptr::without_provenance_mut(1)
}

// ORDERING: AcqRel. Pairs with `Taken::next` (both ways), `Foreign::observe`,
// `Foreign::stop_countdown` and `Inbox::push_or_count`. Release publishes this thread's accesses to
// the block. Acquire orders the pusher's write of the link after the holder's read of the link,
// which comes before the holder's store of zero (F5).
ordering!(give_order = AcqRel, Relaxed if "give_relaxed", Release if "give_release");
// ORDERING: AcqRel. Pairs with `Inbox::give_back_add`, `Inbox::give_back_bits` and
// `Inbox::give_back_until_closed`. By Acquire, this thread sees all accesses to the booked blocks
// by the threads that freed them. Release orders the read of the link before the store of zero,
// after which the next pusher may write the link.
ordering!(book_order = AcqRel, Relaxed if "book_relaxed", Acquire if "book_acquire");
// ORDERING: Release. Pairs with the Acquire in `Inbox::take`, `Inbox::lend` and `Inbox::close`.
// Publishes: the unit's link.
ordering!(push_order = Release, Relaxed if "push_relaxed");
// ORDERING: Acquire. Pairs with the Release in `Inbox::push_list` and `LentUnits::put_rest_back`.
ordering!(take_order = Acquire, Relaxed if "take_relaxed");

// ORDERING: AcqRel. Pairs with `Inbox::give_back_add` and `Inbox::give_back_bits`. By Acquire, this
// thread sees all accesses to the blocks that were freed during the countdown. Release orders the
// countdown before the next push.
ordering!(count_stop_order = AcqRel, Relaxed if "stop_relaxed");

/// The foreign word of a unit, and its link in the inbox.
///
/// Keep the value on a different cache line than the owner's words, so that remote frees do not
/// invalidate the owner's line.
#[derive(Debug)]
pub struct Foreign<U> {
    word: AtomicU64,
    link: AtomicPtr<U>,
    /// The stand-in for the unit in models. A remote free touches this witness, and the thread that
    /// frees the unit calls [`Witness::end`].
    witness: Witness,
    /// The stand-in for the link in models. Loom never delays a load past a later store, so the
    /// link's value alone would not reveal a pusher that writes before the holder reads.
    linked: Witness,
}

impl<U> Foreign<U> {
    crate::const_unless_loom! {
        /// Creates the foreign word of a unit without remote frees.
        pub fn new() -> Self {
            Self {
                word: AtomicU64::new(0),
                link: AtomicPtr::new(ptr::null_mut()),
                witness: Witness::new(),
                linked: Witness::new(),
            }
        }
    }

    /// Returns the word: remote frees that are not booked yet, a countdown, or a closed word
    /// ([`CLOSED`]). The answer may be out of date.
    #[inline]
    pub fn unbooked(&self) -> u64 {
        self.word.load(Ordering::Relaxed)
    }

    /// Starts the countdown of a unit: stores `first` in its word. Returns `false`, without a
    /// change, if a remote free has arrived since the unit was dequeued. That free pushes the unit
    /// again.
    ///
    /// For a unit whose word is a count, `first` is [`COMPLETE`] minus the live amount. For a unit
    /// with a bit for each slot, `first` is [`COUNTDOWN`] with the bits of all slots that are
    /// **not** live. Only the holder of the record's lease may call this, after it has booked
    /// everything that it dequeued, and while a block or slot of the unit is live.
    pub fn start_countdown(&self, first: u64) -> bool {
        crate::invariant!(first & COUNTDOWN != 0, "the first word of a countdown lacks the bit `COUNTDOWN`");
        // Relaxed: the exchange continues the release sequence of the swap in `Taken::next`, which
        // published the read of the link.
        self.word.compare_exchange(0, first, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Stops the countdown of a unit: sets its word to zero, and returns the word before that.
    ///
    /// Returns `None` if the word is zero, if it counts unbooked frees, or if the countdown is
    /// `complete` ([`COMPLETE`] or [`COMPLETE_BITS`]). In the last two cases a later drain yields
    /// the unit (F1). Only the holder of the record's lease may call this.
    pub fn stop_countdown(&self, complete: u64) -> Option<u64> {
        let counts = |word: u64| word & COUNTDOWN != 0 && word != complete;
        // ORDERING: `count_stop_order`. Pairs with `Inbox::give_back_add`.
        let exchange =
            |old, new| self.word.compare_exchange_weak(old, new, count_stop_order(), Ordering::Relaxed);
        change_if(self.unbooked(), exchange, |word| counts(word).then_some(0)).ok()
    }

    /// Tells the model checker that this thread reads the unit's words, although it neither owns
    /// the unit nor frees a block of it.
    #[inline]
    pub fn touch(&self) {
        self.witness.touch();
    }

    /// Tells the model checker that the unit is about to be freed: its word is zero, and no other
    /// thread may touch the unit (F3).
    #[inline]
    pub fn end(&self) {
        let booked = self.unbooked() == 0;
        crate::invariant!(booked, "a unit is freed with unbooked remote frees or a countdown");
        self.end_witnesses();
    }

    /// Tells the model checker that a unit of a closable inbox is about to be freed. The unit's
    /// word is zero, or [`CLOSED`] with the bits of the slots that were counted since the inbox was
    /// closed.
    #[inline]
    pub fn end_closable(&self) {
        let word = self.unbooked();
        crate::invariant!(word == 0 || word >= CLOSED, "a unit is freed with unbooked remote frees");
        self.end_witnesses();
    }

    #[inline]
    fn end_witnesses(&self) {
        self.witness.end();
        self.linked.end();
    }

    /// Takes the word of a unit that was not dequeued. F2 forbids this, and a model shows why.
    #[cfg(all(test, ephemera_loom))]
    pub(crate) fn steal(&self) -> u64 {
        self.word.swap(0, book_order())
    }
}

/// A unit of memory, or a part of one, that contains a [`Foreign`].
///
/// # Safety
/// `FOREIGN` is the offset of a `Foreign<Self>` in the unit. It is sound for any thread to free
/// blocks of the unit, and the unit itself.
pub unsafe trait ForeignHeader: Sized {
    /// The offset of the unit's [`Foreign`] from the start of the unit, in bytes.
    const FOREIGN: usize;
}

/// Returns the foreign word of a unit.
///
/// Another thread may free the unit during a call that pushes the unit. Such a call therefore gets
/// a reference to one atomic field. An argument of type `&Foreign` would also cover padding, which
/// must stay valid until the call returns.
///
/// # Safety
/// `unit` is live while the result is used.
#[inline]
unsafe fn foreign_of<'u, U: ForeignHeader>(unit: NonNull<U>) -> &'u Foreign<U> {
    // SAFETY: the caller's unit is live, and contains a `Foreign` at this offset.
    let foreign = unsafe { unit.byte_add(U::FOREIGN) }.cast();
    // SAFETY: the unit is live. Every field of a `Foreign` is an atomic or a witness.
    unsafe { foreign.as_ref() }
}

/// The units of one record that have unbooked remote frees: a stack to which many threads push, and
/// from which the holder or a borrower takes all units at once.
///
/// Since no thread takes a single unit, the stack has no ABA problem: a thread never follows the
/// link of a unit that another thread may pop.
#[derive(Debug)]
pub struct Inbox<U> {
    head: AtomicPtr<U>,
}

impl<U> Inbox<U> {
    crate::const_unless_loom! {
        /// Creates an empty inbox.
        pub fn new() -> Self {
            Self { head: AtomicPtr::new(ptr::null_mut()) }
        }
    }

    /// Returns whether the inbox is empty. The answer may be out of date.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed).is_null()
    }
}

impl<U: ForeignHeader> Inbox<U> {
    /// Frees blocks by adding `amount` to the unit's word, for units that count blocks or bytes.
    ///
    /// Returns whether this call pushed the unit. If so, a sequentially consistent fence separates
    /// the push from the return. The caller must then check whether the record is free, and drain
    /// the inbox if it is.
    ///
    /// # Safety
    /// `unit` is live and belongs to the record of this inbox. `amount` is not zero, and counts
    /// blocks or bytes of the unit that the caller owned and gives up by this call. The amounts of
    /// all live blocks of the unit add up to less than 2^62.
    #[inline]
    pub unsafe fn give_back_add(&self, unit: NonNull<U>, amount: u64) -> bool {
        let add = |word: &AtomicU64| {
            // ORDERING: `give_order`. Pairs with `Taken::next`.
            let old = word.fetch_add(amount, give_order());
            old == 0 || completes(old.wrapping_add(amount), COMPLETE)
        };
        // SAFETY: the caller's unit is live and belongs to this inbox. `add` is one
        // read-modify-write, which frees the blocks or bytes that `amount` counts.
        unsafe { self.give(unit, add) }
    }

    /// Frees slots by setting `bits` in the unit's word, for units that have a bit for each slot.
    ///
    /// Returns whether this call pushed the unit. If so, the caller must check the record as after
    /// [`Inbox::give_back_add`].
    ///
    /// # Safety
    /// `unit` is live and belongs to the record of this inbox. `bits` is not zero, excludes bit 63,
    /// and is the set of slots that the caller owned and gives up by this call. None of its bits is
    /// set in the word.
    #[inline]
    pub unsafe fn give_back_bits(&self, unit: NonNull<U>, bits: u64) -> bool {
        let set = |word: &AtomicU64| {
            // ORDERING: `give_order`. Pairs with `Taken::next`.
            let old = word.fetch_or(bits, give_order());
            crate::invariant!(old & bits == 0, "a slot is freed twice");
            old == 0 || completes(old | bits, COMPLETE_BITS)
        };
        // SAFETY: the caller's unit is live and belongs to this inbox. `set` is one
        // read-modify-write that frees the slots of `bits`.
        unsafe { self.give(unit, set) }
    }

    /// Frees blocks by `change`, and pushes the unit if `change` returns `true`. Returns whether
    /// this call pushed the unit.
    ///
    /// # Safety
    /// `unit` is live and belongs to the record of this inbox. `change` is one read-modify-write
    /// that frees blocks, bytes or slots of the caller. It returns whether it found the word at
    /// zero or completed a countdown.
    #[inline]
    unsafe fn give(&self, unit: NonNull<U>, change: impl FnOnce(&AtomicU64) -> bool) -> bool {
        // SAFETY: the unit is live until `change`, because the blocks that this call frees are not
        // booked before `change` (F3).
        let foreign = unsafe { foreign_of(unit) };
        foreign.witness.touch();
        let pushes = change(&foreign.word);
        if pushes {
            // SAFETY: the caller's unit belongs to this inbox. This thread found zero or completed
            // a countdown, so it must push the unit (F1).
            let open = unsafe { self.push(unit) };
            crate::invariant!(open, "a remote free to a closed inbox goes through `give_back_until_closed`");
        }
        pushes
    }

    /// Pushes a unit, unless the inbox was closed. Returns whether this call pushed the unit.
    ///
    /// # Safety
    /// `unit` belongs to the record of this inbox. The caller's read-modify-write found the unit's
    /// word at zero or completed its countdown.
    #[cold]
    unsafe fn push(&self, unit: NonNull<U>) -> bool {
        // SAFETY: the caller's unit is a list of one. Before this push, no thread books or counts
        // the word, so the unit lives (F3, F7), and its link belongs to this thread (F5).
        let pushed = unsafe { self.push_list(unit, unit) };
        if pushed && !weakened!("push_without_fence") {
            // ORDERING: SeqCst fence. Pairs with the one in `Lease::release`: either the pusher
            // sees that the record is free, or the thread that releases it sees the push. Also
            // pairs with the one in `IdleQueue::put_back`.
            fence(Ordering::SeqCst);
        }
        pushed
    }

    /// Pushes units that are linked from `first` to `last`, unless the inbox was closed. Returns
    /// whether this call pushed them.
    ///
    /// # Safety
    /// The links lead from `first` to `last`. The units belong to the record of this inbox and are
    /// live, and the link of `last` belongs to this thread (F5).
    #[inline]
    unsafe fn push_list(&self, first: NonNull<U>, last: NonNull<U>) -> bool {
        // SAFETY: the caller's unit `last` is live.
        let foreign = unsafe { foreign_of(last) };
        foreign.linked.write();
        let link = &foreign.link;
        let store = |below| link.store(below, Ordering::Relaxed);
        // ORDERING: `push_order`. Pairs with `Inbox::take`, `Inbox::lend` and `Inbox::close`.
        push(&self.head, first.as_ptr(), Some(closed()), push_order(), store)
    }

    /// Takes all units that are in the inbox. The iterator yields each unit with its remote frees,
    /// and the caller **must book these frees**. Only the iterator knows the units that it has not
    /// yielded yet, and only the caller knows the frees of the units that it has yielded.
    ///
    /// # Safety
    /// No other thread calls this or [`Inbox::close`] at the same time: the caller holds the lease
    /// of the inbox's record, or is the only thread that uses the pool.
    #[inline]
    pub unsafe fn take(&self) -> Taken<U> {
        Taken { next: self.take_list() }
    }

    /// Takes all units out of the inbox. Returns the first of them, or null.
    #[inline]
    fn take_list(&self) -> *mut U {
        if self.is_empty() {
            return ptr::null_mut();
        }
        // ORDERING: `take_order`. Pairs with `Inbox::push`.
        self.head.swap(ptr::null_mut(), take_order())
    }
}

/// Returns whether `word` is `complete`, the word of a complete countdown.
#[inline]
fn completes(word: u64, complete: u64) -> bool {
    word == complete && !weakened!("complete_without_push")
}

/// Units that were taken from an inbox, each with its remote frees.
///
/// Each unit stays live until it is yielded (F3), whichever thread holds the record by then. Only
/// the holder, or the thread that closed the inbox, may book the unit. If the iterator is dropped
/// early, the units that it has not yielded are leaked, because no thread pushes them again.
///
/// `LEAVE` is the value that the iterator stores in each word: zero, or [`CLOSED`].
#[derive(Debug)]
#[must_use = "remote frees that are not booked are lost"]
pub struct Taken<U, const LEAVE: u64 = 0> {
    next: *mut U,
}

impl<U: ForeignHeader, const LEAVE: u64> Iterator for Taken<U, LEAVE> {
    type Item = (NonNull<U>, u64);

    fn next(&mut self) -> Option<(NonNull<U>, u64)> {
        let unit = NonNull::new(self.next)?;
        // SAFETY: the unit was taken and is not yielded yet, so its word is not zero (F1) and the
        // unit is live (F3, F7).
        let foreign = unsafe { foreign_of(unit) };
        foreign.linked.touch();
        // The link is read before the word becomes zero, because afterwards the next pusher writes
        // the link.
        self.next = foreign.link.load(Ordering::Relaxed);
        // ORDERING: `book_order`. Pairs with `Inbox::give_back_add`.
        let given = foreign.word.swap(LEAVE, book_order());
        crate::invariant!(given != 0, "a unit in the inbox has no remote frees");
        Some((unit, given))
    }
}

#[cfg(all(test, feature = "std", not(ephemera_loom)))]
pub(crate) mod tests;
