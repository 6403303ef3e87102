//! `GenericBufMut`: a buffer of elements of any type.

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::{self, NonNull};
use core::slice;

use crate::geometry::region_of;
use crate::guard::GuardPtr;
use crate::store::{StorePtr, hand_out, release};

/// A buffer for a fixed number of elements, aligned for them. It derefs to those that are there, and drops them.
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
    store: StorePtr,
    elements: PhantomData<T>,
}

// SAFETY: the region is the handle's alone (B1), and the elements go with it.
unsafe impl<T: Send> Send for GenericBufMut<T> {}
// SAFETY: a shared handle shares the elements, and nothing else.
unsafe impl<T: Sync> Sync for GenericBufMut<T> {}

impl<T> GenericBufMut<T> {
    /// # Safety
    /// The guard's region is taken, of this store, the caller's alone, that of `cap` elements, and aligned for them.
    #[inline]
    pub(crate) unsafe fn new(guard: GuardPtr, cap: usize, store: StorePtr) -> Self {
        // SAFETY: the caller's region.
        unsafe { hand_out(store, guard, cap * size_of::<T>()) };
        // INVARIANT: B1 holds from here.
        Self { data: guard.payload().cast(), cap, len: 0, store, elements: PhantomData }
    }

    /// How many elements there is room for in all.
    #[inline]
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.cap
    }

    /// Appends an element. When the buffer is full, it comes back.
    #[inline]
    pub fn push(&mut self, value: T) -> Option<T> {
        if self.len == self.cap {
            return Some(value);
        }
        // SAFETY: `len` is less than `cap` (B1).
        let place = unsafe { self.data.add(self.len) };
        // SAFETY: in the region, which is this handle's (B1); no element is there.
        unsafe { place.write(value) };
        self.len += 1;
        None
    }

    /// Inserts an element at `index` and shifts those from there on. When the buffer is full, or has no such place, it comes back.
    #[inline]
    pub fn insert(&mut self, value: T, index: usize) -> Option<T> {
        if self.len == self.cap || index > self.len {
            return Some(value);
        }
        // SAFETY: `index` is at most `len`, which is less than `cap` (B1).
        let place = unsafe { self.data.add(index) };
        // SAFETY: as above.
        let next = unsafe { place.add(1) };
        // SAFETY: the elements from `index` on, of which the last goes to where none is.
        unsafe { place.copy_to(next, self.len - index) };
        // SAFETY: what was there is one further now.
        unsafe { place.write(value) };
        self.len += 1;
        None
    }

    /// Takes the last element out; `None` when there is none.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let last = self.len.checked_sub(1)?;
        self.len = last;
        // SAFETY: below the old length (B1).
        let place = unsafe { self.data.add(last) };
        // SAFETY: initialised, and not counted as there any more.
        Some(unsafe { place.read() })
    }

    /// Takes the element at `index` out and shifts those behind it; `None` when there is none.
    #[inline]
    pub fn remove(&mut self, index: usize) -> Option<T> {
        if index >= self.len {
            return None;
        }
        // SAFETY: below the length (B1).
        let place = unsafe { self.data.add(index) };
        // SAFETY: initialised; what is left there is overwritten, or not counted any more.
        let value = unsafe { place.read() };
        // SAFETY: at most the length.
        let next = unsafe { place.add(1) };
        self.len -= 1;
        // SAFETY: the elements behind it, one place down.
        unsafe { next.copy_to(place, self.len - index) };
        Some(value)
    }

    /// Takes the element at `index` out and puts the last one there; `None` when there is none.
    #[inline]
    pub fn swap_remove(&mut self, index: usize) -> Option<T> {
        if index >= self.len {
            return None;
        }
        let last = self.len - 1;
        self.swap(index, last);
        self.pop()
    }

    /// Drops the elements from `len` on; does nothing where there are fewer.
    pub fn truncate(&mut self, len: usize) {
        if len >= self.len {
            return;
        }
        let count = self.len - len;
        // They are not counted any more before user code runs: if a destructor panics, the rest is dropped or leaked, and
        // nothing is dropped twice.
        self.len = len;
        // SAFETY: at most the old length (B1).
        let rest = unsafe { self.data.add(len) };
        let rest = ptr::slice_from_raw_parts_mut(rest.as_ptr(), count);
        // SAFETY: initialised elements that nobody counts any more.
        unsafe { ptr::drop_in_place(rest) };
    }

    /// Drops all elements. The buffer keeps its size.
    pub fn clear(&mut self) {
        self.truncate(0);
    }
}

impl<T> Drop for GenericBufMut<T> {
    #[inline]
    fn drop(&mut self) {
        /// Gives the region back, also when a destructor panics.
        struct Region {
            store: StorePtr,
            data: NonNull<u8>,
            bytes: usize,
        }
        impl Drop for Region {
            #[inline]
            fn drop(&mut self) {
                // SAFETY: made below; the elements are gone, and this is the end of their handle.
                unsafe { release(self.store, self.data, self.bytes, region_of(self.bytes)) };
            }
        }
        let _region = Region { store: self.store, data: self.data.cast(), bytes: self.cap * size_of::<T>() };
        self.truncate(0);
    }
}

impl<T> Deref for GenericBufMut<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: initialised, and this handle's (B1); the data pointer is aligned for `T` and not null.
        unsafe { slice::from_raw_parts(self.data.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for GenericBufMut<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and this handle's alone.
        unsafe { slice::from_raw_parts_mut(self.data.as_ptr(), self.len) }
    }
}

/// Appends elements until the buffer is full. The iterator is not asked for more than fit.
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
