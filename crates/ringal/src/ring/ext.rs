//! Defines [`ExtBuf`], a buffer that grows while it is written.

use core::fmt;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::slice;

use super::RingAl;
use super::open::OpenRegion;
use crate::buffer::FixedBufMut;
use crate::error::{Full, RequestError};
#[cfg(feature = "bytes")]
use crate::geometry::room;
use crate::geometry::{region, region_of};
use crate::guard::GuardPtr;

/// A buffer that grows while it is written. It borrows its ring until [`ExtBuf::finalize`].
///
/// The buffer starts with all of one free region and grows into the free regions after it. If those
/// regions have too little room, the buffer moves to another run of free regions. The buffer
/// prefers the start of the ring's current pass, if the run there has twice the room that the
/// buffer needs. Otherwise the buffer moves to the longest run. If the buffer is dropped without
/// [`ExtBuf::finalize`], its memory stays free.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "std")] {
/// use std::io::Write;
/// use ringal::RingAl;
///
/// let mut ring = RingAl::new(4096);
/// let mut buffer = ring.extendable(16).expect("an empty ring has room");
/// for number in 0..100 {
///     write!(buffer, "{number},")?;
/// }
/// let done = buffer.finalize();
/// assert!(done.len() > 16 && done.starts_with(b"0,1,2,"));
/// # }
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct ExtBuf<'a> {
    /// The ring's open region, with room for at least `len` and at least `least` bytes.
    open: OpenRegion,
    len: usize,
    /// The requested size in bytes: the least capacity of the finalized buffer.
    least: usize,
    ring: &'a mut RingAl,
}

// SAFETY: this buffer borrows the ring exclusively, and the ring is `Send`. Only the ring accesses
// the open region (C2).
unsafe impl Send for ExtBuf<'_> {}
// SAFETY: `&ExtBuf` gives shared access to the written bytes. With feature `bytes`, it also permits
// a walk along the chain of the borrowed ring, and that walk only reads (C4).
unsafe impl Sync for ExtBuf<'_> {}

impl ExtBuf<'_> {
    /// Returns how many bytes can be appended before the buffer must grow.
    #[inline]
    #[must_use]
    pub fn spare(&self) -> usize {
        self.open.room - self.len
    }

    /// Makes room for `more` bytes after the written bytes.
    ///
    /// If the buffer must move to the longest free run, or if the ring has no room, this call
    /// visits all regions of the ring. If at most 32 live buffers prove that no free run is long
    /// enough, the ring remembers the refusal until it merges regions or searches again. Until
    /// then, and while these buffers are live, the ring refuses requests of at least that size
    /// without a search.
    ///
    /// # Errors
    /// Returns [`Full`] if the ring has no room. The written bytes do not change.
    #[inline]
    pub fn try_reserve(&mut self, more: usize) -> Result<(), Full> {
        if more > self.open.room - self.len {
            let Some(open) = self.ring.chain.grow(self.open, self.len, more) else {
                return Err(Full { asked: more, spare: self.open.room - self.len });
            };
            self.open = open;
        }
        Ok(())
    }

    /// Appends all of `bytes`.
    ///
    /// # Errors
    /// Returns [`Full`] without writing any bytes if `bytes` does not fit and the buffer cannot
    /// grow.
    #[inline]
    pub fn try_extend_from_slice(&mut self, bytes: &[u8]) -> Result<(), Full> {
        self.try_reserve(bytes.len())?;
        // SAFETY: `len` is at most `open.room`, so the result is in the open region or at its end.
        let end = unsafe { self.open.data.add(self.len) };
        // SAFETY: `try_reserve` made room for `bytes.len()` bytes after `len`. Only this buffer
        // refers to the open region, so `bytes` does not overlap it.
        unsafe { end.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        self.len += bytes.len();
        Ok(())
    }

    /// Returns the room after the written bytes as a slice. Call [`ExtBuf::set_len`] after you have
    /// written part of it.
    #[inline]
    pub fn spare_capacity_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: `len` is at most `open.room`, so the result is in the open region or at its end.
        let start = unsafe { self.open.data.add(self.len) };
        // SAFETY: the slice is the rest of the open region, which only this buffer refers to.
        // `MaybeUninit` does not require initialised bytes.
        unsafe { slice::from_raw_parts_mut(start.cast().as_ptr(), self.open.room - self.len) }
    }

    /// Sets the number of written bytes.
    ///
    /// # Safety
    /// The first `len` bytes are initialised, and `len` exceeds the previous length by at most
    /// [`ExtBuf::spare`].
    #[inline]
    pub unsafe fn set_len(&mut self, len: usize) {
        ephemera_prim::invariant!(len <= self.open.room, "the length exceeds the room of the open region");
        self.truncate(len);
        self.len = len;
    }

    /// Returns how many bytes could be appended if the buffer moved to the longest free run.
    #[cfg(feature = "bytes")]
    pub(crate) fn prospects(&self) -> usize {
        room(self.ring.chain.longest().1).saturating_sub(self.len)
    }

    /// Shortens the buffer to `len` bytes. Does nothing if the buffer has at most `len` bytes.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        if len < self.len {
            self.ring.chain.note_used(self.len);
            self.len = len;
        }
    }

    /// Converts this buffer to a fixed buffer with the written bytes, and ends the borrow of the
    /// ring. The capacity is the requested size or the number of written bytes, whichever is
    /// larger. The rest of the open region stays free.
    #[inline]
    #[must_use]
    pub fn finalize(self) -> FixedBufMut {
        let mut this = ManuallyDrop::new(self);
        let bytes = this.least.max(this.len);
        // SAFETY: the guard of the open region is in front of `open.data`, and the ring keeps the
        // store alive (G1).
        let guard = unsafe { GuardPtr::of(this.open.data) };
        // The room of the open region is at least `least` and at least `len`, so at least `bytes`.
        this.ring.chain.close(guard, region_of(bytes));
        // SAFETY: `close` took the region with this length, and it lies in the ring's store. No
        // other code accesses the region. The first `len` bytes are written, and `bytes` is at
        // least `len`.
        unsafe { FixedBufMut::from_open(guard, bytes, this.len, this.ring.store) }
    }
}

