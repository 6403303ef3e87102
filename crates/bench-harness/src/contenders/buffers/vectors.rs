//! `Vec<u8>` over an allocator of blocks, as in a program without a buffer pool. All contenders of
//! this kind, including the reference, use the vector of allocator-api2, which accepts an
//! allocator.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;

use crate::blocks::{BlockHandle, Contender, RawAlloc};
use crate::buffers::{Buffer, Demand, Readable, Source, readable};
use crate::card::Info;

/// A source of vectors over the contender `C`.
pub(crate) struct Vectors<C: 'static>(&'static C);

/// A vector over a handle of an allocator. The handle does not hide pointers, because workloads
/// over buffers call `black_box` themselves.
type Bytes<R> = Vec<u8, BlockHandle<R, false>>;

readable! { [R: RawAlloc + Copy] Bytes<R> }

impl<R: RawAlloc + Copy + 'static> Buffer for Bytes<R> {
    type Frozen = SharedVector<R>;

    /// Appends bytes with the code to which the standard vector's `extend_from_slice` compiles. The
    /// vector of allocator-api2 would clone byte by byte.
    #[inline(always)]
    fn write(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        let old = self.len();
        // SAFETY: the length is within the capacity.
        let end = unsafe { self.as_mut_ptr().add(old) };
        // SAFETY: `reserve` made room for these bytes, and the vector is borrowed mutably, so
        // `bytes` does not overlap it.
        unsafe { end.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        // SAFETY: the line above wrote these bytes.
        unsafe { self.set_len(old + bytes.len()) };
    }

    #[inline(always)]
    fn freeze(self) -> SharedVector<R> {
        let alloc = *self.allocator();
        let (counted, _) = Box::into_raw_with_allocator(Box::new_in(
            CountedBytes { count: AtomicUsize::new(1), bytes: self },
            alloc,
        ));
        // SAFETY: the pointer came from a box, so it is not null.
        SharedVector(unsafe { NonNull::new_unchecked(counted) })
    }
}

/// A vector and the number of its handles.
struct CountedBytes<R: RawAlloc + Copy> {
    count: AtomicUsize,
    bytes: Bytes<R>,
}

/// A counterpart of `Arc<Vec<u8>>` that accepts an allocator.
pub(crate) struct SharedVector<R: RawAlloc + Copy>(NonNull<CountedBytes<R>>);

impl<R: RawAlloc + Copy> SharedVector<R> {
    #[inline(always)]
    fn get(&self) -> &CountedBytes<R> {
        // SAFETY: the count includes this handle, so the box is live.
        unsafe { self.0.as_ref() }
    }
}

impl<R: RawAlloc + Copy> Clone for SharedVector<R> {
    #[inline(always)]
    fn clone(&self) -> Self {
        self.get().count.fetch_add(1, Ordering::Relaxed);
        Self(self.0)
    }
}

impl<R: RawAlloc + Copy> Drop for SharedVector<R> {
    #[inline(always)]
    fn drop(&mut self) {
        // ORDERING: AcqRel. Pairs with the AcqRel in `SharedVector::drop`. Publishes: this handle's
        // last access to the bytes.
        if self.get().count.fetch_sub(1, Ordering::AcqRel) == 1 {
            let alloc = *self.get().bytes.allocator();
            // SAFETY: `freeze` made the box from this allocator, and this is the last handle.
            drop(unsafe { Box::from_raw_in(self.0.as_ptr(), alloc) });
        }
    }
}

impl<R: RawAlloc + Copy> Readable for SharedVector<R> {
    #[inline(always)]
    fn start(&self) -> *const u8 {
        self.get().bytes.as_ptr()
    }

    #[inline(always)]
    fn read(&self, mut each: impl FnMut(&[u8])) {
        each(&self.get().bytes);
    }
}

// SAFETY: a vector's bytes are exclusive to it. The allocator's card says which threads may free a
// vector.
unsafe impl<C: Contender> Source for Vectors<C>
where
    C::Ref<'static>: 'static,
{
    const INFO: Info = C::INFO;
    type Backing = C::Backing;
    type Buf = Bytes<C::Ref<'static>>;

    fn create(_demand: &Demand) -> Self {
        // All contenders of this kind are zero-sized, so nothing leaks.
        const { assert!(size_of::<C>() == 0, "a vector holds its allocator") };
        Self(std::boxed::Box::leak(std::boxed::Box::new(C::create())))
    }

    #[inline(always)]
    unsafe fn raw_take(&mut self, capacity: usize) -> Option<Self::Buf> {
        Some(Vec::with_capacity_in(capacity, BlockHandle(self.0.by_ref())))
    }
}
