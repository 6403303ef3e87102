//! The allocating side: `RingAl`.

#[cfg(feature = "alloc")]
mod builder;
mod chain;
#[cfg(all(test, feature = "std", not(any(ephemera_loom, miri))))]
mod cost;
#[cfg(all(test, feature = "std", not(any(ephemera_loom, miri))))]
mod ends;
mod memory;
mod open;
mod refusal;
mod search;
#[cfg(all(test, feature = "alloc", not(ephemera_loom)))]
mod tests;

use core::fmt;
use core::ptr::NonNull;

use ephemera_prim::poison::unpoison;

#[cfg(feature = "alloc")]
pub use self::builder::Builder;
use self::chain::Chain;
use crate::buffer::{ExtBuf, FixedBufMut, GenericBufMut};
use crate::error::Refused;
use crate::geometry::{GRANULE, OVERHEAD, Want, region, region_of, room};
use crate::guard::GuardPtr;
use crate::stats::Stats;
#[cfg(all(feature = "alloc", not(ephemera_loom)))]
use crate::store::PARKED;
use crate::store::StorePtr;

/// A ring of buffers in one store of fixed size.
///
/// Each buffer is handed out by moving along a chain of regions, and gives its region back by one
/// store, on any thread. Regions still in use are skipped, so a buffer that is held for long costs
/// its own bytes and nothing more.
///
/// A ring can be sent to another thread, and is used by one at a time. Its buffers outlive it:
/// dropping the ring waits for nothing, and its last buffer frees the store (see [the end of a
/// ring](crate#the-end-of-a-ring)).
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
    // In this order: all that a buffer is made of lies on one cache line.
    store: StorePtr,
    memory: Memory,
    chain: Chain,
}

/// The payload of the open region: the free one at the head that an extendable buffer writes into.
/// The ring is borrowed meanwhile, so nobody else looks there, and a buffer that is forgotten has
/// taken nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Open {
    pub(crate) data: NonNull<u8>,
    pub(crate) room: usize,
}

/// Whose the memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Memory {
    /// Ours, with a header in front.
    #[cfg(feature = "alloc")]
    Heap,
    /// The caller's.
    #[cfg_attr(ephemera_loom, expect(dead_code, reason = "its header is static, and loom has no statics"))]
    Given,
}

// SAFETY: whoever has the ring is the only one to use its chain; free regions are the ring's
// wherever it is, and the words that others write are atomics.
unsafe impl Send for RingAl {}

