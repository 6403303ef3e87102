//! Where a store keeps its shards: in segments that double in size and are never moved, so that a thread finds its shard by two loads while
//! others add theirs.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use ephemera_prim::sync::{AtomicPtr, Ordering};
use ephemera_prim::witness::Witness;
use ephemera_prim::word::OwnerPtr;

use super::Store;
use crate::error::Refused;
use crate::shard::{Shard, ShardPtr};

/// Shards in the first segment.
const FIRST: usize = if cfg!(ephemera_loom) { 3 } else { 8 };

/// Segments: more shards than any system has threads.
const SEGMENTS: usize = if cfg!(ephemera_loom) { 1 } else { 32 };

/// Where a shard is in a store: which segment, and which place in it. Place 0 of segment 0 is nobody's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seat {
    pub(crate) segment: usize,
    pub(crate) at: usize,
}

impl Seat {
    /// The seat with this number.
    pub(crate) const fn numbered(number: usize) -> Self {
        let segment = (number / FIRST + 1).ilog2() as usize;
        Self { segment, at: number - FIRST * ((1 << segment) - 1) }
    }

    /// Nobody's.
    pub(crate) const NOBODYS: Self = Self { segment: 0, at: 0 };
}

/// One place in a segment.
#[derive(Debug)]
pub(super) struct Place {
    shard: OwnerPtr<Shard>,
    witness: Witness,
}

impl Place {
    fn new() -> Self {
        let this = Self { shard: OwnerPtr::null(), witness: Witness::new() };
        this.witness.write();
        this
    }
}

/// The segments of a store.
pub(super) type Segments = [AtomicPtr<Place>; SEGMENTS];

/// None yet.
pub(super) fn none() -> Segments {
    core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut()))
}

impl Store {
    /// The shard in this seat, if there is one: for the one who sits there.
    #[inline]
    pub(crate) fn shard(&self, seat: Seat) -> Option<ShardPtr> {
        // ORDERING: `SEE`. Pairs with the Release in `publish`.
        let segment = self.segments[seat.segment % SEGMENTS].load(SEE);
        if segment.is_null() {
            return None;
        }
        // SAFETY: the segment's number and the place in it belong together (`Seat`).
        let place = unsafe { place(segment, seat.at) };
        // SAFETY: S1: shards live as long as the store.
        unsafe { ShardPtr::from_raw(place.shard.get()) }
    }

    /// The shard in this seat, made if need be.
    ///
    /// # Safety
    /// The caller is the one who sits there: it holds the record, or it is the pool's one thread.
    pub(crate) unsafe fn make_shard(&self, seat: Seat, record: *const ()) -> Result<ShardPtr, Refused> {
        if let Some(shard) = self.shard(seat) {
            return Ok(shard);
        }
        if seat == Seat::NOBODYS || seat.segment >= SEGMENTS {
            return Err(self.account.refused(usize::MAX));
        }
        let segment = self.make_segment(seat.segment)?;
        let layout = Layout::new::<Shard>();
        let shard = self.account.acquire(layout)?.cast::<Shard>();
        // The global heap may be above this arena, and have come here meanwhile.
        if let Some(there) = self.shard(seat) {
            // SAFETY: just acquired with this layout.
            unsafe { self.account.release(shard.cast(), layout) };
            return Ok(there);
        }
        // SAFETY: fresh memory of this layout.
        unsafe { shard.write(Shard::new(record, self.this.as_ptr())) };
        // SAFETY: as in `shard`; only the caller writes there.
        let place = unsafe { place(segment, seat.at) };
        place.shard.publish(shard.as_ptr());
        self.shard(seat).ok_or_else(|| self.account.refused(0))
    }

    fn make_segment(&self, number: usize) -> Result<*mut Place, Refused> {
        let head = &self.segments[number];
        // ORDERING: `SEE`. Pairs with the Release in `publish`.
        let there = head.load(SEE);
        if !there.is_null() {
            return Ok(there);
        }
        let layout = segment_layout(number).ok_or_else(|| self.account.refused(usize::MAX))?;
        let segment = self.account.acquire(layout)?.cast::<Place>();
        for at in 0..FIRST << number {
            // SAFETY: fresh memory for so many places.
            let place = unsafe { segment.add(at) };
            // SAFETY: as above.
            unsafe { place.write(Place::new()) };
        }
        match publish(head, segment.as_ptr()) {
            Ok(()) => Ok(segment.as_ptr()),
            Err(other) => {
                // SAFETY: from above, and nobody has seen it.
                unsafe { self.account.release(segment.cast(), layout) };
                Ok(other)
            }
        }
    }

