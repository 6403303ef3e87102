//! A superblock: one mapping of up to 64 spans of one size. One word tells which spans are free,
//! and another word tells which are dirty. A dirty span may hold old bytes.
//!
//! # Invariants
//!
//! * **G1** If a bit of `free` is set, the superblock is open and no thread uses the bit's span. A
//!   thread that clears the bit owns the span, and only the owner sets the bit again.
//! * **G2** `base` changes only while all bits of `free` are clear and no other thread owns a span.
//!   This is the case before [`Superblock::open`] sets the bits, and after [`Superblock::close`]
//!   has cleared all of them at once. The owner of a span therefore reads the base of the span's
//!   own mapping.
//! * **G3** A free span whose bit of `dirty` is clear has not been written since it was mapped or
//!   purged. Only the span's owner changes the bit.

use core::ptr;

use crate::sync::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

// ORDERING: Acquire. Pairs with the Release in `Superblock::give`, `Superblock::open` and
// `Superblock::reopen`: the new owner sees the base, the dirty bit, and the last owner's accesses
// to the span.
ordering!(take_order = Acquire, Relaxed if "span_take_relaxed");
// ORDERING: Release. Pairs with the Acquire in `Superblock::take` and in `Superblock::close`.
// Publishes: this owner's accesses to the span, and the span's dirty bit.
ordering!(give_order = Release, Relaxed if "span_give_relaxed");
// ORDERING: Acquire. Pairs with the Release in `Superblock::give` and `Superblock::reopen`: the
// thread that unmaps the superblock sees all accesses to its spans.
ordering!(close_order = Acquire, Relaxed if "superblock_close_relaxed");

/// The number of looks after which a cached span or mapping may leave the cache, if no thread has
/// taken it by then.
pub(super) const LOOKS: usize = 16;

/// A span that the calling thread has just taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TakenSpan {
    pub(crate) index: u32,
    /// Whether the span may hold old bytes.
    pub(crate) dirty: bool,
    /// Whether the span was the last free one of the superblock.
    pub(crate) last: bool,
}

/// The words of a superblock. They are never freed, even when the superblock is unmapped.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Superblock {
    free: AtomicU64,
    dirty: AtomicU64,
    /// The bits of the spans that were cached at the look numbered `looked` and have not been taken
    /// since. This word is a hint.
    idle: AtomicU64,
    /// The number of the last look that wrote `idle`.
    looked: AtomicUsize,
    /// Whether a thread has already asked the system not to use huge pages for the mapping.
    small_pages: AtomicBool,
    base: AtomicPtr<u8>,
}

impl Superblock {
    crate::const_unless_loom! {
        /// Creates the words of a superblock that is not mapped.
        pub(crate) fn new() -> Self {
            Self {
                free: AtomicU64::new(0),
                dirty: AtomicU64::new(0),
                idle: AtomicU64::new(0),
                looked: AtomicUsize::new(0),
                small_pages: AtomicBool::new(false),
                base: AtomicPtr::new(ptr::null_mut()),
            }
        }
    }

    /// Returns the address of the mapping. The answer may be out of date, unless the caller owns a
    /// span of the mapping (G2).
    #[inline]
    pub(crate) fn base(&self) -> *mut u8 {
        self.base.load(Ordering::Relaxed)
    }

    /// Returns whether the caller must ask the system not to use huge pages for the mapping:
    /// whether this is the first call since the superblock opened. The caller owns a span of the
    /// mapping.
    pub(crate) fn begins_small_pages(&self) -> bool {
        !self.small_pages.load(Ordering::Relaxed) && !self.small_pages.swap(true, Ordering::Relaxed)
    }

    /// Returns whether a span is free. The answer may be out of date.
    pub(crate) fn has_free(&self) -> bool {
        self.free.load(Ordering::Relaxed) != 0
    }

    /// Returns whether a free span has old bytes. The answer may be out of date.
    pub(crate) fn has_free_dirty(&self) -> bool {
        self.free.load(Ordering::Relaxed) & self.dirty.load(Ordering::Relaxed) != 0
    }

    /// Returns the number of spans whose dirty bit is set. The answer may be out of date.
    pub(crate) fn dirty_spans(&self) -> usize {
        self.dirty.load(Ordering::Relaxed).count_ones() as usize
    }

    /// Opens the superblock over a fresh mapping at `base`. The spans whose bits are set in `all`
    /// are then free, and the caller owns the others.
    ///
    /// The superblock must not be open, and no other thread may open or close it during the call.
    pub(crate) fn open(&self, base: *mut u8, all: u64) {
        self.dirty.store(0, Ordering::Relaxed);
        self.small_pages.store(false, Ordering::Relaxed);
        self.base.store(base, Ordering::Relaxed);
        // ORDERING: Release. Pairs with the Acquire in `Superblock::take`. Publishes: the base, and
        // that no span is dirty.
        self.free.store(all, Ordering::Release);
    }

