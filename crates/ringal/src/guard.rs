//! Defines the guard (the words at the start of each region) and [`GuardPtr`], through which rings
//! and buffers access a guard. In builds without checks (see `checked`), a guard has two words.
//!
//! ```text
//!  | word | count | payload ...                     | word | count | payload ...
//!    length and bit: stored by the ring, and by the release of the buffer
//!           handles of a frozen buffer
//! ```
//!
//! Only the buffer writes the guard of a taken region, and only the ring writes the guard of a free
//! region. A release is therefore one store, which the ring observes with one load.

use core::ptr::NonNull;

use ephemera_prim::poison::{poison, unpoison};
use ephemera_prim::sync::{AtomicUsize, Ordering};
use ephemera_prim::witness::Witness;

use crate::checked::{self, Check};
use crate::word::Word;

// ORDERING: Release. Pairs with the Acquire in `GuardPtr::look`. Publishes: all accesses to the
// buffer before its release.
ordering!(release_order = Release, Relaxed if "guard_release_relaxed");
// ORDERING: Acquire. Pairs with the Release in `GuardPtr::release` and in `GuardPtr::settle`. Sees:
// all accesses to the buffer before its release.
ordering!(look_order = Acquire, Relaxed if "guard_look_relaxed");
// ORDERING: Release. Pairs with the Acquire in `GuardPtr::is_last` and in `GuardPtr::drop_handle`.
// Publishes: all accesses through this handle.
ordering!(leave_order = Release, Relaxed if "count_release_relaxed");
// ORDERING: Acquire. Pairs with the Release in `GuardPtr::drop_handle`. Sees: all accesses through
// the other handles.
ordering!(last_order = Acquire, Relaxed if "count_acquire_relaxed");

// ORDERING: Acquire. Pairs with the Release in `GuardPtr::drop_handle`. Sees: all accesses through
// the other handles.
ordering!(after_order = Acquire, Relaxed if "count_after_relaxed");

#[cfg(all(test, feature = "std", not(any(ephemera_loom, miri))))]
std::thread_local! {
    /// The number of guard words that this thread has loaded. Tests take this number as the cost of
    /// an allocation.
    pub(crate) static LOOKS: core::cell::Cell<usize> = const { core::cell::Cell::new(0) };
}

/// The header of a region. Code borrows its fields one by one through [`GuardPtr`] and never the
/// whole guard.
#[derive(Debug)]
#[repr(C, align(16))]
pub(crate) struct Guard {
    /// The check value, and the size of the buffer. This is the first field, so an overrun of the
    /// previous region overwrites the check value before the word.
    check: Check,
    word: AtomicUsize,
    /// The number of handles, if the region holds a frozen buffer. In any other region this field
    /// may be uninitialised.
    count: AtomicUsize,
    /// Represents the payload under loom. A buffer writes the witness at its release, and the ring
    /// writes the witness when the ring takes the region. A merge that removes the guard ends the
    /// witness.
    witness: Witness,
}

/// The unit of region lengths: the size of a guard, rounded up to a power of two. The length of
/// every region is a multiple of the granule, so the remainder of a split always has room for its
/// own guard. The length of a taken region follows from its buffer's size.
pub(crate) const GRANULE: usize = size_of::<Guard>().next_power_of_two();

#[cfg(not(ephemera_loom))]
const _: () = assert!(GRANULE == size_of::<Guard>(), "a guard fills its granule");
const _: () = assert!(GRANULE >= 16, "buffers are aligned to 16 bytes");
const _: () =
    assert!(checked::TAIL % GRANULE == 0 || cfg!(ephemera_loom), "a region is a multiple of the granule");

/// A pointer to a guard.
///
/// # Invariant
/// **G1** The pointer may access the whole store, and the store is not freed while the pointer is
/// used. The creator of a `GuardPtr` guarantees G1, and the methods rely on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct GuardPtr(NonNull<Guard>);

impl GuardPtr {
    // The store is not freed while the pointer is used (G1). Only methods for frozen buffers call
    // `count`, after `freeze` wrote the count.
    words! {
        fn word() -> &AtomicUsize = word;
        fn count() -> &AtomicUsize = count;
        fn check() -> &Check = check;
        fn witness() -> &Witness = witness;
    }

    /// Creates a pointer to the guard at `place`.
    ///
    /// # Safety
    /// G1 holds. Either a guard is at `place`, or the caller calls [`GuardPtr::create`] before any
    /// other method.
    #[inline]
    pub(crate) unsafe fn new(place: NonNull<u8>) -> Self {
        Self(place.cast())
    }

