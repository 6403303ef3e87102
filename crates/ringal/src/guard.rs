//! A guard: the word in front of each region, and the pointer by which rings and buffers reach it.
//!
//! ```text
//!  | word | count | payload ...                     | word | count | payload ...
//!    length and bit: stored by the ring, by the holder at release
//!           handles of a frozen buffer
//! ```
//!
//! A taken guard has one writer, its holder; a free one belongs to the ring. So a release is one
//! store and a look is one load.

use core::ptr::NonNull;

use ephemera_prim::poison::{poison, unpoison};
use ephemera_prim::sync::{AtomicUsize, Ordering};
use ephemera_prim::witness::Witness;

use crate::checked::{self, Check};
use crate::geometry::GRANULE;
use crate::word::Word;

// ORDERING: Release. Pairs with the Acquire in `GuardPtr::look`. Publishes: the end of use of the
// buffer.
const RELEASE: Ordering =
    if cfg!(ephemera_weaken = "guard_release_relaxed") { Ordering::Relaxed } else { Ordering::Release };
// ORDERING: Acquire. Pairs with the Release in `GuardPtr::release`: what its holder did with the
// buffer is over.
const LOOK: Ordering =
    if cfg!(ephemera_weaken = "guard_look_relaxed") { Ordering::Relaxed } else { Ordering::Acquire };
// ORDERING: Release. Pairs with the Acquire in `GuardPtr::is_last`. Publishes: the end of use by
// this handle.
const LEAVE: Ordering =
    if cfg!(ephemera_weaken = "count_release_relaxed") { Ordering::Relaxed } else { Ordering::Release };
// ORDERING: Acquire. Pairs with the Release in `GuardPtr::drop_handle`: all other handles are done
// with the buffer.
const LAST: Ordering =
    if cfg!(ephemera_weaken = "count_acquire_relaxed") { Ordering::Relaxed } else { Ordering::Acquire };

// ORDERING: Acquire. Pairs with the Release in `GuardPtr::drop_handle`: all other handles are done
// with the buffer.
const AFTER: Ordering =
    if cfg!(ephemera_weaken = "count_after_relaxed") { Ordering::Relaxed } else { Ordering::Acquire };

#[cfg(all(test, feature = "std", not(any(ephemera_loom, miri))))]
std::thread_local! {
    /// How many guards this thread has looked at: what an allocation costs, for tests.
    pub(crate) static LOOKS: core::cell::Cell<usize> = const { core::cell::Cell::new(0) };
}

/// What stands in front of a region. Never borrowed as a whole: each word by itself, through
/// [`GuardPtr`].
#[derive(Debug)]
#[repr(C, align(16))]
pub(crate) struct Guard {
    /// First, so that what runs over the region before ends here.
    pub(crate) check: Check,
    word: AtomicUsize,
    /// Handles of a frozen buffer; of any other, whatever was there.
    count: AtomicUsize,
    /// Stands for the payload: its holder writes it, and the ring ends it when the guard is merged
    /// away.
    witness: Witness,
}

/// A pointer to a guard.
///
/// # Invariant
/// **G1** It points at a guard of a store that is not freed for as long as the pointer is used, and
/// may access the whole store. Whoever makes one sees to that; methods rest on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GuardPtr(NonNull<Guard>);

impl GuardPtr {
    /// # Safety
    /// G1, or the place is about to be made a guard by [`GuardPtr::create`].
    #[inline]
    pub(crate) unsafe fn new(place: NonNull<u8>) -> Self {
        Self(place.cast())
    }

    /// The guard of the buffer that starts at `data`.
    ///
    /// # Safety
    /// G1 for the guard in front of `data`.
    #[inline]
    pub(crate) unsafe fn of(data: NonNull<u8>) -> Self {
        // SAFETY: the guard is in the same store, by the caller.
        Self(unsafe { data.sub(GRANULE) }.cast())
    }

    /// Where the payload starts.
    #[inline]
    pub(crate) fn payload(self) -> NonNull<u8> {
        // SAFETY: G1: a region has at least its guard, so this is in the store or just past it.
        unsafe { self.0.cast::<u8>().add(GRANULE) }
    }

    #[inline]
    pub(crate) fn addr(self) -> usize {
        self.0.addr().get()
    }

    #[inline]
    fn word(&self) -> &AtomicUsize {
        // SAFETY: G1; a reference to the word alone.
        unsafe { &(*self.0.as_ptr()).word }
    }

    #[inline]
    fn count(&self) -> &AtomicUsize {
        // SAFETY: G1, and the buffer is frozen, so the count was written; a reference to the word
        // alone.
        unsafe { &(*self.0.as_ptr()).count }
    }

    #[cfg(any(feature = "checked", all(test, not(ephemera_loom))))]
    pub(crate) fn check(&self) -> &Check {
        // SAFETY: G1; a reference to the check alone.
        unsafe { &(*self.0.as_ptr()).check }
    }

    #[inline]
    fn witness(&self) -> &Witness {
        // SAFETY: G1; a reference to the witness alone, which has no size outside loom.
        unsafe { &(*self.0.as_ptr()).witness }
    }

