//! Defines [`FixedBuf`], a handle to a read-only buffer. A buffer may have any number of these
//! handles.

use core::mem::ManuallyDrop;
use core::ops::{Deref, RangeBounds};
use core::ptr::NonNull;
use core::slice;

use ephemera_prim::poison::unpoison;

use super::fixed::FixedBufMut;
use crate::geometry::room;
use crate::guard::GuardPtr;
use crate::release::release;
use crate::store::RingStorePtr;

/// A handle to a frozen buffer, or to a part of it. A clone costs one atomic addition and does not
/// copy the bytes. Handles can be sent to other threads and shared between threads. Dropping the
/// last handle frees the buffer.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use ringal::RingAl;
///
/// let mut ring = RingAl::new(4096);
/// let mut buffer = ring.fixed(64).expect("an empty ring has room");
/// buffer.append(b"GET /index.html");
/// let request = buffer.freeze();
/// let path = request.slice(4..);
/// assert_eq!(path, "/index.html");
/// assert!(path.ptr_eq(&request));
/// drop(request);
/// assert!(path.try_mut().is_ok());
/// # }
/// ```
pub struct FixedBuf {
    start: NonNull<u8>,
    len: usize,
    guard: GuardPtr,
    store: RingStorePtr,
}

// SAFETY: the handles of a frozen buffer only read it (B1). An atomic counts the handles, so the
// last handle may be dropped on any thread.
unsafe impl Send for FixedBuf {}
// SAFETY: the handles of a frozen buffer only read it (B1). An atomic counts the handles, so the
// last handle may be dropped on any thread.
unsafe impl Sync for FixedBuf {}

impl FixedBufMut {
    /// Makes the buffer read-only, and its handle cloneable. Does not copy the bytes, and does not
    /// allocate, because the count of handles is in the buffer's guard.
    #[inline]
    #[must_use]
    pub fn freeze(self) -> FixedBuf {
        let this = ManuallyDrop::new(self);
        // SAFETY: the buffer starts right after the guard of its region. The region is taken, so
        // its store is not freed (G1).
        let guard = unsafe { GuardPtr::of(this.data) };
        guard.freeze();
        FixedBuf { start: this.data, len: this.len, guard, store: this.store }
    }
}

impl FixedBuf {
    /// Returns a handle to the part `range` of this handle's bytes. Does not copy the bytes. The
    /// new handle keeps the whole buffer live.
    ///
    /// # Panics
    /// Panics if the range is out of bounds. [`FixedBuf::try_slice`] returns `None` instead.
    #[inline]
    #[must_use]
    #[track_caller]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Self {
        match self.try_slice(range) {
            Some(slice) => slice,
            None => out_of_range(self.len),
        }
    }

    /// Returns a handle to the part `range` of this handle's bytes, or `None` if the range is out
    /// of bounds.
    #[inline]
    #[must_use]
    pub fn try_slice(&self, range: impl RangeBounds<usize>) -> Option<Self> {
        let part = self.get((range.start_bound().cloned(), range.end_bound().cloned()))?;
        self.guard.add_handle();
        Some(Self { start: NonNull::from(part).cast(), len: part.len(), ..*self })
    }

    /// Returns whether both handles belong to the same buffer, even if they cover different parts
    /// of it.
    #[inline]
    #[must_use]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        self.guard == other.guard
    }

    /// Returns whether this is the only handle to the buffer.
    #[inline]
    #[must_use]
    pub fn is_unique(&self) -> bool {
        self.guard.is_last()
    }

    /// Makes the buffer writable again. The writable buffer contains the bytes of this handle,
    /// which move to the start of the buffer. The capacity is the original capacity, rounded up to
    /// a multiple of 16 unless feature `checked` is enabled.
    ///
    /// # Errors
    /// Returns this handle unchanged if the buffer has other handles.
    #[inline]
    pub fn try_mut(self) -> Result<FixedBufMut, Self> {
        if !self.is_unique() {
            return Err(self);
        }
        let this = ManuallyDrop::new(self);
        let data = this.guard.payload();
        // SAFETY: this is the only handle, so no other code accesses the buffer (B1). The source
        // and the target have `len` bytes and may overlap.
        unsafe { this.start.copy_to(data, this.len) };
        let cap = this.guard.asked(room(this.guard.held().len()));
        // SAFETY: `len` is at most the capacity `cap`.
        let rest = unsafe { data.add(this.len) };
        // SAFETY: `cap` bytes from `data` on are in the region, which only this handle accesses
        // (B1).
        unsafe { unpoison(rest, cap - this.len) };
        // INVARIANT: B1 holds for the new handle. The copy above initialised its first `len` bytes,
        // and `ManuallyDrop` keeps the old handle from releasing the region.
        Ok(FixedBufMut { data, cap, len: this.len, store: this.store })
    }
}

impl Clone for FixedBuf {
    /// Returns another handle to the same bytes.
    ///
    /// # Aborts
    /// Aborts if the buffer has more than `usize::MAX / 2` handles.
    #[inline]
    fn clone(&self) -> Self {
        self.guard.add_handle();
        Self { ..*self }
    }
}

impl Drop for FixedBuf {
    #[inline]
    fn drop(&mut self) {
        if self.guard.drop_handle() {
            let region = self.guard.held().len();
            let bytes = self.guard.asked(room(region));
            // SAFETY: the dropped handle was the last one, so no other code uses the region (B1).
            // The region lies in `store` and has `region` bytes. In builds with checks, `bytes` is
            // the size that `hand_out` recorded.
            unsafe { release(self.store, self.guard.payload(), bytes, region) };
        }
    }
}

impl Deref for FixedBuf {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the bytes are initialised, and no code writes them while a handle exists (B1).
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn out_of_range(len: usize) -> ! {
    panic!("range out of bounds of a buffer of {len} bytes");
}
