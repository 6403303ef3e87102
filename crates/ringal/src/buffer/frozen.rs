//! `FixedBuf`: a read-only buffer with any number of handles.

use core::mem::ManuallyDrop;
use core::ops::{Bound, Deref, RangeBounds};
use core::ptr::NonNull;
use core::slice;

use ephemera_prim::poison::unpoison;

use super::fixed::FixedBufMut;
use crate::geometry::room;
use crate::guard::GuardPtr;
use crate::release::release;
use crate::store::RingStorePtr;

/// A handle to a frozen buffer, or to a part of one. A clone costs one atomic addition and copies
/// no bytes. Handles can be sent to and shared between threads. The last handle frees the buffer.
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

// SAFETY: the handles of a frozen buffer only read it (B1), and an atomic counts them, so the last
// one may be dropped on any thread.
unsafe impl Send for FixedBuf {}
// SAFETY: the handles of a frozen buffer only read it (B1), and an atomic counts them, so the last
// one may be dropped on any thread.
unsafe impl Sync for FixedBuf {}

impl FixedBufMut {
    /// Freezes the buffer: it is read-only from then on, and its handle can be cloned. The count of
    /// handles is in the buffer's guard, so this neither allocates nor copies.
    #[inline]
    #[must_use]
    pub fn freeze(self) -> FixedBuf {
        let (start, len, store) = self.into_parts();
        // SAFETY: the region is taken, so its store is not freed (G1).
        let guard = unsafe { GuardPtr::of(start) };
        guard.freeze();
        FixedBuf { start, len, guard, store }
    }
}

impl FixedBuf {
    /// Returns a handle to the part `range` of this handle's bytes. Nothing is copied, and the
    /// whole buffer stays in use.
    ///
    /// # Panics
    /// Panics if the range does not lie in this handle's bytes. [`FixedBuf::try_slice`] returns
    /// `None` instead.
    #[inline]
    #[must_use]
    #[track_caller]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Self {
        match self.try_slice(range) {
            Some(slice) => slice,
            None => out_of_range(self.len),
        }
    }

    /// Returns a handle to the part `range` of this handle's bytes, or `None` if the range does not
    /// lie in them.
    #[inline]
    #[must_use]
    pub fn try_slice(&self, range: impl RangeBounds<usize>) -> Option<Self> {
        let from = match range.start_bound() {
            Bound::Included(&from) => from,
            Bound::Excluded(&before) => before.checked_add(1)?,
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(&last) => last.checked_add(1)?,
            Bound::Excluded(&to) => to,
            Bound::Unbounded => self.len,
        };
        if from > to || to > self.len {
            return None;
        }
        let mut part = self.clone();
        // SAFETY: `from` is at most `len`.
        part.start = unsafe { self.start.add(from) };
        part.len = to - from;
        Some(part)
    }

    /// Returns whether both handles belong to the same buffer. They may cover different parts of
    /// it.
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

    /// Makes the buffer writable again. It contains the bytes of this handle, and its capacity is
    /// the original one rounded up to 16, or exactly the original one with feature `checked`. If
    /// the bytes are not at the start of the buffer, they are moved there.
    ///
    /// # Errors
    /// Returns the handle if it is not the only one.
    #[inline]
    pub fn try_mut(self) -> Result<FixedBufMut, Self> {
        if !self.is_unique() {
            return Err(self);
        }
        let this = ManuallyDrop::new(self);
        let data = this.guard.payload();
        // SAFETY: this is the only handle, so nobody else accesses the buffer (B1). `len` bytes fit
        // at both places, which may overlap.
        unsafe { this.start.copy_to(data, this.len) };
        let cap = this.guard.asked(room(this.guard.held().len()));
        // SAFETY: `len` is at most the capacity `cap`.
        let rest = unsafe { data.add(this.len) };
        // SAFETY: `cap` bytes are in the region, which only this handle accesses.
        unsafe { unpoison(rest, cap - this.len) };
        // SAFETY: this is the only handle, and it is not dropped. The length of the region is
        // `region_of(cap)` (B1).
        Ok(unsafe { FixedBufMut::from_parts(data, cap, this.len, this.store) })
    }
}

impl Clone for FixedBuf {
    /// Creates another handle of the same bytes.
    ///
    /// # Aborts
    /// Aborts if the buffer has more than `usize::MAX / 2` handles.
    #[inline]
    fn clone(&self) -> Self {
        self.guard.witness_touch();
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
            // SAFETY: that was the last handle, so nobody uses the region after this drop (B1).
            unsafe { release(self.store, self.guard.payload(), bytes, region) };
        }
    }
}

impl Deref for FixedBuf {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the bytes are initialised, and nobody writes them while a handle exists (B1).
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn out_of_range(len: usize) -> ! {
    panic!("range out of bounds of a buffer of {len} bytes");
}