    /// All shards, whoever sits there.
    pub(crate) fn shards(&self) -> impl Iterator<Item = ShardPtr> {
        let places = self.segments.iter().enumerate().flat_map(|(number, segment)| {
            // ORDERING: `SEE`. Pairs with the Release in `publish`.
            let segment = segment.load(SEE);
            let places = if segment.is_null() { 0 } else { FIRST << number };
            // SAFETY: that many places the segment has.
            (0..places).map(move |at| unsafe { place(segment, at) })
        });
        // SAFETY: S1: shards live as long as the store.
        places.filter_map(|place| unsafe { ShardPtr::from_raw(place.shard.follow()) })
    }

    /// For loom: nobody looks for a shard in this segment any more.
    fn end_places(&self, number: usize) {
        let segment = self.segments[number].load(Ordering::Relaxed);
        let places = if segment.is_null() { 0 } else { FIRST << number };
        for at in 0..places {
            // SAFETY: that many places the segment has.
            unsafe { place(segment, at) }.witness.end();
        }
    }

    /// Frees all shards and segments.
    ///
    /// # Safety
    /// Nobody else uses the store any more, and no shard has a group.
    pub(super) unsafe fn release_shards(&self) {
        for shard in self.shards() {
            if let Some(place) = NonNull::new(shard.as_ptr()) {
                // SAFETY: acquired with this layout; nobody uses it.
                unsafe { self.account.release(place.cast(), Layout::new::<Shard>()) };
            }
        }
        for (number, segment) in self.segments.iter().enumerate() {
            let segment = NonNull::new(segment.load(Ordering::Relaxed));
            if cfg!(ephemera_loom) {
                self.end_places(number);
            }
            if let (Some(segment), Some(layout)) = (segment, segment_layout(number)) {
                // SAFETY: acquired with this layout; nobody uses it.
                unsafe { self.account.release(segment.cast(), layout) };
            }
        }
    }
}

/// A place in a segment.
///
/// # Safety
/// The segment has more places than `at`, as seen from this thread. It lives as long as its store, and the result is not used longer.
#[inline]
unsafe fn place<'s>(segment: *mut Place, at: usize) -> &'s Place {
    // SAFETY: the caller's.
    let place = unsafe { segment.add(at) };
    // SAFETY: made with the segment, and never borrowed but like this.
    let place = unsafe { &*place };
    place.witness.touch();
    place
}

fn segment_layout(number: usize) -> Option<Layout> {
    let places = FIRST.checked_shl(u32::try_from(number).ok()?)?;
    Layout::array::<Place>(places).ok()
}

// ORDERING: Acquire. Pairs with the Release in `publish`: the segment is seen as it was made.
const SEE: Ordering =
    if cfg!(ephemera_weaken = "segment_see_relaxed") { Ordering::Relaxed } else { Ordering::Acquire };

/// Gives the store a segment, unless another thread has just done so: that one's is returned then.
#[cfg(target_has_atomic = "ptr")]
fn publish(head: &AtomicPtr<Place>, segment: *mut Place) -> Result<(), *mut Place> {
    // ORDERING: Release. Pairs with the Acquire in `Store::shard`. Publishes: the segment.
    const PUBLISH: Ordering =
        if cfg!(ephemera_weaken = "segment_publish_relaxed") { Ordering::Relaxed } else { Ordering::Release };
    // ORDERING: `PUBLISH`, and `SEE` where another thread was first. Pairs with `Store::shard`.
    head.compare_exchange(ptr::null_mut(), segment, PUBLISH, SEE).map(drop)
}

/// Without compare-and-swap there are only types for one thread.
#[cfg(not(target_has_atomic = "ptr"))]
fn publish(head: &AtomicPtr<Place>, segment: *mut Place) -> Result<(), *mut Place> {
    head.store(segment, Ordering::Relaxed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{FIRST, Seat};

    #[test]
    fn seats_follow_each_other_through_the_segments() {
        assert_eq!(Seat::numbered(0), Seat::NOBODYS);
        let mut expected = Seat::NOBODYS;
        for number in 0..1_000 {
            assert_eq!(Seat::numbered(number), expected);
            expected.at += 1;
            if expected.at == FIRST << expected.segment {
                expected = Seat { segment: expected.segment + 1, at: 0 };
            }
        }
    }
}
