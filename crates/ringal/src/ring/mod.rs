//! `RingAl`: the ring that allocates buffers.
//!
//! * `chain`: the regions of the store, and the fast path of an allocation.
//! * `search`: the slow path. `window`: the movement of the head. `refusal`: requests that the ring
//!   remembers as refused.
//! * `open` and `ext`: buffers that grow.
//! * `builder` and `memory`: rings on the heap, and in memory that the caller provides.

#[cfg(feature = "alloc")]
mod builder;
mod chain;
mod ext;
mod memory;
mod open;
mod refusal;
mod search;
#[cfg(all(test, feature = "alloc", not(ephemera_loom)))]
mod tests;
mod window;

use core::fmt;

use ephemera_prim::poison::unpoison;

#[cfg(feature = "alloc")]
pub use self::builder::Builder;
use self::chain::Chain;
pub use self::ext::ExtBuf;
use crate::buffer::{FixedBufMut, GenericBufMut};
use crate::error::RequestError;
use crate::geometry::{GRANULE, LARGEST_ALIGN, Want, aligned_room, region, room};
#[cfg(all(feature = "alloc", not(ephemera_loom)))]
use crate::parked::PARKED;
use crate::stats::Stats;
use crate::store::RingStorePtr;

/// A ring of byte buffers in one block of memory of fixed size, the *store*.
///
/// The ring allocates by moving along a chain of regions. Dropping the last handle of a buffer
/// frees its region, on any thread. While the ring exists, this takes one atomic store if the
/// buffer is not shared. The ring skips regions in use, so a long-lived buffer does not stop it.
///
/// A ring can be sent to another thread, but only one thread at a time can use it. Its buffers may
/// outlive the ring. Dropping the ring never blocks. If buffers are live then, the last of them
/// usually frees the store (see [the end of a ring](crate#the-end-of-a-ring)).
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "std")] {
/// use std::io::Write;
/// use ringal::RingAl;
///
/// let mut ring = RingAl::new(64 << 10);
/// let mut buffer = ring.fixed(256).expect("an empty ring has room");
/// buffer.write_all(b"a line for another thread")?;
/// let frozen = buffer.freeze();
/// let copy = frozen.clone();
/// std::thread::spawn(move || assert_eq!(&copy[..6], b"a line")).join().unwrap();
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[repr(C)]
pub struct RingAl {
    // This order keeps the fields that the fast path uses close together.
    store: RingStorePtr,
    chain: Chain,
}

// SAFETY: only the owner of the ring uses its chain, and only the ring accesses free regions (C2).
// Other threads write only to taken regions, and the ring shares only atomic guard words with them.
unsafe impl Send for RingAl {}

impl RingAl {
    /// Allocates a buffer of exactly `bytes` bytes, aligned to 16. Returns `None` if no run of free
    /// regions is long enough.
    #[inline]
    pub fn fixed(&mut self, bytes: usize) -> Option<FixedBufMut> {
        let need = region(bytes)?;
        let guard = self.chain.take(need)?;
        // SAFETY: the region of `guard` is taken, lies in this store and has the length for `bytes`
        // bytes. No other handle uses the region.
        Some(unsafe { FixedBufMut::new(guard, bytes, self.store) })
    }

    /// Allocates a buffer like [`RingAl::fixed`].
    ///
    /// # Errors
    /// Returns [`RequestError`], which says whether the ring is too small or too full.
    #[inline]
    pub fn try_fixed(&mut self, bytes: usize) -> Result<FixedBufMut, RequestError> {
        match self.fixed(bytes) {
            Some(buffer) => Ok(buffer),
            None => self.refused(bytes, 1, |ring| ring.fixed(bytes)),
        }
    }

    /// Allocates a buffer of exactly `bytes` bytes at a multiple of `align`, for example 4,096 for
    /// direct I/O. `align` is rounded up to a power of two. The bytes that alignment skips stay
    /// free. Returns `None` if no run of free regions is long enough, or if `align` is above 512
    /// MiB.
    pub fn fixed_aligned(&mut self, bytes: usize, align: usize) -> Option<FixedBufMut> {
        let want = Want::new(bytes, align.checked_next_power_of_two()?)?;
        let guard = self.chain.take_wanted(want)?;
        // SAFETY: the region of `guard` is taken, lies in this store and has the length for `bytes`
        // bytes. No other handle uses the region.
        Some(unsafe { FixedBufMut::new(guard, bytes, self.store) })
    }

    /// Allocates a buffer like [`RingAl::fixed_aligned`].
    ///
    /// # Errors
    /// Returns [`RequestError`], which says whether the ring is too small or too full, or whether
    /// the alignment is too large for every buffer of this ring.
    pub fn try_fixed_aligned(&mut self, bytes: usize, align: usize) -> Result<FixedBufMut, RequestError> {
        match self.fixed_aligned(bytes, align) {
            Some(buffer) => Ok(buffer),
            None => self.refused(bytes, align, |ring| ring.fixed_aligned(bytes, align)),
        }
    }

    /// Allocates a buffer for exactly `count` elements, aligned for their type. Dropping the buffer
    /// drops its elements. Returns `None` if no run of free regions is long enough, or if `count`
    /// elements exceed the address space.
    #[inline]
    pub fn generic<T>(&mut self, count: usize) -> Option<GenericBufMut<T>> {
        let bytes = count.checked_mul(size_of::<T>())?;
        let guard = if const { align_of::<T>() <= GRANULE } {
            self.chain.take(region(bytes)?)?
        } else {
            self.chain.take_wanted(Want::new(bytes, align_of::<T>())?)?
        };
        // SAFETY: the region of `guard` is taken, lies in this store, and has the length and the
        // alignment for `count` elements. No other handle uses the region.
        Some(unsafe { GenericBufMut::new(guard, count, self.store) })
    }

    /// Allocates a buffer like [`RingAl::generic`].
    ///
    /// # Errors
    /// Returns [`RequestError`], which says whether the ring is too small or too full, or whether
    /// the alignment of `T` is too large for every buffer of this ring.
    #[inline]
    pub fn try_generic<T>(&mut self, count: usize) -> Result<GenericBufMut<T>, RequestError> {
        match self.generic(count) {
            Some(buffer) => Ok(buffer),
            None => {
                let bytes = count.saturating_mul(size_of::<T>());
                self.refused(bytes, align_of::<T>(), |ring| ring.generic(count))
            }
        }
    }

    /// Returns the size, in bytes, of the largest buffer that this ring can serve while no buffer
    /// is live.
    #[inline]
    #[must_use]
    pub fn capacity(&self) -> usize {
        room(self.chain.end)
    }

    /// Returns statistics of this ring. Visits every region. A buffer that another thread is
    /// freeing may count as live or as free.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = Stats {
            capacity: self.capacity(),
            bytes_held: self.store.bytes_held(),
            high_water: self.chain.high.max(self.chain.head),
            ..Stats::default()
        };
        self.chain.walk(|_, word, run| stats.see(word, run));
        stats
    }

    /// Returns the number of stores of dropped rings that are not freed yet. Each of these stores
    /// has a live buffer or waits for a sweep (see [the end of a ring](crate#the-end-of-a-ring)).
    #[cfg(all(feature = "alloc", not(ephemera_loom)))]
    #[must_use]
    pub fn parked() -> usize {
        PARKED.count()
    }

    /// Frees the stores of dropped rings that have no live buffers. Returns how many stores it
    /// freed.
    ///
    /// The last buffer frees its store without this call, unless another thread was freeing a
    /// buffer when the ring was dropped (see [the end of a ring](crate#the-end-of-a-ring)). If
    /// another thread is sweeping, this returns 0 immediately. A single ring cannot be trimmed,
    /// because its store has a fixed size.
    #[cfg(all(feature = "alloc", not(ephemera_loom)))]
    pub fn trim_all() -> usize {
        PARKED.sweep_all()
    }

    /// Alias of [`RingAl::trim_all`].
    #[cfg(all(feature = "alloc", not(ephemera_loom)))]
    pub fn reclaim() -> usize {
        Self::trim_all()
    }

    /// Returns the error for a request that `search` could not serve. If another thread has freed a
    /// buffer since then and the request now fits, returns the result of a second `search` instead.
    #[cold]
    #[inline(never)]
    fn refused<T>(
        &mut self,
        asked: usize,
        align: usize,
        search: impl FnOnce(&mut Self) -> Option<T>,
    ) -> Result<T, RequestError> {
        let reason = self.reason(asked, align);
        match reason {
            // Only the ring takes regions, so a free run that `reason` saw is still free, and the
            // second search finds it. The second search fails only if `asked` and `largest_free`
            // are both 0 and no run has room even for an empty buffer.
            RequestError::Exhausted { largest_free, .. }
                if largest_free >= asked && !weakened!("refused_request_searches_once") =>
            {
                search(self).ok_or(reason)
            }
            _ => Err(reason),
        }
    }

    /// Returns the reason for a refusal. Visits every region, unless even the empty ring would
    /// refuse the request.
    fn reason(&self, asked: usize, align: usize) -> RequestError {
        let room = |at, len, align| aligned_room(self.chain.guard(at).addr(), len, align);
        let whole = |align| room(0, self.chain.end, align);
        let rounded = align.checked_next_power_of_two().unwrap_or(2 * LARGEST_ALIGN);
        let Some(capacity) = whole(rounded) else {
            let mut largest_align = LARGEST_ALIGN;
            while largest_align > GRANULE && whole(largest_align).is_none() {
                largest_align /= 2;
            }
            return RequestError::AlignTooLarge { align, largest_align };
        };
        if asked > capacity {
            return RequestError::TooLarge { asked, capacity };
        }
        let (mut largest_free, mut bytes_live) = (0, 0);
        self.chain.walk(|at, word, run| {
            if word.is_taken() {
                bytes_live += word.len();
            } else {
                let start = at + word.len() - run;
                largest_free = largest_free.max(room(start, run, rounded).unwrap_or(0));
            }
        });
        RequestError::Exhausted { asked, largest_free, bytes_live }
    }
}

impl Drop for RingAl {
    fn drop(&mut self) {
        #[cfg(feature = "alloc")]
        if !self.store.is_given() {
            // SAFETY: the builder created this store for this ring, which does not use it again.
            unsafe { self.store.retire() };
            return;
        }
        // The caller gets this memory back, so unpoison it. Only free regions are poisoned, and a
        // release in caller-provided memory does not poison its region.
        self.chain.walk(|at, word, _| {
            if !word.is_taken() {
                // SAFETY: the region is free, so only the ring accesses it (C2).
                unsafe { unpoison(self.chain.guard(at).payload(), word.len() - GRANULE) };
            }
        });
    }
}

impl fmt::Debug for RingAl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RingAl").field("capacity", &self.capacity()).finish_non_exhaustive()
    }
}
