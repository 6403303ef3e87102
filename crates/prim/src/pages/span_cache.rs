//! A thread's own cache of freed spans, for its next allocations of the same span length.
//!
//! All threads share the superblocks of a span length, so an allocation or a free there takes
//! several atomic read-modify-writes. A thread that frees and allocates spans of 64 to 256 KiB uses
//! the *places* of its own cache instead. An allocation and a free together then need only one
//! atomic read-modify-write, an exchange.
//!
//! ```text
//!   64 KiB    | span | span |      |      |      four places
//!   128 KiB   | span |      |                    two places
//!   256 KiB   |      |                           one place
//! ```
//!
//! A block that grows is likely to grow again, so it takes a span of twice the necessary length if
//! the cache contains one. The next growth then does not move the block. A thread may give this
//! *room* to [`ROOMS`] blocks. When the thread grows a block into its room, or frees a block with
//! room, it may give room to one more block. Without a bound, the blocks of a program could take
//! almost four times their size.
//!
//! Other threads can take spans out of the cache, so a sleeping thread does not keep them resident.
//! After every 64th allocation or free, the process looks at one cache. For each length that the
//! owner has not used since the last look, the look moves one span to the cache of the process. The
//! process may purge this span at once or later.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::order::{ORDERS, Order};
use super::span_place::SpanPlace;
use super::{PermanentLink, budget};
use crate::word::OwnerUsize;

/// The index of the smallest order that a thread keeps: spans of 64 KiB, because `typed-pool`
/// serves blocks of up to 32 KiB from its size classes.
const FIRST: usize = 1;
/// The number of places for each of the orders that a thread keeps, the largest number first.
const PLACES: [usize; 3] = [4, 2, 1];

/// The largest value of `SpanCache::rooms`, which is also its initial value.
const ROOMS: usize = 4;

/// The largest number of bytes that one thread keeps.
const KEPT_MAX: usize = kept_max(0) + kept_max(1) + kept_max(2);

/// Returns the largest number of bytes that one thread keeps in the spans of one order.
const fn kept_max(index: usize) -> usize {
    PLACES[index] * Order::ALL[FIRST + index].span()
}

const _: () = assert!(PLACES.len() == 3, "`KEPT_MAX` counts three orders");
const _: () = assert!(FIRST + PLACES.len() <= ORDERS, "the orders exist");

/// The places for spans of one order.
#[derive(Debug)]
struct KeptSpans {
    /// As many places as the first order has. The other orders use a part of them.
    places: [SpanPlace; PLACES[0]],
    /// The number of times that the owner took or kept a span.
    uses: OwnerUsize,
    /// The value of `uses` that the last look at this cache found.
    seen: AtomicUsize,
}

/// A thread's own cache of freed spans.
///
/// The cache belongs to one thread at a time, for example to the holder of the record that contains
/// it. A new owner must see the writes of the last owner.
#[derive(Debug)]
pub struct SpanCache {
    orders: [KeptSpans; PLACES.len()],
    /// The number of further blocks that may get room.
    rooms: OwnerUsize,
    /// The cache that was listed before this one.
    next: PermanentLink<Self>,
    /// 1 if the cache is on the list, and 0 otherwise.
    listed: OwnerUsize,
}

/// The list of the caches of all threads that have tried to keep a span, the newest first. A cache
/// never leaves the list.
static LISTED: PermanentLink<SpanCache> = PermanentLink::new();

/// The cache that the next look visits. If the link is empty, the look visits the newest cache.
static HAND: PermanentLink<SpanCache> = PermanentLink::new();

impl KeptSpans {
    const fn new() -> Self {
        Self {
            places: [const { SpanPlace::new() }; PLACES[0]],
            uses: OwnerUsize::new(0),
            seen: AtomicUsize::new(0),
        }
    }

    /// Counts a use. Returns `true` at every [`budget::DECAY`]th use: the caller must then look for
    /// unused memory.
    #[inline]
    fn count(&self) -> bool {
        self.uses.add(1) % budget::DECAY == 0
    }

    /// Takes a span if the owner has not used this order since the last look at the cache. Returns
    /// `None` otherwise, or if there is no span.
    fn steal_unused(&self) -> Option<NonNull<u8>> {
        let uses = self.uses.get();
        let is_unused = self.seen.swap(uses, Ordering::Relaxed) == uses;
        if !is_unused || weakened!("unused_spans_stay") {
            return None;
        }
        self.places.iter().find_map(SpanPlace::steal)
    }
}

