//! Defines [`GenericBufMut`], a buffer of elements of any type.

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::slice;

use super::fixed::FixedBufMut;
use crate::guard::GuardPtr;
use crate::store::{RingStorePtr, hand_out};

/// A buffer for a fixed number of elements, aligned for their type. It dereferences to the
/// elements. Dropping the buffer drops its elements.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use ringal::RingAl;
///
/// let mut ring = RingAl::new(4096);
/// let mut names = ring.generic::<String>(2).expect("an empty ring has room");
/// assert_eq!(names.push("Ada".to_owned()), None);
/// assert_eq!(names.insert("Grace".to_owned(), 0), None);
/// assert_eq!(names.push("Edsger".to_owned()).as_deref(), Some("Edsger"));
/// assert_eq!(names[..], ["Grace", "Ada"]);
/// # }
/// ```
pub struct GenericBufMut<T> {
    data: NonNull<T>,
    cap: usize,
    len: usize,
    store: RingStorePtr,
    elements: PhantomData<T>,
}

// SAFETY: only this handle accesses the region (B1), and the elements are `Send`.
unsafe impl<T: Send> Send for GenericBufMut<T> {}
// SAFETY: `&GenericBufMut` gives only shared access to the elements, which are `Sync`.
unsafe impl<T: Sync> Sync for GenericBufMut<T> {}

impl<T> GenericBufMut<T> {
    /// Creates an empty buffer in a region.
    ///
    /// # Safety
    /// The guard's region is taken and lies in `store`. The length of the region is what
    /// `region_of` returns for the size of `cap` elements in bytes. The payload of the region is
    /// aligned for `T`, and only the caller accesses the region.
    #[inline]
    pub(crate) unsafe fn new(guard: GuardPtr, cap: usize, store: RingStorePtr) -> Self {
        // SAFETY: the region is taken and lies in `store`, its length is the length for the size of
        // `cap` elements, and only the caller accesses it.
        unsafe { hand_out(store, guard, cap * size_of::<T>()) };
        // INVARIANT: B1 holds from here.
        Self { data: guard.payload().cast(), cap, len: 0, store, elements: PhantomData }
    }

    /// Returns the total number of elements that the buffer has room for.
    #[inline]
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.cap
    }

    /// Appends an element and returns `None`. If the buffer is full, returns the element instead.
    #[inline]
    pub fn push(&mut self, value: T) -> Option<T> {
        if self.len == self.cap {
            return Some(value);
        }
        // SAFETY: `len` is less than `cap`, so the place is in the buffer (B1).
        let place = unsafe { self.data.add(self.len) };
        // SAFETY: only this handle accesses the region (B1), and the place does not contain an
        // element.
        unsafe { place.write(value) };
        self.len += 1;
        None
    }

    /// Inserts an element at `index`, shifts the elements at and after `index` to the right, and
    /// returns `None`. If the buffer is full or `index` is above the length, returns the element
    /// instead.
    #[inline]
    pub fn insert(&mut self, value: T, index: usize) -> Option<T> {
        if self.len == self.cap || index > self.len {
            return Some(value);
        }
        // SAFETY: `index` is at most `len`, which is less than `cap` (B1).
        let place = unsafe { self.data.add(index) };
        // SAFETY: `index` is less than `cap` (B1), so `next` is in the buffer or at its end.
        let next = unsafe { place.add(1) };
        // SAFETY: `len - index` elements move up by one, and `len` is less than `cap`, so they stay
        // in the buffer.
        unsafe { place.copy_to(next, self.len - index) };
        // SAFETY: `index` is less than `cap` (B1), so `place` has room for an element. Any element
        // at `index` has moved up, so this write does not overwrite it.
        unsafe { place.write(value) };
        self.len += 1;
        None
    }

    /// Removes and returns the last element. Returns `None` if the buffer is empty.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let last = self.len.checked_sub(1)?;
        self.len = last;
        // SAFETY: `last` is below the old length (B1).
        let place = unsafe { self.data.add(last) };
        // SAFETY: the element is initialised, and the new length does not include it.
        Some(unsafe { place.read() })
    }

    /// Removes and returns the element at `index`, and shifts all elements after it to the left.
    /// Returns `None` if `index` is out of bounds.
    #[inline]
    pub fn remove(&mut self, index: usize) -> Option<T> {
        if index >= self.len {
            return None;
        }
        // SAFETY: `index` is below the length (B1).
        let place = unsafe { self.data.add(index) };
        // SAFETY: the element is initialised. It is not read again, because the copy below
        // overwrites its place, or the new length excludes that place.
        let value = unsafe { place.read() };
        // SAFETY: `index` is less than the length, so `next` is in the buffer or at its end.
        let next = unsafe { place.add(1) };
        self.len -= 1;
        // SAFETY: the elements after `index` move down by one, within the old length.
        unsafe { next.copy_to(place, self.len - index) };
        Some(value)
    }

    /// Removes and returns the element at `index`, and replaces it with the last element. Returns
    /// `None` if `index` is out of bounds.
    #[inline]
    pub fn swap_remove(&mut self, index: usize) -> Option<T> {
        if index >= self.len {
            return None;
        }
        let last = self.len - 1;
        self.swap(index, last);
        self.pop()
    }

    /// Drops the elements from index `len` on. Does nothing if the buffer has at most `len`
    /// elements.
    pub fn truncate(&mut self, len: usize) {
        if len >= self.len {
            return;
        }
        let rest = &raw mut self[len..];
        // Shorten the buffer before destructors run. If a destructor panics, `drop_in_place` still
        // drops the other elements, and no element is dropped twice.
        self.len = len;
        // SAFETY: the elements are initialised, and the new length does not include them.
        unsafe { rest.drop_in_place() };
    }

    /// Drops all elements. The capacity stays the same.
    pub fn clear(&mut self) {
        self.truncate(0);
    }
}

impl<T> Drop for GenericBufMut<T> {
    #[inline]
    fn drop(&mut self) {
        // INVARIANT: B1 holds for this handle of an empty byte buffer, to which the region passes.
        // Its drop releases the region, even if the destructor of an element panics.
        let _region =
            FixedBufMut { data: self.data.cast(), cap: self.cap * size_of::<T>(), len: 0, store: self.store };
        self.truncate(0);
    }
}

impl<T> Deref for GenericBufMut<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the first `len` elements are initialised, and this handle keeps the region taken
        // (B1). The data pointer is aligned for `T` and not null.
        unsafe { slice::from_raw_parts(self.data.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for GenericBufMut<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: the first `len` elements are initialised, and only this handle accesses them
        // (B1). The data pointer is aligned for `T` and not null.
        unsafe { slice::from_raw_parts_mut(self.data.as_ptr(), self.len) }
    }
}

/// Appends elements until the buffer is full or the iterator ends. Takes only as many elements from
/// the iterator as fit.
impl<T> Extend<T> for GenericBufMut<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        let mut values = values.into_iter();
        while self.len < self.cap {
            let Some(value) = values.next() else { break };
            self.push(value);
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for GenericBufMut<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
