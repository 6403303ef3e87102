//! Blocks of any size: what an allocator must offer to be a contender, and how a workload calls it.
//!
//! The crates that are compared share no trait (allocator-api2 0.2, 0.4 and `GlobalAlloc` are three), so the harness
//! has one of its own, dispatched statically. A contender implements the `raw_*` methods; a workload calls the others,
//! which pass every pointer through [`black_box`] after it came and before it goes. Without that the compiler removes
//! pairs of `malloc` and `free` that it can see, but none of another allocator's, and the table is a lie.

use core::alloc::Layout;
use core::hint::black_box;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};

use crate::card::Info;

/// An allocator of any size, as the workloads see it.
///
/// # Safety
///
/// * A block returned by `raw_alloc`, `raw_alloc_zeroed`, `raw_grow` or `raw_shrink` is null or fits the layout asked for
///   and stays valid, exclusive to its holder, until it is handed to `raw_dealloc`, `raw_grow` or `raw_shrink` (unless
///   [`Caps::keeps_contents`](crate::card::Caps::keeps_contents) is off: then blocks may share memory, and must not be read as anything but bytes).
/// * Copies and references of one allocator are equivalent: each may free what another one gave.
/// * Where the contender's [`Caps::any_thread_free`](crate::card::Caps::any_thread_free) is on, `raw_dealloc` may be called on any thread, at the same time as
///   `raw_alloc` on the thread that made the allocator.
pub unsafe trait RawAlloc {
    /// Whether the workload shall verify what it wrote: on in the check run alone, off in the timed one.
    const CHECKED: bool = false;

    /// Returns a block for `layout`, or null.
    ///
    /// # Safety
    ///
    /// `layout` has a size above zero.
    unsafe fn raw_alloc(&self, layout: Layout) -> *mut u8;

    /// Returns a zeroed block for `layout`, or null.
    ///
    /// # Safety
    ///
    /// `layout` has a size above zero.
    unsafe fn raw_alloc_zeroed(&self, layout: Layout) -> *mut u8;

    /// Takes a block back.
    ///
    /// # Safety
    ///
    /// `ptr` came from this allocator for `layout` and is not used afterwards.
    unsafe fn raw_dealloc(&self, ptr: *mut u8, layout: Layout);

    /// Makes a block larger, contents kept; null leaves the old one as it was.
    ///
    /// # Safety
    ///
    /// As for [`raw_dealloc`](Self::raw_dealloc) with `old`; `new` is at least as large.
    unsafe fn raw_grow(&self, ptr: *mut u8, old: Layout, new: Layout) -> *mut u8;

    /// Makes a block smaller, contents kept; null leaves the old one as it was.
    ///
    /// # Safety
    ///
    /// As for [`raw_dealloc`](Self::raw_dealloc) with `old`; `new` is at most as large and not empty.
    unsafe fn raw_shrink(&self, ptr: *mut u8, old: Layout, new: Layout) -> *mut u8;

    /// What a workload calls to get a block: never null, hidden from the optimiser.
    ///
    /// # Safety
    ///
    /// As for [`raw_alloc`](Self::raw_alloc).
    ///
    /// # Panics
    ///
    /// When the contender refuses: a workload that a contender cannot serve ends, and its cell says so.
    #[inline(always)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's duty is the callee's.
        let ptr = black_box(unsafe { self.raw_alloc(layout) });
        if ptr.is_null() {
            refused(layout);
        }
        ptr
    }

    /// What a workload calls to give a block back, hidden from the optimiser.
    ///
    /// # Safety
    ///
    /// As for [`raw_dealloc`](Self::raw_dealloc).
    #[inline(always)]
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's duty is the callee's.
        unsafe { self.raw_dealloc(black_box(ptr), layout) }
    }
}

/// Ends a workload whose allocator returned null.
#[cold]
#[inline(never)]
fn refused(layout: Layout) -> ! {
    panic!("the allocator refused {} bytes aligned to {}", layout.size(), layout.align());
}

// SAFETY: every call is forwarded to the allocator that is referred to, which keeps the contract.
unsafe impl<A: RawAlloc> RawAlloc for &A {
    const CHECKED: bool = A::CHECKED;