impl SpanCache {
    /// Creates an empty cache.
    pub const fn new() -> Self {
        Self {
            orders: [const { KeptSpans::new() }; PLACES.len()],
            rooms: OwnerUsize::new(ROOMS),
            next: PermanentLink::new(),
            listed: OwnerUsize::new(0),
        }
    }

    /// Takes a span of this order, which may hold old bytes. Returns the span, and whether the
    /// caller must look for unused memory. Returns `None` if the cache has no such span.
    ///
    /// # Safety
    /// The cache belongs to the calling thread.
    #[inline]
    pub(super) unsafe fn take(&self, order: Order) -> Option<(NonNull<u8>, bool)> {
        let index = order.index().wrapping_sub(FIRST);
        let kept = self.orders.get(index)?;
        let span = kept.places[..PLACES[index]].iter().find_map(SpanPlace::take)?;
        Some((span, kept.count()))
    }

    /// Takes a span of the next order for a block of this order that grows. Returns `None` if the
    /// cache contains no such span, if threads do not keep spans of this order, or if the thread
    /// may not give room to another block.
    ///
    /// # Safety
    /// The cache belongs to the calling thread.
    #[inline]
    pub(super) unsafe fn take_room(&self, order: Order) -> Option<(NonNull<u8>, bool)> {
        let rooms = self.rooms.get();
        if order.index() < FIRST || rooms == 0 && !weakened!("rooms_have_no_bound") {
            return None;
        }
        // SAFETY: the caller owns the cache.
        let taken = unsafe { self.take(order.next()?) }?;
        self.rooms.set(rooms.saturating_sub(1));
        Some(taken)
    }

    /// Allows the thread to give room to one more block, up to [`ROOMS`] blocks. The caller has
    /// grown a block into its room, or frees a block that has room.
    ///
    /// # Safety
    /// The cache belongs to the calling thread.
    #[inline]
    pub(super) unsafe fn end_room(&self) {
        self.rooms.set((self.rooms.get() + 1).min(ROOMS));
    }

    /// Keeps a freed span of this order, and returns whether the caller must look for unused
    /// memory. Returns `None`, without keeping the span, if threads do not keep spans of this
    /// order, if the order has no empty place, or if [`budget::least`] is less than [`KEPT_MAX`].
    ///
    /// # Safety
    /// The cache belongs to the calling thread, and the calling thread owns the span. Unless this
    /// returns `None`, the thread does not use the span after this call.
    #[inline]
    pub(super) unsafe fn keep(&'static self, order: Order, span: NonNull<u8>) -> Option<bool> {
        let index = order.index().wrapping_sub(FIRST);
        let kept = self.orders.get(index)?;
        let place = kept.places[..PLACES[index]].iter().find(|place| place.is_empty())?;
        if self.listed.get() == 0 {
            self.list();
        }
        if budget::least() < KEPT_MAX {
            return None;
        }
        place.put(span);
        Some(kept.count())
    }

    /// Adds the cache to the list that other threads read.
    #[cold]
    fn list(&'static self) {
        self.listed.set(1);
        LISTED.push(self, &self.next);
    }

    /// Returns the caches of all threads that have tried to keep a span.
    pub(super) fn listed() -> impl Iterator<Item = &'static Self> {
        LISTED.list(|cache| &cache.next)
    }

    /// Returns an iterator that takes all spans out of the cache. Any thread may call this.
    pub(super) fn steal_all(&self) -> impl Iterator<Item = NonNull<u8>> {
        self.orders.iter().flat_map(|kept| &kept.places).filter_map(SpanPlace::steal)
    }

    /// Visits the cache of one thread. Returns an iterator that takes one span of each order that
    /// the thread has not used since the last look at its cache.
    pub(super) fn look() -> impl Iterator<Item = NonNull<u8>> {
        let cache = HAND.get().or_else(|| LISTED.get());
        if let Some(cache) = cache {
            HAND.set(cache.next.get());
        }
        cache.into_iter().flat_map(|cache| cache.orders.iter().filter_map(KeptSpans::steal_unused))
    }
}

/// Returns the bytes of the spans in the caches of all threads.
pub(super) fn bytes() -> usize {
    let all = SpanCache::listed().flat_map(|cache| cache.orders.iter().zip(&Order::ALL[FIRST..]));
    all.map(|(kept, order)| kept.places.iter().filter(|place| !place.is_empty()).count() * order.span()).sum()
}