    /// Makes a guard of a free region of `len` bytes.
    ///
    /// # Safety
    /// The place and `len` bytes from it are in the store, behind a free guard or a taken one of
    /// which this part is the ring's again, and the ring is the caller's (C1, C2).
    #[inline]
    pub(crate) unsafe fn create(self, len: usize) {
        // SAFETY: the place has a granule, which is nobody's but the ring's, by the caller.
        unsafe { unpoison(self.0.cast(), GRANULE) };
        // SAFETY: as above; the pointer is derived from the store's, no reference is made.
        let word = unsafe { &raw mut (*self.0.as_ptr()).word };
        // SAFETY: as above.
        unsafe { word.write(AtomicUsize::new(Word::free(len).bits())) };
        // SAFETY: as above.
        let check = unsafe { &raw mut (*self.0.as_ptr()).check };
        // SAFETY: as above.
        unsafe { checked::create(check) };
        if cfg!(ephemera_loom) {
            // SAFETY: as above.
            let witness = unsafe { &raw mut (*self.0.as_ptr()).witness };
            // SAFETY: as above.
            unsafe { witness.write(Witness::new()) };
        }
        checked::set(self, Word::free(len));
    }

    /// What the guard says, and where it says "free", the end of use of the last buffer there.
    #[inline]
    pub(crate) fn look(self) -> Word {
        #[cfg(all(test, feature = "std", not(any(ephemera_loom, miri))))]
        LOOKS.with(|looks| looks.set(looks.get() + 1));
        // ORDERING: `LOOK`. Pairs with `GuardPtr::release`.
        let word = Word::from_bits(self.word().load(LOOK));
        checked::look(self, word);
        word
    }

    /// What its holder knows of it.
    #[inline]
    pub(crate) fn held(self) -> Word {
        Word::from_bits(self.word().load(Ordering::Relaxed))
    }

    /// The ring gives its free region another length.
    #[inline]
    pub(crate) fn resize(self, len: usize) {
        checked::set(self, Word::free(len));
        self.word().store(Word::free(len).bits(), Ordering::Relaxed);
    }

    /// The ring hands its free region out, as one of `len` bytes.
    #[inline]
    pub(crate) fn take(self, len: usize) {
        self.witness().write();
        checked::set(self, Word::taken(len));
        self.word().store(Word::taken(len).bits(), Ordering::Relaxed);
    }

    /// Its holder gives the region of `len` bytes back: the last thing that it does with it.
    #[inline]
    pub(crate) fn release(self, len: usize) {
        checked::set(self, Word::free(len));
        // ORDERING: `RELEASE`. Pairs with `GuardPtr::look`.
        self.word().store(Word::free(len).bits(), RELEASE);
    }

    /// The region of `len` bytes is given back in a store whose ring was dropped, and its share is
    /// or will be taken off.
    #[cfg(feature = "alloc")]
    pub(crate) fn settle(self, len: usize) {
        checked::set(self, Word::settled(len));
        // ORDERING: `RELEASE`. Pairs with `GuardPtr::look`. Publishes: the check value.
        self.word().store(Word::settled(len).bits(), RELEASE);
    }

    /// The holder is about to end its use of the payload.
    #[inline]
    pub(crate) fn end_use(self) {
        self.witness().write();
    }

    /// The guard of a free region goes away: its region becomes a part of the one before.
    #[inline]
    pub(crate) fn swallow(self) {
        self.witness().end();
        // SAFETY: the region is free, hence the ring's, and its guard is not needed any more (C2).
        unsafe { poison(self.0.cast(), GRANULE) };
    }

    /// The buffer gets its first handle of possibly many.
    #[inline]
    pub(crate) fn freeze(self) {
        // SAFETY: G1; no reference is made, and the caller alone has the buffer.
        let count = unsafe { &raw mut (*self.0.as_ptr()).count };
        // SAFETY: as above.
        unsafe { count.write(AtomicUsize::new(1)) };
    }

    /// One handle more.
    #[inline]
    pub(crate) fn add_handle(self) {
        if self.count().fetch_add(1, Ordering::Relaxed) > usize::MAX / 2 {
            too_many();
        }
    }

    /// Whether the caller's handle is the only one; then all others are done with the buffer.
    #[inline]
    pub(crate) fn is_last(self) -> bool {
        self.witness_touch();
        // ORDERING: `LAST`. Pairs with `GuardPtr::drop_handle`.
        self.count().load(LAST) == 1
    }

    /// One handle less. `true` for the last one: the buffer is the caller's alone.
    #[inline]
    pub(crate) fn drop_handle(self) -> bool {
        // The one handle that is left needs no read-modify-write: nobody else can clone it, and
        // none can come back.
        if self.is_last() {
            return true;
        }
        // ORDERING: `LEAVE`. Pairs with `GuardPtr::is_last` and with the load below.
        if self.count().fetch_sub(1, LEAVE) != 1 {
            return false;
        }
        // Several saw more than one, and left: the latest of them is the last. A load, and no
        // fence, so that every tool sees it.
        // ORDERING: `AFTER`. Pairs with `GuardPtr::drop_handle`.
        self.count().load(AFTER) == 0
    }

    /// A handle of a frozen buffer uses it.
    #[inline]
    pub(crate) fn witness_touch(self) {
        self.witness().touch();
    }
}

/// Handles were leaked until their count was about to overflow. Half the range is left for threads
/// that are as far.
#[cold]
#[inline(never)]
fn too_many() -> ! {
    checked::stop(format_args!("a frozen buffer has more than {} handles", usize::MAX / 2))
}