    #[inline(always)]
    unsafe fn raw_alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's duty is the callee's.
        unsafe { (**self).raw_alloc(layout) }
    }

    #[inline(always)]
    unsafe fn raw_alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's duty is the callee's.
        unsafe { (**self).raw_alloc_zeroed(layout) }
    }

    #[inline(always)]
    unsafe fn raw_dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's duty is the callee's.
        unsafe { (**self).raw_dealloc(ptr, layout) }
    }

    #[inline(always)]
    unsafe fn raw_grow(&self, ptr: *mut u8, old: Layout, new: Layout) -> *mut u8 {
        // SAFETY: the caller's duty is the callee's.
        unsafe { (**self).raw_grow(ptr, old, new) }
    }

    #[inline(always)]
    unsafe fn raw_shrink(&self, ptr: *mut u8, old: Layout, new: Layout) -> *mut u8 {
        // SAFETY: the caller's duty is the callee's.
        unsafe { (**self).raw_shrink(ptr, old, new) }
    }
}

/// An allocator that can be put into a table.
pub trait Contender: Sized + 'static {
    /// Its card.
    const INFO: Info;

    /// The same allocator over a backing allocator that counts, or `Self` where it has no such parameter.
    type Metered: Contender;

    /// The heap below it, which littering fills with holes: itself for a general allocator, the system's where it takes its
    /// chunks from there.
    type Backing: Contender;

    /// What the workloads get: the allocator itself where it is zero-sized, else a reference, as its users would hold it.
    type Ref<'a>: RawAlloc + Copy
    where
        Self: 'a;

    /// Makes an instance.
    fn create() -> Self;

    /// Borrows it for a workload.
    fn by_ref(&self) -> Self::Ref<'_>;

    /// Takes everything back at once, where the allocator can; no block is alive.
    fn reset(&mut self) {}

    /// Tells how many bytes will be alive at a time. Only the allocator that does nothing listens.
    fn expect_live(&mut self, bytes: usize) {
        let _ = bytes;
    }
}

/// Lets containers of allocator-api2 0.2 run over a contender.
#[derive(Clone, Copy, Debug)]
pub struct Handle<R>(pub R);

/// Turns a block into what [`Allocator`] returns: exactly the bytes asked for, so that containers behave alike.
#[inline(always)]
fn exact(ptr: *mut u8, size: usize) -> Result<NonNull<[u8]>, AllocError> {
    let ptr = NonNull::new(black_box(ptr)).ok_or(AllocError)?;
    Ok(NonNull::slice_from_raw_parts(ptr, size))
}

/// What an empty layout gets: an aligned address without memory.
fn dangling(layout: Layout) -> NonNull<[u8]> {
    NonNull::slice_from_raw_parts(layout.dangling_ptr(), 0)
}

// SAFETY: `RawAlloc` promises valid, exclusive blocks until they are freed, from equivalent copies; empty layouts never
// reach it.
unsafe impl<R: RawAlloc + Copy> Allocator for Handle<R> {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return Ok(dangling(layout));
        }
        // SAFETY: the size is above zero.
        exact(unsafe { self.0.raw_alloc(layout) }, layout.size())
    }

    #[inline]
    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return Ok(dangling(layout));
        }
        // SAFETY: the size is above zero.
        exact(unsafe { self.0.raw_alloc_zeroed(layout) }, layout.size())
    }

    #[inline]
    unsafe fn deallocate(&self, ptr: NonNull<u8>, layout: Layout) {
        if layout.size() != 0 {
            // SAFETY: a block that is not empty came from `raw_alloc`, `raw_grow` or `raw_shrink` with this layout.
            unsafe { self.0.dealloc(ptr.as_ptr(), layout) }
        }
    }

    #[inline]
    unsafe fn grow(&self, ptr: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if old.size() == 0 {
            return self.allocate(new);
        }
        // SAFETY: the block is not empty, so it came from the contender; `new` is at least as large.
        exact(unsafe { self.0.raw_grow(black_box(ptr.as_ptr()), old, new) }, new.size())
    }

    #[inline]
    unsafe fn shrink(&self, ptr: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if new.size() == 0 {
            // SAFETY: the caller hands the block over.
            unsafe { self.deallocate(ptr, old) };
            return Ok(dangling(new));
        }
        // SAFETY: both sizes are above zero, and `new` is at most as large.
        exact(unsafe { self.0.raw_shrink(black_box(ptr.as_ptr()), old, new) }, new.size())
    }
}
