//! Blocks whose size or alignment exceeds the length of the largest span. Each such block has its
//! own mapping.
//!
//! The length of a mapping follows from the size of its block, so that a free can compute it. There
//! are at most eight lengths for each doubling of the size. A block that grows within one length
//! thus stays where it is, and a freed mapping fits the next block of a similar size. Nothing
//! touches the bytes after the block. They may still hold the content of an earlier block.
//!
//! Slots keep a few freed mappings. A thread claims a slot with a compare-exchange, and skips a
//! slot that another thread has claimed. If the operating system refuses to unmap a mapping, the
//! thread purges the mapping and puts it into a slot. A mapping in a slot does not count as cached
//! once it is purged.

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::superblock::LOOKS;
use super::{budget, os};

/// The number of slots. Each slot keeps at most one freed mapping.
pub(super) const SLOTS: usize = 16;

const EMPTY: usize = 0;
const BUSY: usize = 1;
/// The slot has a mapping whose pages may be resident.
const CACHED: usize = 2;
/// The slot has a mapping that was purged because the operating system refused to unmap it.
const PURGED: usize = 3;

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
static HAND: AtomicUsize = AtomicUsize::new(0);

impl Slot {
    const fn new() -> Self {
        Self {
            state: AtomicUsize::new(EMPTY),
            block: AtomicPtr::new(ptr::null_mut()),
            len: AtomicUsize::new(0),
            seen: AtomicUsize::new(UNSEEN),
        }
    }

    /// Returns the state if the slot has a mapping.
    fn full(&self) -> Option<usize> {
        Some(self.state.load(Ordering::Relaxed)).filter(|state| matches!(*state, CACHED | PURGED))
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

    /// Takes the mapping if `suits` accepts its address and length. Returns its address, its
    /// length, and whether it counts as cached. Returns `None` if the slot has no such mapping, or
    /// if another thread has claimed the slot.
    fn take(&self, suits: impl Fn(usize, usize) -> bool) -> Option<(NonNull<u8>, usize, bool)> {
        let seems = suits(self.block.load(Ordering::Relaxed).addr(), self.len.load(Ordering::Relaxed));
        let state = self.full().filter(|state| seems && self.claim(*state))?;
        let (block, len) = (self.block.load(Ordering::Relaxed), self.len.load(Ordering::Relaxed));
        let found = NonNull::new(block).filter(|block| suits(block.addr().get(), len));
        self.leave(if found.is_some() { EMPTY } else { state });
        Some((found?, len, state == CACHED))
    }

    /// Stores a mapping in the slot, if the slot is empty. `state` is [`CACHED`] or [`PURGED`].
    /// Returns whether it stored the mapping.
    fn put(&self, block: NonNull<u8>, len: usize, state: usize) -> bool {
        if self.state.load(Ordering::Relaxed) != EMPTY || !self.claim(EMPTY) {
            return false;
        }
        self.block.store(block.as_ptr(), Ordering::Relaxed);
        self.len.store(len, Ordering::Relaxed);
        self.seen.store(UNSEEN, Ordering::Relaxed);
        self.leave(state);
        true
    }

    /// Returns whether the slot has contained its mapping for [`LOOKS`] looks. The first look that
    /// finds a mapping stores its own number, `look`.
    fn is_idle(&self, look: usize) -> bool {
        if self.full().is_none() {
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
pub(super) fn len_for(size: usize) -> Option<usize> {
    let eighth = 1 << size.max(1).ilog2().saturating_sub(3);
    size.checked_next_multiple_of(os::GRAIN.max(eighth))
}

/// Allocates a mapping of `len` bytes, aligned to `align`. If `zeroed`, the mapping is always a new
/// one. Returns the mapping, and whether all of its bytes are known to be zero. Returns `None` if
/// the operating system refuses.
pub(super) fn allocate(len: usize, align: usize, zeroed: bool) -> Option<(NonNull<u8>, bool)> {
    if !zeroed {
        let kept = KEPT.iter().find_map(|slot| slot.take(|at, has| has == len && at % align == 0));
        if let Some((block, _, was_cached)) = kept {
            budget::allocated(len, was_cached);
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
        if KEPT.iter().any(|slot| slot.put(block, len, CACHED)) {
            return;
        }
        budget::uncached(len);
    }
    // SAFETY: the caller gives up the mapping, which is in no slot.
    if unsafe { give_up(block, len) } {
        budget::left(len);
    }
}

/// Unmaps or purges one of the kept mappings. Returns whether this call made the cache smaller.
pub(super) fn unmap_one() -> bool {
    let start = HAND.fetch_add(1, Ordering::Relaxed);
    let slots = (0..SLOTS).map(|at| &KEPT[(start + at) % SLOTS]);
    unmap_first(slots).unwrap_or(false)
}

/// Returns whether a slot has a mapping that was purged.
pub(super) fn any_purged() -> bool {
    KEPT.iter().any(|slot| slot.state.load(Ordering::Relaxed) == PURGED)
}

/// Unmaps or purges a mapping that has been in its slot for [`LOOKS`] looks. Returns whether it
/// found one.
pub(super) fn unmap_idle(look: usize) -> bool {
    unmap_first(KEPT.iter().filter(|slot| slot.is_idle(look))).is_some()
}

/// Takes the first mapping that these slots contain, and unmaps or purges it. Returns whether this
/// call made the cache smaller, or `None` if no slot contains a mapping.
fn unmap_first(mut slots: impl Iterator<Item = &'static Slot>) -> Option<bool> {
    let (block, len, was_cached) = slots.find_map(|slot| slot.take(|_, _| true))?;
    if was_cached {
        budget::uncached(len);
    }
    // SAFETY: this thread took the mapping out of its slot, so nothing else uses the mapping.
    let left = unsafe { give_up(block, len) } && was_cached;
    if left {
        budget::decayed(len);
    }
    Some(left)
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

/// Unmaps a mapping. If the operating system refuses, purges the mapping and puts it into a slot: a
/// later look or search tries again. If all slots are full, the addresses of the mapping stay in
/// use until the process ends, and so do its pages if the system refused the purge too. Returns
/// whether the pages of the mapping have left the process.
///
/// # Safety
/// The `len` bytes are a whole mapping of this module. Nothing uses it any more, it is in no slot,
/// and it does not count as cached.
unsafe fn give_up(block: NonNull<u8>, len: usize) -> bool {
    // SAFETY: the caller gives up the whole mapping.
    if unsafe { os::unmap(block, len) } {
        budget::unmapped(len);
        return true;
    }
    // SAFETY: the caller gives up the mapping, whose content is not needed.
    let purged = unsafe { os::purge(block, len) };
    let state = if purged { PURGED } else { CACHED };
    // Count before the mapping is in a slot: from then on, another thread may take it.
    if !purged {
        budget::cached_again(len);
    }
    if !KEPT.iter().any(|slot| slot.put(block, len, state)) && !purged {
        budget::uncached(len);
    }
    purged
}
