//! Allocates and frees blocks: chooses between a span and a mapping, and decides which memory
//! leaves the cache.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::bounds::SPAN_MIN;
use super::order::{ORDERS, Order};
use super::span::Span;
use super::span_cache::SpanCache;
use super::table::{TABLES, Table};
use super::{budget, mapping, os};

/// The smallest supported page size, in bytes. A moved mapping has at least this alignment.
const PAGE: usize = 4 << 10;

/// The number of cached spans or mappings that a free may purge or unmap while the cache exceeds
/// its bound. A free of a large block may purge or unmap more of them ([`shed_excess`]).
const PURGES: usize = 2;
/// The number of calls of [`shed`] in a row that may fail before [`shed_while`] gives up. One call
/// visits a few directories of each table, tries to purge at most one span of each, and may unmap a
/// mapping.
const MISSES: usize = 64;

/// The number of searches for cached memory so far, which selects the table, or the mappings, where
/// the next search starts.
static HAND: AtomicUsize = AtomicUsize::new(0);

/// The number of looks for unused memory so far.
static LOOKS: AtomicUsize = AtomicUsize::new(0);

/// Allocates a block, and returns it and whether all of its bytes are known to be zero.
///
/// If the operating system refuses, the function purges and unmaps all cached memory, and tries
/// again. If that also fails, it returns `None`.
pub(super) fn allocate(layout: Layout, zeroed: bool) -> Option<(NonNull<u8>, bool)> {
    let block = allocate_once(layout, zeroed).or_else(|| {
        purge();
        allocate_once(layout, zeroed)
    });
    if budget::event() {
        shed_one();
    }
    block
}

fn allocate_once(layout: Layout, zeroed: bool) -> Option<(NonNull<u8>, bool)> {
    let Some(order) = Order::of(layout) else {
        return mapping::allocate(mapping::len_for(layout.size())?, layout.align(), zeroed);
    };
    let table = &TABLES[order.index()];
    // A request for zeros prefers a clean span, whose bytes are often zero already.
    if let Some((span, dirty)) = table.take(zeroed) {
        budget::allocated(span.len(), dirty);
        return Some((span.start(), !dirty && os::PURGED_IS_ZERO));
    }
    let span = table.take_fresh()?;
    budget::allocated(span.len(), false);
    Some((span.start(), true))
}

/// Frees a block.
///
/// # Safety
/// `block` is a live block of this layout from [`allocate`], and nothing uses it any more.
pub(super) unsafe fn free(block: NonNull<u8>, layout: Layout) {
    // SAFETY: the caller owns the block, so its span is not freed during the call.
    let len = match unsafe { Span::at(block) } {
        Some(span) => {
            let len = span.len();
            // SAFETY: the caller gives up the span.
            unsafe { free_span(span) };
            len
        }
        None => {
            let len = mapping::len_for(layout.size()).unwrap_or(0);
            // SAFETY: the caller gives up the block. Without a span, it is a mapping, whose length
            // follows from its size.
            unsafe { mapping::free(block, len) };
            len
        }
    };
    if budget::event() {
        shed_one();
    }
    shed_excess(len);
}

/// Purges cached spans and unmaps cached mappings while the cache exceeds its bound, after `freed`
/// bytes ceased to be in use. The bound has fallen by at most an eighth of these bytes, and each
/// purge may lower the rise of the bound. So the function purges or unmaps up to one span or
/// mapping for each [`SPAN_MIN`] by which the bound has fallen or may fall, or up to [`PURGES`] if
/// this number is larger.
fn shed_excess(freed: usize) {
    let fallen = if weakened!("large_frees_purge_little") { 0 } else { freed / budget::SHARE };
    let rise = if fallen > PURGES * SPAN_MIN { budget::rise() } else { 0 };
    let times = fallen.saturating_add(rise).div_ceil(SPAN_MIN).max(PURGES);
    shed_while(times, || !budget::has_room(0));
}

/// Calls [`shed`] up to `times` times, while `is_needed` returns `true`. Gives up after more than
/// [`MISSES`] calls in a row that do not make the cache smaller.
fn shed_while(times: usize, is_needed: impl Fn() -> bool) {
    let mut misses = 0;
    for _ in 0..times {
        if !is_needed() || misses > MISSES {
            return;
        }
        misses = if shed() { 0 } else { misses + 1 };
    }
}

