//! Blocks whose size or alignment exceeds the length of the largest span. Each such block has its
//! own mapping.
//!
//! The length of a mapping follows from the size of its block, so that a free can compute it. There
//! are at most eight lengths for each doubling of the size. A block that grows within one length
//! thus stays where it is, and a freed mapping fits the next block of a similar size. Nothing
//! touches the bytes after the block. They may still hold the content of an earlier block.
//!
//! Slots keep a few freed mappings. A thread claims a slot with a compare-exchange, and skips a
//! slot that another thread has claimed. If the operating system refuses to unmap a mapping, a
//! thread purges its pages and puts the mapping into a slot.

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::superblock::LOOKS;
use super::{budget, os};

/// The number of slots. Each slot keeps at most one freed mapping.
pub(super) const SLOTS: usize = 16;

const EMPTY: usize = 0;
const BUSY: usize = 1;
const FULL: usize = 2;

/// A slot of the cache of freed mappings.
struct Slot {
    state: AtomicUsize,
    block: AtomicPtr<u8>,
    len: AtomicUsize,
    /// The number of the first look that found the mapping, or [`UNSEEN`].
    seen: AtomicUsize,
}

/// The value of `Slot::seen` if no look has found the mapping yet.
const UNSEEN: usize = usize::MAX;

static KEPT: [Slot; SLOTS] = [const { Slot::new() }; SLOTS];

/// The number of searches by [`unmap_one`] so far, which selects the slot in which the next search
/// starts.
static OLDEST: AtomicUsize = AtomicUsize::new(0);

impl Slot {
    const fn new() -> Self {
        Self {
            state: AtomicUsize::new(EMPTY),
            block: AtomicPtr::new(ptr::null_mut()),
            len: AtomicUsize::new(0),
            seen: AtomicUsize::new(UNSEEN),
        }
    }

