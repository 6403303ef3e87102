//! `ExtBuf`: a buffer that grows while it is written.

use core::fmt;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::slice;

use super::FixedBufMut;
use crate::error::Full;
use crate::ring::{Open, RingAl};

/// A buffer that grows while it is written, and borrows its ring until it is finalized.
///
/// It has all of the free region that it starts in, grows into free regions behind that, and else
/// moves: to where the ring last began a lap if there is twice the room that it needs, else to the
/// longest free run. Dropped without [`ExtBuf::finalize`], it leaves the ring as it was.
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
    open: Open,
    len: usize,
    /// What the fixed buffer will have at least.
    least: usize,
    ring: &'a mut RingAl,
}

// SAFETY: the open region is the ring's, which is borrowed for this handle alone and can be sent.
unsafe impl Send for ExtBuf<'_> {}
// SAFETY: a shared handle shows the written bytes, and with feature `bytes` walks along the ring
// that it borrows, which only reads (C4).
unsafe impl Sync for ExtBuf<'_> {}

impl<'a> ExtBuf<'a> {
    /// # Safety
    /// `open` is the ring's open region, with room for at least `least` bytes.
    #[inline]
    pub(crate) unsafe fn new(ring: &'a mut RingAl, open: Open, least: usize) -> Self {
        Self { open, len: 0, least, ring }
    }

    /// Bytes that can be written without a look for more room.
    #[inline]
    #[must_use]
    pub fn spare(&self) -> usize {
        self.open.room - self.len
    }

    /// Makes room for `more` bytes. Where the buffer has to move to the longest free run, or the
    /// ring has no room, this looks at all of the ring's regions; the ring remembers a refusal if
    /// 32 buffers in use are enough to show it.
    ///
    /// # Errors
    /// [`Full`] if the ring has none. The buffer is as it was.
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
    /// [`Full`] if they do not fit and the ring has no more room: nothing is written then.
    #[inline]
    pub fn try_extend_from_slice(&mut self, bytes: &[u8]) -> Result<(), Full> {
        self.try_reserve(bytes.len())?;
        // SAFETY: `len` is at most the room.
        let end = unsafe { self.open.data.add(self.len) };
        // SAFETY: there is room behind `len`, in the open region, which nobody else refers to.
        unsafe { end.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        self.len += bytes.len();
        Ok(())
    }

    /// The bytes of the free region behind the written ones. Say how many of them you wrote with
    /// [`ExtBuf::set_len`].
    #[inline]
    pub fn spare_capacity_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: `len` is at most the room.
        let start = unsafe { self.open.data.add(self.len) };
        // SAFETY: the rest of the open region, to which nobody else refers; it need not be
        // initialised.
        unsafe { slice::from_raw_parts_mut(start.cast().as_ptr(), self.open.room - self.len) }
    }

    /// Says how many bytes are written.
    ///
    /// # Safety
    /// So many bytes are initialised, and at most [`ExtBuf::spare`] more than were written before.
    #[inline]
    pub unsafe fn set_len(&mut self, len: usize) {
        ephemera_prim::invariant!(len <= self.open.room, "more was written than there is room for");
        self.truncate(len);
        self.len = len;
    }

    /// So many more bytes are written.
    ///
    /// # Safety
    /// They are initialised, and at most [`ExtBuf::spare`].
    #[cfg(feature = "bytes")]
    #[inline]
    pub(crate) unsafe fn advance(&mut self, count: usize) {
        ephemera_prim::invariant!(count <= self.spare(), "more was written than there is room for");
        self.len += count;
    }

    /// Bytes that could still be written, if the buffer moved to the longest free run.
    #[cfg(feature = "bytes")]
    pub(crate) fn prospects(&self) -> usize {
        self.ring.longest().saturating_sub(self.len)
    }

    /// Forgets the bytes from `len` on; does nothing where there are fewer.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        if len < self.len {
            self.ring.used(self.len);
            self.len = len;
        }
    }

    /// Ends growing and gives the ring back: a fixed buffer with what was written, of what was
    /// asked for or written, whichever is more. What it does not need stays free.
    #[inline]
    #[must_use]
    pub fn finalize(self) -> FixedBufMut {
        let mut this = ManuallyDrop::new(self);
        let (open, bytes) = (this.open, this.least.max(this.len));
        // SAFETY: the open region has room for both, and what is counted on below is written.
        let mut buffer = unsafe { this.ring.close(open, bytes) };
        // SAFETY: so many bytes were written where the buffer starts, and `bytes` is not less.
        unsafe { buffer.set_len(this.len) };
        buffer
    }
}

/// Finds room for `more` bytes behind the `len` in the open region: where the open region is then.
/// By value, so that a buffer whose writes are inlined lives in registers.
#[cold]
#[inline(never)]
fn grow(ring: &mut RingAl, open: Open, len: usize, more: usize) -> Option<Open> {
    let least = len.checked_add(more)?;
    let longer = Open { room: ring.extend(open, least), ..open };
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
        // SAFETY: initialised, in the open region.
        unsafe { slice::from_raw_parts(self.open.data.as_ptr(), self.len) }
    }
}

impl DerefMut for ExtBuf<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: initialised, in the open region, and the handle is borrowed uniquely.
        unsafe { slice::from_raw_parts_mut(self.open.data.as_ptr(), self.len) }
    }
}

/// Writes all or nothing: an error of kind `StorageFull` when the ring has no room for all of it.
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
