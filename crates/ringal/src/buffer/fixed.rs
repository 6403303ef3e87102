//! Defines [`FixedBufMut`], a buffer of a fixed size with one handle.

use core::mem::MaybeUninit;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::slice;

use crate::error::Full;
use crate::geometry::region_of;
use crate::guard::GuardPtr;
use crate::release::release;
use crate::store::{RingStorePtr, hand_out};

/// A buffer of a fixed capacity: the bytes written so far, and room for more.
///
/// The buffer dereferences to the written bytes. A `write` of more bytes than fit writes only the
/// part that fits. The buffer can be sent to any thread and dropped there, even after the ring is
/// dropped.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "std")] {
/// use std::io::Write;
/// use ringal::RingAl;
///
/// let mut ring = RingAl::new(4096);
/// let mut buffer = ring.fixed(8).expect("an empty ring has room");
/// assert_eq!(buffer.write(b"more than eight")?, 8);
/// buffer[0] = b'M';
/// assert_eq!((&buffer[..], buffer.spare()), (&b"More tha"[..], 0));
/// # }
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct FixedBufMut {
    pub(super) data: NonNull<u8>,
    pub(super) cap: usize,
    pub(super) len: usize,
    pub(super) store: RingStorePtr,
}

// SAFETY: only this handle accesses the region (B1). A release uses only atomic words of the guard
// and the header, so it may run on any thread.
unsafe impl Send for FixedBufMut {}
// SAFETY: `&FixedBufMut` gives only shared access to the written bytes.
unsafe impl Sync for FixedBufMut {}

impl FixedBufMut {
    /// Creates an empty buffer in a region.
    ///
    /// # Safety
    /// The guard's region is taken and lies in `store`, its length is `region_of(cap)`, and only
    /// the caller accesses it.
    #[inline]
    pub(crate) unsafe fn new(guard: GuardPtr, cap: usize, store: RingStorePtr) -> Self {
        // SAFETY: the region is taken and lies in `store`, its length is `region_of(cap)`, and only
        // the caller accesses it.
        unsafe { hand_out(store, guard, cap) };
        // INVARIANT: B1 holds from here.
        Self { data: guard.payload(), cap, len: 0, store }
    }

    /// Creates a buffer of the first `len` bytes of a region's payload.
    ///
    /// # Safety
    /// The guard's region is taken and lies in `store`, its length is `region_of(cap)`, and only
    /// the caller accesses it. The first `len` bytes of the payload are initialised, and `len` is
    /// at most `cap`.
    #[inline]
    pub(crate) unsafe fn from_open(guard: GuardPtr, cap: usize, len: usize, store: RingStorePtr) -> Self {
        // SAFETY: the region is taken, its length is `region_of(cap)`, and only the caller accesses
        // it.
        unsafe { guard.hand_out(cap, region_of(cap)) };
        // INVARIANT: B1 holds from here.
        Self { data: guard.payload(), cap, len, store }
    }

    /// Returns the number of bytes that the buffer can hold, including the written ones.
    #[inline]
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.cap
    }

    /// Returns how many more bytes can be written.
    #[inline]
    #[must_use]
    pub fn spare(&self) -> usize {
        self.cap - self.len
    }

    /// Returns the room after the written bytes as a slice. Call [`FixedBufMut::set_len`] after you
    /// have written part of it.
    #[inline]
    pub fn spare_capacity_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: `len` is at most `cap` (B1), so the result is in the buffer or at its end.
        let start = unsafe { self.data.add(self.len) };
        // SAFETY: the slice is the rest of the buffer, which only this handle accesses (B1).
        // `MaybeUninit` does not require initialised bytes.
        unsafe { slice::from_raw_parts_mut(start.cast().as_ptr(), self.cap - self.len) }
    }

    /// Sets the number of written bytes.
    ///
    /// # Safety
    /// `len` is at most [`FixedBufMut::capacity`], and the first `len` bytes are initialised.
    #[inline]
    pub unsafe fn set_len(&mut self, len: usize) {
        ephemera_prim::invariant!(len <= self.cap, "the length exceeds the capacity");
        self.len = len;
    }

    /// Shortens the buffer to `len` bytes. Does nothing if the buffer has at most `len` bytes.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Removes all bytes. The capacity stays the same.
    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Appends as much of `bytes` as fits. Returns the number of appended bytes.
    #[inline]
    pub fn append(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.cap - self.len);
        // SAFETY: `len` is at most `cap` (B1), so the result is in the buffer or at its end.
        let end = unsafe { self.data.add(self.len) };
        // SAFETY: the buffer has room for `count` more bytes. Only this handle accesses the buffer
        // (B1), so `bytes` does not overlap it.
        unsafe { end.copy_from_nonoverlapping(NonNull::from(bytes).cast(), count) };
        self.len += count;
        count
    }

    /// Appends all of `bytes`.
    ///
    /// # Errors
    /// Returns [`Full`] without writing any bytes if `bytes` does not fit.
    #[inline]
    pub fn try_extend_from_slice(&mut self, bytes: &[u8]) -> Result<(), Full> {
        if bytes.len() > self.spare() {
            return Err(Full { asked: bytes.len(), spare: self.spare() });
        }
        self.append(bytes);
        Ok(())
    }
}

impl Drop for FixedBufMut {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: only this handle accesses the region, which lies in `store` and has
        // `region_of(cap)` bytes (B1). No code uses the buffer after this drop. In builds with
        // checks, `hand_out` was called with the same `cap`.
        unsafe { release(self.store, self.data, self.cap, region_of(self.cap)) };
    }
}

impl Deref for FixedBufMut {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the first `len` bytes are initialised, and this handle keeps the region taken
        // (B1).
        unsafe { slice::from_raw_parts(self.data.as_ptr(), self.len) }
    }
}

impl DerefMut for FixedBufMut {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the first `len` bytes are initialised, and only this handle accesses them (B1).
        unsafe { slice::from_raw_parts_mut(self.data.as_ptr(), self.len) }
    }
}

/// Writes as much as fits. If not all bytes fit, `write_all` writes the bytes that fit and returns
/// an error of kind `WriteZero`.
#[cfg(feature = "std")]
impl std::io::Write for FixedBufMut {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(self.append(bytes))
    }

    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        if self.append(bytes) == bytes.len() { Ok(()) } else { Err(std::io::ErrorKind::WriteZero.into()) }
    }

    #[inline]
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