/// Frees a span, and purges it first if the cache does not have room for it.
///
/// # Safety
/// The caller owns the span and nothing uses it any more.
unsafe fn free_span(span: Span) {
    let len = span.len();
    // SAFETY: the caller owns the span, and nothing needs its content.
    let purged = !budget::has_room(len) && unsafe { span.purge() };
    // Count before the free: as soon as the span is free, another thread may take it.
    if purged {
        budget::left(len);
    }
    budget::freed(len, !purged);
    span.give(!purged);
}

/// Frees the spans that start at these addresses.
///
/// # Safety
/// The caller owns each span that the iterator returns, and nothing uses that span any more.
unsafe fn free_starts(starts: impl Iterator<Item = NonNull<u8>>) {
    for start in starts {
        // SAFETY: the caller owns the span, so it is not freed during the call.
        if let Some(span) = unsafe { Span::at(start) } {
            // SAFETY: the caller gives up the span.
            unsafe { free_span(span) };
        }
    }
}

impl SpanCache {
    /// Frees all spans of the cache, so that any thread can allocate them.
    pub fn clear(&self) {
        // SAFETY: each span was in a place, so this thread owns it now (G5).
        unsafe { free_starts(self.steal_all()) };
    }
}

/// Looks for unused memory. Purges at most one span, or unmaps or purges at most one mapping, of
/// the process's cache. Also frees unused spans of one thread's own cache.
#[cold]
pub(super) fn shed_one() {
    let look = LOOKS.fetch_add(1, Ordering::Relaxed);
    if budget::any_cached() || mapping::any_purged() {
        search(look, |table| table.take_idle(look), || mapping::unmap_idle(look));
    }
    // SAFETY: each span was in a place, so this thread owns it now (G5).
    unsafe { free_starts(SpanCache::look()) };
}