    /// Claims the slot if it is in this state. Returns whether this call claimed the slot.
    fn claim(&self, state: usize) -> bool {
        // ORDERING: Acquire. Pairs with the Release in `Slot::leave`.
        self.state.compare_exchange(state, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Releases the claim, and leaves the slot in this state.
    fn leave(&self, state: usize) {
        // ORDERING: Release. Pairs with the Acquire in `Slot::claim`. Publishes: the slot's words,
        // and all earlier accesses to the mapping.
        self.state.store(state, Ordering::Release);
    }

    /// Takes the mapping if `suits` accepts its address and length, and returns both. Returns
    /// `None` if the slot has no such mapping, or if another thread has claimed the slot.
    fn take(&self, suits: impl Fn(usize, usize) -> bool) -> Option<(NonNull<u8>, usize)> {
        let seems = suits(self.block.load(Ordering::Relaxed).addr(), self.len.load(Ordering::Relaxed));
        if !seems || self.state.load(Ordering::Relaxed) != FULL || !self.claim(FULL) {
            return None;
        }
        let (block, len) = (self.block.load(Ordering::Relaxed), self.len.load(Ordering::Relaxed));
        let found = NonNull::new(block).filter(|block| suits(block.addr().get(), len));
        self.leave(if found.is_some() { EMPTY } else { FULL });
        Some((found?, len))
    }

    /// Stores a mapping in the slot, if the slot is empty. Returns whether it stored the mapping.
    fn put(&self, block: NonNull<u8>, len: usize) -> bool {
        if self.state.load(Ordering::Relaxed) != EMPTY || !self.claim(EMPTY) {
            return false;
        }
        self.block.store(block.as_ptr(), Ordering::Relaxed);
        self.len.store(len, Ordering::Relaxed);
        self.seen.store(UNSEEN, Ordering::Relaxed);
        self.leave(FULL);
        true
    }
}

impl Slot {
    /// Returns whether the slot has contained its mapping for [`LOOKS`] looks. The first look that
    /// finds a mapping stores its own number, `look`.
    fn is_idle(&self, look: usize) -> bool {
        if self.state.load(Ordering::Relaxed) != FULL {
            return false;
        }
        let seen = self.seen.load(Ordering::Relaxed);
        if seen == UNSEEN {
            self.seen.store(look, Ordering::Relaxed);
        }
        seen != UNSEEN && look.wrapping_sub(seen) >= LOOKS
    }
}

/// Returns the length of the mapping for a block of this size, or `None` if it overflows.
pub(super) const fn len_for(size: usize) -> Option<usize> {
    let eighth = match size.checked_ilog2() {
        Some(log) if log > 3 => 1 << (log - 3),
        _ => 1,
    };
    size.checked_next_multiple_of(if eighth > os::GRAIN { eighth } else { os::GRAIN })
}

/// Allocates a mapping of `len` bytes, aligned to `align`. If `zeroed`, the mapping is always a new
/// one. Returns the mapping, and whether all of its bytes are known to be zero. Returns `None` if
/// the operating system refuses.
pub(super) fn allocate(len: usize, align: usize, zeroed: bool) -> Option<(NonNull<u8>, bool)> {
    if !zeroed {
        let kept = KEPT.iter().find_map(|slot| slot.take(|at, has| has == len && at % align == 0));
        if let Some((block, _)) = kept {
            budget::allocated(len, true);
            return Some((block, false));
        }
    }
    let block = os::map(len, align)?;
    budget::mapped(len);
    budget::allocated(len, false);
    Some((block, true))
}

/// Frees a mapping of `len` bytes: keeps it in a slot, or unmaps it.
///
/// # Safety
/// The mapping came from [`allocate`] or [`resize`] with this length, and nothing uses it any more.
pub(super) unsafe fn free(block: NonNull<u8>, len: usize) {
    let fits = budget::has_room(len);
    // Count before the mapping is in a slot: from then on, another thread may take it.
    budget::freed(len, fits);
    if fits {
        if KEPT.iter().any(|slot| slot.put(block, len)) {
            return;
        }
        budget::uncached(len);
    }
    budget::left(len);
    // SAFETY: the caller gives up the mapping, which is in no slot.
    let _unmapped = unsafe { unmap(block, len) };
}

/// Unmaps one of the kept mappings. Returns `false` if it found none, or one that the operating
/// system refused to unmap.
pub(super) fn unmap_one() -> bool {
    let start = OLDEST.fetch_add(1, Ordering::Relaxed);
    let slots = (0..SLOTS).map(|at| &KEPT[(start + at) % SLOTS]);
    unmap_first(slots)
}

/// Unmaps a mapping that has been in its slot for [`LOOKS`] looks. Returns `false` if it found
/// none, or one that the operating system refused to unmap.
pub(super) fn unmap_idle(look: usize) -> bool {
    unmap_first(KEPT.iter().filter(|slot| slot.is_idle(look)))
}

/// Unmaps the mapping of the first of these slots that contains one. Returns `false` if it found
/// none, or one that the operating system refused to unmap.
fn unmap_first(mut slots: impl Iterator<Item = &'static Slot>) -> bool {
    let Some((block, len)) = slots.find_map(|slot| slot.take(|_, _| true)) else { return false };
    budget::uncached(len);
    // SAFETY: this thread took the mapping out of its slot, so nothing else uses the mapping.
    let unmapped = unsafe { unmap(block, len) };
    if unmapped {
        budget::decayed(len);
    }
    unmapped
}

/// Changes the length of a mapping from `old` to `new` bytes. The mapping may move if `may_move`
/// allows it. The bytes after the old length are zero. Returns the start of the mapping, or returns
/// `None` and leaves the mapping as it is if the operating system refuses or has no such call.
///
/// # Safety
/// The mapping came from [`allocate`] or [`resize`] with length `old` and belongs to the caller.
/// `new` is a multiple of [`os::GRAIN`] and not zero.
pub(super) unsafe fn resize(
    block: NonNull<u8>,
    (old, new): (usize, usize),
    may_move: bool,
) -> Option<NonNull<u8>> {
    // SAFETY: the caller owns the whole mapping, and `new` is a multiple of the grain and not zero.
    let moved = unsafe { os::remap(block, (old, new), may_move) }?;
    if new > old {
        budget::allocated(new - old, false);
        budget::mapped(new - old);
    } else {
        budget::freed(old - new, false);
        budget::unmapped(old - new);
    }
    Some(moved)
}

/// Unmaps a mapping and returns `true`. If the operating system refuses, purges the mapping, puts
/// it into a slot, and returns `false`: a later look or search tries again. If all slots are full,
/// the addresses of the mapping stay in use until the process ends.
///
/// # Safety
/// The `len` bytes are a whole mapping of this module. Nothing uses it any more, and it is in no
/// slot.
unsafe fn unmap(block: NonNull<u8>, len: usize) -> bool {
    // SAFETY: the caller gives up the whole mapping.
    if unsafe { os::unmap(block, len) } {
        budget::unmapped(len);
        return true;
    }
    // SAFETY: the caller gives up the mapping. If the system refuses this call too, the pages stay.
    let _ = unsafe { os::purge(block, len) };
    // Count before the mapping is in a slot: from then on, another thread may take it.
    budget::cached_again(len);
    if !KEPT.iter().any(|slot| slot.put(block, len)) {
        budget::uncached(len);
    }
    false
}
