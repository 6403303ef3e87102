//! `FixedBuf`: a buffer that is written no more, for any number of holders.

use core::mem::ManuallyDrop;
use core::ops::{Bound, Deref, RangeBounds};
use core::ptr::NonNull;
use core::slice;

use ephemera_prim::poison::unpoison;

use super::FixedBufMut;
use crate::checked;
use crate::geometry::room;
use crate::guard::GuardPtr;
use crate::store::{StorePtr, release};

/// A frozen buffer, or a part of one: cheap to clone, can be shared between threads. The last handle gives the bytes back.
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
    store: StorePtr,
}

// SAFETY: nobody writes a frozen buffer, and its handles are counted by atomics (B1).
unsafe impl Send for FixedBuf {}
// SAFETY: as above.
unsafe impl Sync for FixedBuf {}

impl FixedBuf {
    /// # Safety
    /// B1 for the only handle of the buffer at `data`.
    #[inline]
    pub(super) unsafe fn new(data: NonNull<u8>, len: usize, store: StorePtr) -> Self {
        // SAFETY: G1 by B1.
        let guard = unsafe { GuardPtr::of(data) };
        guard.freeze();
        Self { start: data, len, guard, store }
    }

    /// A handle to a part of these bytes. Nothing is copied; the whole buffer stays in use.
    ///
    /// # Panics
    /// When the range does not lie in these bytes, as indexing does. [`FixedBuf::try_slice`] does not.
    #[inline]
    #[must_use]
    #[track_caller]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Self {
        match self.try_slice(range) {
            Some(slice) => slice,
            None => out_of_range(self.len),
        }
    }

    /// A handle to a part of these bytes; `None` when the range does not lie in them.
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

    /// Whether two handles are to one buffer, of which they may show different parts.
    #[inline]
    #[must_use]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        self.guard == other.guard
    }

    /// Whether this is the only handle to the buffer.
    #[inline]
    #[must_use]
    pub fn is_unique(&self) -> bool {
        self.guard.is_last()
    }

    /// The buffer as one that can be written again, with the bytes of this handle in it and the room that it had, rounded up to 16. If
    /// they do not start the buffer, they are moved there.
    ///
    /// # Errors
    /// The handle itself, if it is not the only one.
    #[inline]
    pub fn try_mut(self) -> Result<FixedBufMut, Self> {
        if !self.is_unique() {
            return Err(self);
        }
        let this = ManuallyDrop::new(self);
        let data = this.guard.payload();
        // SAFETY: `len` bytes of the buffer, which is this handle's alone now (B1); the places may overlap.
        unsafe { this.start.copy_to(data, this.len) };
        let cap = checked::asked(this.guard, room(this.guard.held().len()));
        // SAFETY: `len` bytes are in the buffer, as it was asked for.
        let rest = unsafe { data.add(this.len) };
        // SAFETY: the region's room, which is this handle's alone; what was asked for may have been a little less.
        unsafe { unpoison(rest, cap - this.len) };
        // SAFETY: the only handle of the region, whose length is that for `cap` bytes (B1); it is not dropped.
        Ok(unsafe { FixedBufMut::from_parts(data, cap, this.len, this.store) })
    }
}

impl Clone for FixedBuf {
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
            let bytes = checked::asked(self.guard, room(region));
            // SAFETY: that was the last handle (B1), and this is its end.
            unsafe { release(self.store, self.guard.payload(), bytes, region) };
        }
    }
}

impl Deref for FixedBuf {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: initialised, and nobody writes it while a handle lives (B1).
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn out_of_range(len: usize) -> ! {
    panic!("the range does not lie in a buffer of {len} bytes");
}