    /// Returns the guard in front of the buffer that starts at `data`.
    ///
    /// # Safety
    /// G1 holds for the guard in front of `data`.
    #[inline]
    pub(crate) unsafe fn of(data: NonNull<u8>) -> Self {
        // SAFETY: the caller guarantees that a guard is in front of `data`, in the same store.
        Self(unsafe { data.sub(GRANULE) }.cast())
    }

    /// Returns the address where the payload starts.
    #[inline]
    pub(crate) fn payload(self) -> NonNull<u8> {
        // SAFETY: a region is at least as long as its guard, so the result is in the store or at
        // its end (G1).
        unsafe { self.0.cast::<u8>().add(GRANULE) }
    }

    #[inline]
    pub(crate) fn addr(self) -> usize {
        self.0.addr().get()
    }

    #[inline]
    fn as_ptr(self) -> *mut Guard {
        self.0.as_ptr()
    }

    /// Creates a guard for a free region of `len` bytes.
    ///
    /// # Safety
    /// The caller is the ring, or creates the ring's store. The `len` bytes from this guard on are
    /// the whole chain, or the end of a free region (C1, C2).
    #[inline]
    pub(crate) unsafe fn create(self, len: usize) {
        // SAFETY: the granule is part of a free region, which only the ring accesses (C2).
        unsafe { unpoison(self.0.cast(), GRANULE) };
        // SAFETY: the granule is in the store, which this pointer may access (G1). No reference is
        // created.
        let word = unsafe { &raw mut (*self.as_ptr()).word };
        // SAFETY: the word is in the granule, which only the ring accesses (C2).
        unsafe { word.write(AtomicUsize::new(Word::free(len).bits())) };
        // SAFETY: the granule is in the store (G1), and no reference is created.
        let check = unsafe { &raw mut (*self.as_ptr()).check };
        // SAFETY: the check is in the granule, which only the ring accesses (C2).
        unsafe { check.write(Check::new()) };
        // SAFETY: the granule is in the store (G1), and no reference is created.
        let witness = unsafe { &raw mut (*self.as_ptr()).witness };
        // SAFETY: the witness is in the granule, which only the ring accesses (C2).
        unsafe { witness.write(Witness::new()) };
        self.check().set(self.addr(), Word::free(len));
    }

    /// Loads the word for the ring or a sweep. If the word says "free", the caller sees all
    /// accesses to the region's previous buffer.
    #[inline]
    pub(crate) fn look(self) -> Word {
        #[cfg(all(test, feature = "std", not(any(ephemera_loom, miri))))]
        LOOKS.with(|looks| looks.set(looks.get() + 1));
        // ORDERING: `look_order`. Pairs with `GuardPtr::release` and with `GuardPtr::settle`.
        let word = Word::from_bits(self.word().load(look_order()));
        self.check().look(self.addr(), word);
        word
    }

    /// Loads the word. Only the thread that may write the word calls this: the owner of the buffer
    /// in a taken region, or the ring for a free region.
    #[inline]
    pub(crate) fn held(self) -> Word {
        Word::from_bits(self.word().load(Ordering::Relaxed))
    }

    /// Changes the length of a free region. Only the ring may call this.
    #[inline]
    pub(crate) fn resize(self, len: usize) {
        self.check().set(self.addr(), Word::free(len));
        self.word().store(Word::free(len).bits(), Ordering::Relaxed);
    }

    /// Marks a free region as taken, with a length of `len` bytes. Only the ring may call this.
    #[inline]
    pub(crate) fn take(self, len: usize) {
        self.witness().write();
        self.check().set(self.addr(), Word::taken(len));
        self.word().store(Word::taken(len).bits(), Ordering::Relaxed);
    }

    /// Frees the taken region of `len` bytes. This is the buffer's last access to the region.
    #[inline]
    pub(crate) fn release(self, len: usize) {
        self.check().set(self.addr(), Word::free(len));
        // ORDERING: `release_order`. Pairs with `GuardPtr::look`.
        self.word().store(Word::free(len).bits(), release_order());
    }

    /// Marks a region of `len` bytes as settled in a closed store. A late release calls this before
    /// it subtracts its share, and the drop of the ring calls this for free regions.
    #[cfg(feature = "alloc")]
    pub(crate) fn settle(self, len: usize) {
        self.check().set(self.addr(), Word::settled(len));
        // ORDERING: `release_order`. Pairs with `GuardPtr::look`. Publishes: the check value.
        self.word().store(Word::settled(len).bits(), release_order());
    }

