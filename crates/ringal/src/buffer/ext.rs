//! `ExtBuf`: a buffer that grows while it is written.

use core::fmt;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::slice;

use super::FixedBufMut;
use crate::error::Full;
use crate::ring::{OpenRegion, RingAl};

/// A buffer that grows while it is written. It borrows its ring until it is finalized.
///
/// The buffer starts with all of one free region and grows into the free regions after it. If those
/// are too few, it moves: to where the ring's current pass began, if there is twice the room that
/// it needs, and otherwise to the longest free run. Dropped without [`ExtBuf::finalize`], it
/// allocates nothing.
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
    open: OpenRegion,
    len: usize,
    /// The smallest capacity of the finalized buffer.
    least: usize,
    ring: &'a mut RingAl,
}

// SAFETY: this buffer borrows the ring exclusively, and the ring is `Send`. Only the ring accesses
// the open region (C2).
unsafe impl Send for ExtBuf<'_> {}
// SAFETY: `&ExtBuf` gives access to the written bytes and, with feature `bytes`, walks the borrowed
// ring, which only reads (C4).
unsafe impl Sync for ExtBuf<'_> {}

impl<'a> ExtBuf<'a> {
    /// Creates an empty buffer in the open region.
    ///
    /// # Safety
    /// `open` is the ring's open region, with room for at least `least` bytes.
    #[inline]
    pub(crate) unsafe fn new(ring: &'a mut RingAl, open: OpenRegion, least: usize) -> Self {
        Self { open, len: 0, least, ring }
    }

    /// Returns how many bytes can be appended before the buffer has to grow.
    #[inline]
    #[must_use]
    pub fn spare(&self) -> usize {
        self.open.room - self.len
    }

    /// Makes room for `more` bytes. If the buffer has to move to the longest free run, or the ring
    /// has no room, this visits all regions of the ring. The ring remembers a refusal if 32 buffers
    /// in use are enough to prove it.
    ///
    /// # Errors
    /// Returns [`Full`] if the ring has no room. The buffer is unchanged.
    #[inline]
    pub fn try_reserve(&mut self, more: usize) -> Result<(), Full> {
        if more > self.open.room - self.len {
            let Some(open) = grow(self.ring, self.open, self.len, more) else {
                return Err(Full { asked: more, spare: self.open.room - self.len });
            };
            self.open = open;
        }
        Ok(())
    }

    /// Appends all of `bytes`.
    ///
    /// # Errors
    /// Returns [`Full`] if they do not fit and the buffer cannot grow. Nothing is written then.
    #[inline]
    pub fn try_extend_from_slice(&mut self, bytes: &[u8]) -> Result<(), Full> {
        self.try_reserve(bytes.len())?;
        // SAFETY: `len` is at most the room.
        let end = unsafe { self.open.data.add(self.len) };
        // SAFETY: `try_reserve` made room for `bytes.len()` bytes after `len`. Nobody else refers
        // to the open region, so `bytes` does not overlap it.
        unsafe { end.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        self.len += bytes.len();
        Ok(())
    }

    /// Returns the room after the written bytes as a slice. Call [`ExtBuf::set_len`] once some of
    /// it is written.
    #[inline]
    pub fn spare_capacity_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: `len` is at most the room.
        let start = unsafe { self.open.data.add(self.len) };
        // SAFETY: the slice is the rest of the open region, which nobody else refers to.
        // `MaybeUninit` needs no initialised bytes.
        unsafe { slice::from_raw_parts_mut(start.cast().as_ptr(), self.open.room - self.len) }
    }

    /// Sets the number of written bytes.
    ///
    /// # Safety
    /// The first `len` bytes are initialised, and `len` is at most [`ExtBuf::spare`] more than
    /// before.
    #[inline]
    pub unsafe fn set_len(&mut self, len: usize) {
        ephemera_prim::invariant!(len <= self.open.room, "more was written than there is room for");
        self.truncate(len);
        self.len = len;
    }

    /// Adds `count` to the number of written bytes.
    ///
    /// # Safety
    /// These bytes are initialised, and `count` is at most [`ExtBuf::spare`].
    #[cfg(feature = "bytes")]
    #[inline]
    pub(crate) unsafe fn advance(&mut self, count: usize) {
        ephemera_prim::invariant!(count <= self.spare(), "more was written than there is room for");
        self.len += count;
    }

    /// Returns how many bytes could be appended if the buffer moved to the longest free run.
    #[cfg(feature = "bytes")]
    pub(crate) fn prospects(&self) -> usize {
        self.ring.longest().saturating_sub(self.len)
    }

    /// Shortens the buffer to `len` bytes. Does nothing if it is not longer.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        if len < self.len {
            self.ring.used(self.len);
            self.len = len;
        }
    }

    /// Ends the growth and the borrow of the ring. Returns a fixed buffer with the written bytes.
    /// Its capacity is the requested size or the written bytes, whichever is more. The rest of the
    /// open region stays free.
    #[inline]
    #[must_use]
    pub fn finalize(self) -> FixedBufMut {
        let mut this = ManuallyDrop::new(self);
        let (open, bytes) = (this.open, this.least.max(this.len));
        // SAFETY: the room is at least `least` and at least `len`, so at least `bytes`.
        let mut buffer = unsafe { this.ring.close(open, bytes) };
        // SAFETY: the first `len` bytes are written, and the capacity `bytes` is at least `len`.
        unsafe { buffer.set_len(this.len) };
        buffer
    }
}

/// Makes room for `more` bytes after the first `len` bytes of the open region. Returns the open
/// region, which may have moved. Takes its arguments by value so that the fields of an inlined
/// buffer stay in registers.
#[cold]
#[inline(never)]
fn grow(ring: &mut RingAl, open: OpenRegion, len: usize, more: usize) -> Option<OpenRegion> {
    let least = len.checked_add(more)?;
    let longer = OpenRegion { room: ring.extend(open, least), ..open };
    if least <= longer.room { Some(longer) } else { ring.relocate(longer, len, least) }
}

impl Drop for ExtBuf<'_> {
    #[inline]
    fn drop(&mut self) {
        self.ring.used(self.least.max(self.len));
        self.ring.abandon(self.open);
    }
}

impl Deref for ExtBuf<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the first `len` bytes of the open region are initialised.
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
/// of them.
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