impl RingAl {
    /// A ring over `bytes` bytes of the global heap, rounded up to the next multiple of 16. On top
    /// come 112 bytes: a header, and what aligns the first buffer. With nothing held it serves one
    /// buffer of [`RingAl::capacity`] bytes, which is 16 less. (With feature `checked` it is
    /// rounded to 32, and the capacity 64 less.)
    ///
    /// # Aborts
    /// When there is no memory, by way of `handle_alloc_error`. [`RingAl::try_new`] returns an
    /// error instead.
    #[cfg(all(feature = "alloc", not(ephemera_loom)))]
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Builder::new(bytes).build()
    }

    /// As [`RingAl::new`], for a store of this alignment in bytes (rounded up to a power of two, at
    /// least 64): its first buffer is aligned to it. For a buffer of a certain alignment wherever
    /// it is see [`RingAl::fixed_aligned`].
    ///
    /// # Aborts
    /// As [`RingAl::new`].
    #[cfg(all(feature = "alloc", not(ephemera_loom)))]
    #[must_use]
    pub fn new_with_align(bytes: usize, align: usize) -> Self {
        Builder::new(bytes).align(align).build()
    }

    /// As [`RingAl::new`].
    ///
    /// # Errors
    /// [`CreateError`](crate::CreateError) when there is no memory for that many bytes.
    #[cfg(all(feature = "alloc", not(ephemera_loom)))]
    pub fn try_new(bytes: usize) -> Result<Self, crate::CreateError> {
        Builder::new(bytes).try_build()
    }

    /// Settings for a ring over `bytes` bytes of the global heap.
    #[cfg(feature = "alloc")]
    pub const fn builder(bytes: usize) -> Builder {
        Builder::new(bytes)
    }

    /// A buffer of exactly `bytes` bytes, aligned to 16. `None` when no run of free regions is long
    /// enough.
    #[inline]
    pub fn fixed(&mut self, bytes: usize) -> Option<FixedBufMut> {
        let need = region(bytes)?;
        let guard = self.chain.take(need)?;
        // SAFETY: a taken region for that many bytes, of this store.
        Some(unsafe { FixedBufMut::new(guard, bytes, self.store) })
    }

    /// As [`RingAl::fixed`].
    ///
    /// # Errors
    /// [`Refused`] says whether the ring is too small or too full.
    #[inline]
    pub fn try_fixed(&mut self, bytes: usize) -> Result<FixedBufMut, Refused> {
        match self.fixed(bytes) {
            Some(buffer) => Ok(buffer),
            None => Err(self.refused(bytes, 1)),
        }
    }

    /// A buffer of exactly `bytes` bytes at a multiple of `align`, which is rounded up to a power
    /// of two: 4,096 for direct input and output, say. What lies in front stays free. `None` when
    /// no run of free regions is long enough, or beyond an alignment of 512 MiB.
    pub fn fixed_aligned(&mut self, bytes: usize, align: usize) -> Option<FixedBufMut> {
        let want = Want::new(bytes, align.checked_next_power_of_two()?)?;
        let guard = self.chain.take_wanted(want)?;
        // SAFETY: a taken region for that many bytes, of this store.
        Some(unsafe { FixedBufMut::new(guard, bytes, self.store) })
    }

    /// As [`RingAl::fixed_aligned`].
    ///
    /// # Errors
    /// [`Refused`] says whether the ring is too small or too full.
    pub fn try_fixed_aligned(&mut self, bytes: usize, align: usize) -> Result<FixedBufMut, Refused> {
        self.fixed_aligned(bytes, align).ok_or_else(|| self.refused(bytes, align))
    }

    /// A buffer of at least `bytes` bytes that grows while it is written: into the free regions
    /// behind it, else by moving to another free run, in the end the longest. It borrows the ring
    /// until it is finalized. `None` when no run of free regions is long enough.
    #[inline]
    pub fn extendable(&mut self, bytes: usize) -> Option<ExtBuf<'_>> {
        let open = self.open(bytes)?;
        // SAFETY: the open region of this ring.
        Some(unsafe { ExtBuf::new(self, open, bytes) })
    }

    /// As [`RingAl::extendable`].
    ///
    /// # Errors
    /// [`Refused`] says whether the ring is too small or too full.
    #[inline]
    pub fn try_extendable(&mut self, bytes: usize) -> Result<ExtBuf<'_>, Refused> {
        match self.open(bytes) {
            // SAFETY: the open region of this ring.
            Some(open) => Ok(unsafe { ExtBuf::new(self, open, bytes) }),
            None => Err(self.refused(bytes, 1)),
        }
    }

    /// A buffer for exactly `count` elements, aligned for them. It drops its elements. `None` when
    /// no run of free regions is long enough, or when so many elements have more bytes than can be
    /// addressed.
    #[inline]
    pub fn generic<T>(&mut self, count: usize) -> Option<GenericBufMut<T>> {
        let bytes = count.checked_mul(size_of::<T>())?;
        let guard = if const { align_of::<T>() <= GRANULE } {
            self.chain.take(region(bytes)?)?
        } else {
            self.chain.take_wanted(Want::new(bytes, align_of::<T>())?)?
        };
        // SAFETY: a taken region for that many elements, aligned for them, of this store.
        Some(unsafe { GenericBufMut::new(guard, count, self.store) })
    }

    /// As [`RingAl::generic`].
    ///
    /// # Errors
    /// [`Refused`] says whether the ring is too small or too full.
    #[inline]
    pub fn try_generic<T>(&mut self, count: usize) -> Result<GenericBufMut<T>, Refused> {
        match self.generic(count) {
            Some(buffer) => Ok(buffer),
            None => Err(self.refused(count.saturating_mul(size_of::<T>()), align_of::<T>())),
        }
    }

    /// The largest buffer, in bytes, that this ring serves when nothing is held.
    #[inline]
    #[must_use]
    pub fn capacity(&self) -> usize {
        room(self.chain.end)
    }

    /// What is held and what is free. Walks along all regions.
    ///
    /// Exact at rest; a buffer that another thread is giving back at the moment counts as held or
    /// as free.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::new(self.capacity(), self.chain.high.max(self.chain.head));
        let mut run = 0;
        self.chain.walk(|_, word| stats.see(word, &mut run));
        stats
    }

    /// Returns how many stores of dropped rings are not freed yet: each has a buffer in use, or
    /// waits for a look as [the crate's documentation](crate#the-end-of-a-ring) says.
    #[cfg(all(feature = "alloc", not(ephemera_loom)))]
    #[must_use]
    pub fn parked() -> usize {
        PARKED.count()
    }

    /// Frees the stores of dropped rings whose buffers are all gone, and returns how many it freed.
    ///
    /// The last buffer does so by itself, unless its release began before the drop of the ring and
    /// ended later: see [the crate's documentation](crate#the-end-of-a-ring). This looks at every
    /// parked store; it returns zero at once if another thread is looking at the moment.
    #[cfg(all(feature = "alloc", not(ephemera_loom)))]
    pub fn reclaim() -> usize {
        PARKED.look_at_all()
    }

    /// Why a request was refused.
    #[cold]
    fn refused(&self, asked: usize, align: usize) -> Refused {
        let fits_empty = align
            .checked_next_power_of_two()
            .and_then(|align| Want::new(asked, align))
            .is_some_and(|want| want.lead(self.chain.guard(0).addr(), self.chain.end).is_some());
        if !fits_empty {
            return Refused::TooLarge { asked, capacity: self.capacity() };
        }
        let Stats { largest_free, held_bytes, .. } = self.stats();
        Refused::Exhausted { asked, largest_free, held: held_bytes }
    }
}

