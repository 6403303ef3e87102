//! `Vec<u8>` over an allocator of blocks: what a program has before it thinks of a buffer pool. The vector is
//! allocator-api2's, which is the standard library's with an allocator; it is the same for all allocators, the reference
//! included.

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use allocator_api2::alloc::{AllocError, Allocator};
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;

use crate::blocks::{Contender, RawAlloc};
use crate::buffers::{Buffer, Demand, Growing, Readable, Source};
use crate::card::Info;

/// Vectors over the contender `C`.
pub struct Vectors<C: 'static>(&'static C);

impl<C> fmt::Debug for Vectors<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Vectors").finish_non_exhaustive()
    }
}

/// A contender as an allocator, without the `black_box` of the blocks' workloads: buffers have their own.
#[derive(Clone, Copy, Debug)]
pub struct Plain<R>(R);

#[inline(always)]
fn whole(ptr: *mut u8, size: usize) -> Result<NonNull<[u8]>, AllocError> {
    let ptr = NonNull::new(ptr).ok_or(AllocError)?;
    Ok(NonNull::slice_from_raw_parts(ptr, size))
}

// SAFETY: `RawAlloc` promises valid, exclusive blocks until they are freed, from equivalent copies. No workload takes an
// empty buffer, so that no layout is empty.
unsafe impl<R: RawAlloc + Copy> Allocator for Plain<R> {
    #[inline(always)]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the size is above zero.
        whole(unsafe { self.0.raw_alloc(layout) }, layout.size())
    }

    #[inline(always)]
    unsafe fn deallocate(&self, ptr: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's duty is the callee's.
        unsafe { self.0.raw_dealloc(ptr.as_ptr(), layout) }
    }

    #[inline(always)]
    unsafe fn grow(&self, ptr: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's duty is the callee's.
        whole(unsafe { self.0.raw_grow(ptr.as_ptr(), old, new) }, new.size())
    }
}

impl<R: RawAlloc + Copy> Readable for Vec<u8, Plain<R>> {
    #[inline(always)]
    fn start(&self) -> *const u8 {
        self.as_ptr()
    }

    #[inline(always)]
    fn read(&self, mut each: impl FnMut(&[u8])) {
        each(self);
    }
}

impl<R: RawAlloc + Copy + 'static> Buffer for Vec<u8, Plain<R>> {
    type Frozen = SharedVector<R>;

    /// What the standard vector's `extend_from_slice` compiles to; allocator-api2's clones byte by byte.
    #[inline(always)]
    fn write(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        let old = self.len();
        // SAFETY: the length is within the capacity.
        let end = unsafe { self.as_mut_ptr().add(old) };
        // SAFETY: room for so many was reserved, and a slice that is borrowed lies elsewhere.
        unsafe { end.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        // SAFETY: so many were written just now.
        unsafe { self.set_len(old + bytes.len()) };
    }

    #[inline(always)]
    fn freeze(self) -> SharedVector<R> {
        let alloc = *self.allocator();
        let (counted, _) = Box::into_raw_with_allocator(Box::new_in(
            CountedBytes { count: AtomicUsize::new(1), bytes: self },
            alloc,
        ));
        // SAFETY: a box is not null.
        SharedVector(unsafe { NonNull::new_unchecked(counted) })
    }
}

impl<R: RawAlloc + Copy + 'static> Growing for Vec<u8, Plain<R>> {
    type Done = Self;

    #[inline(always)]
    fn write(&mut self, bytes: &[u8]) -> bool {
        Buffer::write(self, bytes);
        true
    }

    #[inline(always)]
    fn finish(self) -> Self {
        self
    }
}

/// A vector and how many share it.
#[derive(Debug)]
struct CountedBytes<R: RawAlloc + Copy> {
    count: AtomicUsize,
    bytes: Vec<u8, Plain<R>>,
}

/// `Arc<Vec<u8>>`, were there one that takes an allocator.
pub struct SharedVector<R: RawAlloc + Copy>(NonNull<CountedBytes<R>>);

impl<R: RawAlloc + Copy> fmt::Debug for SharedVector<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shared").finish_non_exhaustive()
    }
}

impl<R: RawAlloc + Copy> SharedVector<R> {
    #[inline(always)]
    fn get(&self) -> &CountedBytes<R> {
        // SAFETY: this handle is counted, so the box is alive.
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
        // ORDERING: AcqRel. Pairs with itself in the `drop` of the others. Publishes: the end of their use of the bytes.
        if self.get().count.fetch_sub(1, Ordering::AcqRel) == 1 {
            let alloc = *self.get().bytes.allocator();
            // SAFETY: the box was made of this allocator in `freeze`, and this was the last handle.
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

// SAFETY: a vector's bytes are its own; the card of the allocator says where it may be freed.
unsafe impl<C: Contender> Source for Vectors<C>
where
    C::Ref<'static>: 'static,
{
    const INFO: Info = C::INFO;
    type Backing = C::Backing;
    type Buf = Vec<u8, Plain<C::Ref<'static>>>;
    type Growing<'s> = Self::Buf;

    fn create(_demand: &Demand) -> Self {
        // Zero-sized for all contenders of this kind, so that nothing is leaked.
        const { assert!(size_of::<C>() == 0, "a vector holds its allocator") };
        Self(std::boxed::Box::leak(std::boxed::Box::new(C::create())))
    }

    #[inline(always)]
    unsafe fn raw_take(&mut self, capacity: usize) -> Option<Self::Buf> {
        Some(Vec::with_capacity_in(capacity, Plain(self.0.by_ref())))
    }

    #[inline(always)]
    unsafe fn raw_grow(&mut self, first: usize) -> Option<Self::Buf> {
        Some(Vec::with_capacity_in(first, Plain(self.0.by_ref())))
    }
}