    /// Records the size of the buffer in this region of `region` bytes, and fills the margin after
    /// the buffer. Does nothing in builds without checks (see `checked`).
    ///
    /// # Safety
    /// The region is taken, its length `region` is `region_of(bytes)`, and only the caller accesses
    /// it.
    #[inline]
    pub(crate) unsafe fn hand_out(self, bytes: usize, region: usize) {
        // SAFETY: only the caller accesses the region. Its payload has `region - GRANULE` bytes,
        // and the buffer is the first `bytes` of them.
        unsafe { self.check().hand_out(self.payload(), bytes, region - GRANULE) };
    }

    /// Tells loom that the buffer uses its payload for the last time. In builds with checks, checks
    /// the guard and the margin of the buffer, which is about to be released. Ends the process if
    /// one of them was overwritten or the buffer was already released.
    ///
    /// # Safety
    /// In builds with checks, [`GuardPtr::hand_out`] was called with the same arguments. Only the
    /// caller accesses the region.
    #[inline]
    pub(crate) unsafe fn end_use(self, bytes: usize, region: usize) {
        let found = || self.held();
        // SAFETY: in builds with checks, `hand_out` was called for this buffer, which starts at the
        // payload. Only the caller accesses the region.
        unsafe { self.check().release(self.addr(), found, Word::taken(region), self.payload(), bytes) };
        self.witness().write();
    }

    /// Returns the requested size of the buffer in this region in builds with checks, and `room` in
    /// other builds.
    #[inline]
    pub(crate) fn asked(self, room: usize) -> usize {
        self.check().asked(room)
    }

    /// Removes the guard of a free region, which the ring is merging into the previous region.
    #[inline]
    pub(crate) fn remove_guard(self) {
        self.witness().end();
        // SAFETY: the region is free, so only the ring accesses its guard (C2), and the ring does
        // not use the guard again.
        unsafe { poison(self.0.cast(), GRANULE) };
    }

    /// Sets the count of handles to one.
    #[inline]
    pub(crate) fn freeze(self) {
        // SAFETY: the store is not freed while this pointer is used (G1), and no reference is
        // created.
        let count = unsafe { &raw mut (*self.as_ptr()).count };
        // SAFETY: the caller has the only handle of the buffer, so no other code accesses the
        // count.
        unsafe { count.write(AtomicUsize::new(1)) };
    }

    /// Adds a handle. Aborts the process if the buffer has more than `usize::MAX / 2` handles.
    #[inline]
    pub(crate) fn add_handle(self) {
        self.witness().touch();
        if self.count().fetch_add(1, Ordering::Relaxed) > usize::MAX / 2 {
            too_many();
        }
    }

    /// Returns whether the caller's handle is the only one. If so, the caller sees all accesses of
    /// the other handles to the buffer.
    #[inline]
    pub(crate) fn is_last(self) -> bool {
        self.witness().touch();
        // ORDERING: `last_order`. Pairs with `GuardPtr::drop_handle`.
        self.count().load(last_order()) == 1
    }

    /// Removes a handle. Returns `true` if it was the last handle. If so, the caller has exclusive
    /// use of the buffer.
    #[inline]
    pub(crate) fn drop_handle(self) -> bool {
        // The only handle does not need a read-modify-write, because no other thread has a handle
        // to clone.
        if self.is_last() {
            return true;
        }
        // ORDERING: `leave_order`. Pairs with `GuardPtr::is_last` and with the load below.
        if self.count().fetch_sub(1, leave_order()) != 1 {
            return false;
        }
        // Several threads saw more than one handle, and the caller was the last of these threads to
        // subtract its handle. This is a load instead of a fence, because some race detectors
        // ignore fences.
        // ORDERING: `after_order`. Pairs with the subtractions of other threads in
        // `GuardPtr::drop_handle`.
        self.count().load(after_order()) == 0
    }
}

/// Aborts the process because a buffer has more than `usize::MAX / 2` handles, which only leaks can
/// cause. The upper half of the range leaves room for handles that other threads add at the same
/// time, so the count does not wrap.
///
/// An `extern "C"` function cannot unwind, so an inlined clone does not need a landing pad, and the
/// compiler can keep handles in registers.
#[cold]
#[inline(never)]
extern "C" fn too_many() -> ! {
    checked::stop(format_args!("a frozen buffer has more than {} handles", usize::MAX / 2))
}