/// What an extendable buffer asks of its ring.
impl RingAl {
    /// Opens a region with room for `bytes` bytes.
    #[inline]
    fn open(&mut self, bytes: usize) -> Option<Open> {
        let need = region(bytes)?;
        let (guard, len) = match self.chain.peek(need) {
            Some(open) => open,
            None => self.chain.open_slow(need)?,
        };
        Some(Open { data: Chain::open_payload(guard, len), room: len - OVERHEAD })
    }

    /// Makes the open region longer, if free regions follow it: to `least` bytes of room, or more.
    /// The room that it has then.
    pub(crate) fn extend(&mut self, open: Open, least: usize) -> usize {
        let Some(least) = region(least) else { return open.room };
        // SAFETY: G1: the open region's, of this ring.
        let guard = unsafe { GuardPtr::of(open.data) };
        room(self.chain.extend(guard, least))
    }

    /// Moves what the open region holds, its first `len` bytes, to another free run, if one has
    /// room for `least`. The payload and room there.
    pub(crate) fn relocate(&mut self, from: Open, len: usize, least: usize) -> Option<Open> {
        self.used(len);
        let (guard, region) = self.chain.open_elsewhere(region(least)?)?;
        let to = Open { data: guard.payload(), room: room(region) };
        // The run may contain the region that was open, so that the places overlap. Marks for
        // sanitizers do not keep what they are put on, so they go around the bytes that are moved.
        let (old, new) = (from.data.addr().get(), to.data.addr().get());
        let (end, inside) = (new + to.room, (new..new + to.room).contains(&old));
        let (before, behind) = if inside { (old - new, end - old - len) } else { (to.room, 0) };
        // SAFETY: in the open region, which is the ring's (C2).
        unsafe { unpoison(to.data, before) };
        // SAFETY: `len` bytes are at `from`.
        let rest = unsafe { from.data.add(len) };
        if behind != 0 {
            // SAFETY: in the open region, behind what is moved.
            unsafe { unpoison(rest, behind) };
        }
        // SAFETY: `len` bytes were written at `from`, and there is room for more at `to`; both are
        // free regions' payload, and no guard that is still one lies in them.
        unsafe { from.data.copy_to(to.data, len) };
        if !inside {
            Chain::abandon(from.data, from.room);
        }
        Some(to)
    }

    /// The open region is done: a fixed buffer of `bytes` bytes starts it, the rest is free.
    ///
    /// # Safety
    /// `bytes` is not above the open region's room, and so many of them as are counted on are
    /// written.
    #[inline]
    pub(crate) unsafe fn close(&mut self, open: Open, bytes: usize) -> FixedBufMut {
        // SAFETY: G1: the open region's, of this ring.
        let guard = unsafe { GuardPtr::of(open.data) };
        self.chain.close(guard, region_of(bytes));
        // SAFETY: a taken region for that many bytes, of this store.
        unsafe { FixedBufMut::from_open(guard, bytes, self.store) }
    }

    /// The room of the longest free run.
    #[cfg(feature = "bytes")]
    pub(crate) fn longest(&self) -> usize {
        room(self.chain.longest().1)
    }

    /// So many bytes of the open region were used, of which its buffer may not tell in the end.
    #[inline]
    pub(crate) fn used(&mut self, bytes: usize) {
        self.chain.note_open(region_of(bytes));
    }

    /// The open region stays free.
    #[inline]
    pub(crate) fn abandon(&mut self, open: Open) {
        Chain::abandon(open.data, open.room);
    }
}

impl Drop for RingAl {
    fn drop(&mut self) {
        match self.memory {
            #[cfg(feature = "alloc")]
            // SAFETY: a store of the heap, and the ring ends here.
            Memory::Heap => unsafe { self.store.retire() },
            // Marks for sanitizers go back with the memory; a buffer that is still held has none,
            // and sets none.
            Memory::Given => self.chain.walk(|at, word| {
                if !word.is_taken() {
                    // SAFETY: free, hence the ring's (C2), and from now on the one's who gave it.
                    unsafe { unpoison(self.chain.guard(at).payload(), word.len() - GRANULE) };
                }
            }),
        }
    }
}

impl fmt::Debug for RingAl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RingAl").field("capacity", &self.capacity()).finish_non_exhaustive()
    }
}