/// Searches all tables and the mappings for cached memory, until a span that `take` takes from a
/// table is purged, or `unmap` returns `true`. Returns whether this happened. `start` is the number
/// of the search, which selects the table, or the mappings, where the search starts.
fn search(start: usize, take: impl Fn(&'static Table) -> Option<Span>, unmap: impl Fn() -> bool) -> bool {
    let mut turns = (0..=ORDERS).map(|turn| start.wrapping_add(turn) % (ORDERS + 1));
    turns.any(|turn| match TABLES.get(turn) {
        Some(table) => take(table).is_some_and(purge_span),
        // Turns below `ORDERS` are for the tables, and turn `ORDERS` is for the mappings.
        None => unmap(),
    })
}

/// Purges a cached span, or unmaps or purges a cached mapping. Returns whether this call made the
/// cache smaller.
fn shed() -> bool {
    search(HAND.fetch_add(1, Ordering::Relaxed), Table::take_dirty, mapping::unmap_one)
}

/// Purges cached spans and unmaps cached mappings, until the cache has shrunk by this number of
/// bytes or [`shed_while`] gives up. Calls [`shed`] at most once for each [`SPAN_MIN`] bytes.
pub(super) fn shed_bytes(bytes: usize) {
    let cached = || budget::now().1;
    let bytes = bytes.min(cached());
    let rest = cached().saturating_sub(bytes);
    shed_while(bytes.div_ceil(SPAN_MIN), || cached() > rest);
}

/// Purges and frees a cached span that the calling thread took out of the cache. If the system
/// refuses, frees the span unpurged, and unmaps its superblock if all spans of the superblock are
/// free. Returns whether the purge or the unmapping worked.
fn purge_span(span: Span) -> bool {
    // SAFETY: the span was free, and this thread owns it now.
    let purged = unsafe { span.purge() };
    if purged {
        budget::uncached(span.len());
        budget::decayed(span.len());
        span.give(false);
    }
    purged || span.give_unpurged()
}

/// Purges and unmaps all memory that the process and its threads cache.
///
/// The empty superblocks are unmapped first, so that their spans need not be purged individually.
/// Unmapping also works if the operating system refuses to purge some of these spans.
pub(super) fn purge() {
    if !weakened!("purge_leaves_threads") {
        SpanCache::listed().for_each(SpanCache::clear);
    }
    for _ in 0..mapping::SLOTS {
        mapping::unmap_one();
    }
    for table in &TABLES {
        table.unmap_empty();
        table.each_dirty(purge_span);
    }
    budget::forget();
}

/// Purges the last whole pages of a live block, which start at `start` or later.
///
/// # Safety
/// The contract is that of [`purge_tail`](super::purge_tail).
pub(super) unsafe fn purge_tail(start: NonNull<u8>, len: usize) {
    // SAFETY: the block that contains `start` stays live, so its span is not freed during the call,
    // and the base of the superblock does not change (G2).
    let span = unsafe { Span::at(start) };
    // A block in a span owns the whole span, including the rest of the block's last page.
    let len = span.map_or(len, |span| span.start().addr().get() + span.len() - start.addr().get());
    let Some((pages, len)) = os::whole_pages(start, len) else { return };
    if let Some(span) = span {
        span.forgo_huge_pages();
    }
    // SAFETY: the pages are in a live block, and the caller does not need their content.
    let _ = unsafe { os::purge(pages, len) };
}

/// Returns whether a block has the alignment of a layout.
#[inline]
fn is_aligned(block: NonNull<u8>, layout: Layout) -> bool {
    block.addr().get() & (layout.align() - 1) == 0
}

/// Returns whether a block has the alignment of a layout and is in a span that has room for it. If
/// the caller does not own the block, the answer may be out of date.
#[inline]
pub(super) fn has_room(block: NonNull<u8>, new: Layout) -> bool {
    is_aligned(block, new) && Span::order_at(block).is_some_and(|order| new.size() <= order.span())
}

/// Grows a block that has its own mapping, which may move. Returns the block, and an offset: the
/// bytes of the block from this offset to `new.size()` are zero. Returns `None` if the block is in
/// a span or if the mapping cannot grow.
///
/// # Safety
/// `block` is a live block of layout `old` from [`allocate`]. `new` is not smaller.
pub(super) unsafe fn grow(block: NonNull<u8>, old: Layout, new: Layout) -> Option<(NonNull<u8>, usize)> {
    let aligned = is_aligned(block, new);
    if Span::order_at(block).is_some() {
        return None;
    }
    let lens = (mapping::len_for(old.size())?, mapping::len_for(new.size())?);
    if aligned && lens.0 == lens.1 {
        return Some((block, new.size()));
    }
    if !aligned && new.align() > PAGE {
        return None;
    }
    // SAFETY: the caller's block has no span, so it is a mapping, whose length follows from its
    // size. `len_for` returns multiples of the grain, and `new` is not empty.
    let moved = unsafe { mapping::resize(block, lens, new.align() <= PAGE) }?;
    Some((moved, lens.0))
}

/// Shrinks a block in place. Returns `false`, and leaves the block unchanged, if that is
/// impossible.
///
/// # Safety
/// `block` is a live block of layout `old` from [`allocate`]. `new` is not larger and not of size
/// zero.
pub(super) unsafe fn shrink(block: NonNull<u8>, old: Layout, new: Layout) -> bool {
    if !is_aligned(block, new) {
        return false;
    }
    if Span::order_at(block).is_some() {
        return true;
    }
    let lens = (mapping::len_for(old.size()), mapping::len_for(new.size()));
    let (Some(old), Some(new)) = lens else { return false };
    if old == new {
        return true;
    }
    // SAFETY: the caller's block has no span, so it is a mapping, whose length follows from its
    // size. `len_for` returns multiples of the grain, and `new` is not zero.
    let shrunk = unsafe { mapping::resize(block, (old, new), false) }.is_some();
    if shrunk {
        shed_excess(old - new);
    }
    shrunk
}

/// Returns whether a block that shrinks to `new` should move: whether a span can serve `new`, and
/// the block has a larger span or its own mapping. If the caller does not own the block, the answer
/// may be out of date.
pub(super) fn better_moved(block: NonNull<u8>, new: Layout) -> bool {
    let Some(needed) = Order::of(new) else { return false };
    Span::order_at(block).is_none_or(|order| order.span() > needed.span())
}
