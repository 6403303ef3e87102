//! `FixedBufMut`: a buffer of a fixed size, for one holder.

use core::mem::{ManuallyDrop, MaybeUninit};
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::slice;

use super::FixedBuf;
use crate::checked;
use crate::error::Full;
use crate::geometry::region_of;
use crate::guard::GuardPtr;
use crate::store::{StorePtr, hand_out, release};

/// A buffer of a fixed size: the bytes that were written, and room for more. Can be sent to another thread.
///
/// It derefs to the written bytes. Writing more than there is room for writes what fits. Dropping it gives
/// its bytes back to the ring, on any thread, also after the ring is gone.
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
    data: NonNull<u8>,
    cap: usize,
    len: usize,
    store: StorePtr,
}

// SAFETY: the region is the handle's alone (B1), wherever the handle is; its release is an atomic store.
unsafe impl Send for FixedBufMut {}
// SAFETY: a shared handle only shows the written bytes.
unsafe impl Sync for FixedBufMut {}

impl FixedBufMut {
    /// # Safety
    /// The guard's region is taken, of this store, the caller's alone, and that of `cap` bytes.
    #[inline]
    pub(crate) unsafe fn new(guard: GuardPtr, cap: usize, store: StorePtr) -> Self {
        // SAFETY: the caller's region.
        unsafe { hand_out(store, guard, cap) };
        // INVARIANT: B1 holds from here.
        Self { data: guard.payload(), cap, len: 0, store }
    }

    /// As [`FixedBufMut::new`], for a region with written bytes, which stay.
    ///
    /// # Safety
    /// As for [`FixedBufMut::new`].
    #[inline]
    pub(crate) unsafe fn from_open(guard: GuardPtr, cap: usize, store: StorePtr) -> Self {
        let data = guard.payload();
        // SAFETY: the region is the caller's.
        unsafe { checked::hand_out(guard, data, cap, region_of(cap)) };
        // INVARIANT: B1 holds from here.
        Self { data, cap, len: 0, store }
    }

    /// # Safety
    /// The buffer of `cap` bytes at `data` is the caller's alone and was handed out already; its first `len` bytes are initialised.
    #[inline]
    pub(super) unsafe fn from_parts(data: NonNull<u8>, cap: usize, len: usize, store: StorePtr) -> Self {
        Self { data, cap, len, store }
    }

    /// The whole size, in bytes.
    #[inline]
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.cap
    }

    /// Bytes that can still be written.
    #[inline]
    #[must_use]
    pub fn spare(&self) -> usize {
        self.cap - self.len
    }

    /// The bytes behind the written ones. Say how many of them you wrote with [`FixedBufMut::set_len`].
    #[inline]
    pub fn spare_capacity_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: `len <= cap` (B1).
        let start = unsafe { self.data.add(self.len) };
        // SAFETY: the rest of the buffer, which is this handle's (B1); it need not be initialised.
        unsafe { slice::from_raw_parts_mut(start.cast().as_ptr(), self.cap - self.len) }
    }

    /// Says how many bytes are written.
    ///
    /// # Safety
    /// `len` is at most [`FixedBufMut::capacity`], and so many bytes are initialised.
    #[inline]
    pub unsafe fn set_len(&mut self, len: usize) {
        ephemera_prim::invariant!(len <= self.cap, "more was written than there is room for");
        self.len = len;
    }

    /// Forgets the bytes from `len` on; does nothing where there are fewer.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Forgets all bytes. The buffer keeps its size.
    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Appends as much of `bytes` as fits, and returns how much that was.
    #[inline]
    pub fn append(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.cap - self.len);
        // SAFETY: `len <= cap` (B1).
        let end = unsafe { self.data.add(self.len) };
        // SAFETY: `count` bytes are left in the buffer, and nobody has a reference to those (B1).
        unsafe { end.copy_from_nonoverlapping(NonNull::from(bytes).cast(), count) };
        self.len += count;
        count
    }

    /// Appends all of `bytes`.
    ///
    /// # Errors
    /// [`Full`] if they do not fit: nothing is written then.
    #[inline]
    pub fn try_extend_from_slice(&mut self, bytes: &[u8]) -> Result<(), Full> {
        if bytes.len() > self.spare() {
            return Err(Full { asked: bytes.len(), spare: self.spare() });
        }
        self.append(bytes);
        Ok(())
    }

    /// Ends writing: the buffer can then be cloned and shared. Its count of handles stands beside its guard, so nothing
    /// is allocated or copied.
    #[inline]
    #[must_use]
    pub fn freeze(self) -> FixedBuf {
        let this = ManuallyDrop::new(self);
        // SAFETY: the region is this handle's alone (B1), which is not dropped.
        unsafe { FixedBuf::new(this.data, this.len, this.store) }
    }
}

impl Drop for FixedBufMut {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the region is this handle's alone (B1), and this is its end.
        unsafe { release(self.store, self.data, self.cap, region_of(self.cap)) };
    }
}

impl Deref for FixedBufMut {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: initialised, and this handle's (B1).
        unsafe { slice::from_raw_parts(self.data.as_ptr(), self.len) }
    }
}

impl DerefMut for FixedBufMut {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: initialised, and this handle's alone (B1).
        unsafe { slice::from_raw_parts_mut(self.data.as_ptr(), self.len) }
    }
}

/// Writes as much as fits; `write_all` fails with the kind `WriteZero` where that is not all.
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