impl RingAl {
    /// Allocates a buffer of at least `bytes` bytes that grows while it is written. The buffer
    /// borrows the ring until [`ExtBuf::finalize`]. Returns `None` if no run of free regions is
    /// long enough.
    #[inline]
    pub fn extendable(&mut self, bytes: usize) -> Option<ExtBuf<'_>> {
        let open = self.open(bytes)?;
        Some(ExtBuf { open, len: 0, least: bytes, ring: self })
    }

    /// Allocates a buffer like [`RingAl::extendable`].
    ///
    /// # Errors
    /// Returns [`RequestError`], which says whether the ring is too small or too full.
    #[inline]
    pub fn try_extendable(&mut self, bytes: usize) -> Result<ExtBuf<'_>, RequestError> {
        let open = match self.open(bytes) {
            Some(open) => open,
            None => self.refused(bytes, 1, |ring| ring.open(bytes))?,
        };
        Ok(ExtBuf { open, len: 0, least: bytes, ring: self })
    }

    /// Returns an open region with room for `bytes` bytes, or `None` if the ring has no room.
    #[inline]
    fn open(&mut self, bytes: usize) -> Option<OpenRegion> {
        self.chain.open(region(bytes)?)
    }
}

impl Drop for ExtBuf<'_> {
    #[inline]
    fn drop(&mut self) {
        self.ring.chain.note_used(self.least.max(self.len));
        self.open.abandon();
    }
}

impl Deref for ExtBuf<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the first `len` bytes of the open region are initialised, and only this buffer
        // writes them.
        unsafe { slice::from_raw_parts(self.open.data.as_ptr(), self.len) }
    }
}

impl DerefMut for ExtBuf<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the first `len` bytes of the open region are initialised, and `self` is borrowed
        // exclusively.
        unsafe { slice::from_raw_parts_mut(self.open.data.as_ptr(), self.len) }
    }
}

/// Writes all bytes or none. Returns an error of kind `StorageFull` if the ring has no room for all
/// the bytes.
#[cfg(feature = "std")]
impl std::io::Write for ExtBuf<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.try_extend_from_slice(bytes)?;
        Ok(bytes.len())
    }

    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        Ok(self.try_extend_from_slice(bytes)?)
    }

    #[inline]
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl fmt::Debug for ExtBuf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExtBuf")
            .field("len", &self.len)
            .field("room", &self.open.room)
            .finish_non_exhaustive()
    }
}