    /// Takes a free span, or returns `None` if there is none. If `clean`, prefers a span that
    /// nothing has written since it was mapped or purged. Otherwise prefers a span with old bytes,
    /// whose pages may be resident already.
    pub(crate) fn take(&self, clean: bool) -> Option<TakenSpan> {
        self.take_of(|free, dirty| {
            let wanted = if clean { free & !dirty } else { free & dirty };
            if wanted == 0 { free } else { wanted }
        })
    }

    /// Takes the first free span with old bytes, from index `from` on. Returns `None` if there is
    /// none. The taken span is clean if another thread used and purged it during the call.
    pub(crate) fn take_dirty(&self, from: u32) -> Option<TakenSpan> {
        let after = u64::MAX.checked_shl(from)?;
        self.take_of(|free, dirty| free & dirty & after)
    }

    /// Takes the first of the spans that `choose` selects, or returns `None` if it selects none.
    /// The arguments of `choose` are the bits of all free spans and of all spans with old bytes.
    #[inline]
    fn take_of(&self, choose: impl Fn(u64, u64) -> u64) -> Option<TakenSpan> {
        let mut free = self.free.load(Ordering::Relaxed);
        loop {
            let choice = choose(free, self.dirty.load(Ordering::Relaxed));
            if choice == 0 {
                return None;
            }
            match self.take_first(free, choice) {
                Ok(taken) => return Some(taken),
                Err(now) => free = now,
            }
        }
    }

    /// Takes a span that has been cached without use for at least [`LOOKS`] looks. If there is
    /// none, marks the cached spans in `idle` and returns `None`. Also returns `None` if the marks
    /// are less than [`LOOKS`] looks old, or if the exchange fails. The looks of the process are
    /// numbered, and `look` is the current one.
    pub(crate) fn take_idle(&self, look: usize) -> Option<TakenSpan> {
        if look.wrapping_sub(self.looked.load(Ordering::Relaxed)) < LOOKS {
            return None;
        }
        let free = self.free.load(Ordering::Relaxed);
        let cached = free & self.dirty.load(Ordering::Relaxed);
        let idle = if weakened!("used_spans_leave") { u64::MAX } else { self.idle.load(Ordering::Relaxed) };
        let choice = cached & idle;
        if choice == 0 || weakened!("idle_spans_stay") {
            self.idle.store(cached, Ordering::Relaxed);
            self.looked.store(look, Ordering::Relaxed);
            return None;
        }
        // If the exchange fails, a later look tries again.
        self.take_first(free, choice).ok()
    }

    /// Takes the first span of `choice`, a subset of the bits in `free`. `free` is the value that
    /// the caller loaded. If the exchange fails, returns the word's current value as the error.
    #[inline]
    fn take_first(&self, free: u64, choice: u64) -> Result<TakenSpan, u64> {
        let index = choice.trailing_zeros();
        let rest = free & !(1 << index);
        // ORDERING: `take_order`. Pairs with `Superblock::give`, `Superblock::open` and
        // `Superblock::reopen`.
        self.free.compare_exchange_weak(free, rest, take_order(), Ordering::Relaxed)?;
        self.mark_used(1 << index);
        // Read `dirty` again: the caller's load may be older than the exchange.
        let dirty = self.dirty.load(Ordering::Relaxed) & (1 << index) != 0;
        Ok(TakenSpan { index, dirty, last: rest == 0 })
    }

    /// Clears the `idle` bit of a span that was just taken. If a look marks the span at the same
    /// time, the mark may remain, and one later look may purge the span too early.
    #[inline]
    fn mark_used(&self, bit: u64) {
        if self.idle.load(Ordering::Relaxed) & bit != 0 && !weakened!("idle_hint_stays") {
            self.idle.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// Frees a span that the caller owns, and returns whether all spans of `all` are free now.
    /// `dirty` says whether the span may hold old bytes. Another thread may have unmapped the
    /// superblock when this returns.
    pub(crate) fn give(&self, index: u32, dirty: bool, all: u64) -> bool {
        let bit = 1 << index;
        if dirty {
            self.dirty.fetch_or(bit, Ordering::Relaxed);
        } else {
            self.dirty.fetch_and(!bit, Ordering::Relaxed);
        }
        // ORDERING: `give_order`. Pairs with `Superblock::take` and `Superblock::close`.
        let before = self.free.fetch_or(bit, give_order());
        crate::invariant!(before & bit == 0, "a span is freed twice");
        before | bit == all
    }

    /// Closes the superblock if all of its spans are free. Returns the mapping and the number of
    /// dirty spans, or `None` if a span is not free. After the superblock has closed, the caller
    /// must unmap the mapping or reopen the superblock.
    pub(crate) fn close(&self, all: u64) -> Option<(*mut u8, usize)> {
        // ORDERING: `close_order`. Pairs with `Superblock::give` and `Superblock::reopen`.
        self.free.compare_exchange(all, 0, close_order(), Ordering::Relaxed).ok()?;
        Some((self.base(), self.dirty_spans()))
    }

    /// Reopens a superblock that the caller has just closed, with the same dirty spans.
    pub(crate) fn reopen(&self, all: u64) {
        // ORDERING: Release. Pairs with `Superblock::take` and `Superblock::close`. Publishes: the
        // writes that the last owners of the spans published to this thread.
        self.free.store(all, Ordering::Release);
    }
}
