//! Blocks of any size: the interface of contenders, and the calls of workloads.
//!
//! The compared crates share no trait: some implement allocator-api2 0.2, some 0.4, some
//! `GlobalAlloc`. So the harness has its own, with static dispatch. A contender implements the
//! `raw_*` methods. A workload calls the others, which pass every pointer through [`black_box`]
//! after its allocation and before its free. Otherwise the compiler removes pairs of `malloc` and
//! `free`, which it knows, but not the pairs of other allocators.

use core::alloc::Layout;
use core::hint::black_box;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};

use crate::card::Info;

/// An allocator of any size, as a workload sees it.
///
/// # Safety
///
/// * A block returned by `raw_alloc`, `raw_alloc_zeroed` or `raw_resize` is null, or it fits the
///   requested layout. It stays valid and exclusive to its holder until it is passed to
///   `raw_dealloc` or `raw_resize`. If
///   [`Caps::keeps_contents`](crate::card::Caps::keeps_contents) is off, blocks may overlap, and
///   are read as bytes only.
/// * Copies and references of one allocator are equivalent: each may free what another one
///   allocated.
/// * If the contender's [`Caps::any_thread_free`](crate::card::Caps::any_thread_free) is on,
///   `raw_dealloc` may be called on any thread, at the same time as `raw_alloc` on the thread that
///   made the allocator.
pub(crate) unsafe trait RawAlloc {
    /// Whether the workload verifies the bytes that it wrote. Only a check run does; a timed run
    /// does not.
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

    /// Frees a block.
    ///
    /// # Safety
    ///
    /// This allocator returned `ptr` for `layout`, and `ptr` is not used afterwards.
    unsafe fn raw_dealloc(&self, ptr: *mut u8, layout: Layout);

    /// Resizes a block and keeps its contents: grows it if `GROW`, else shrinks it. On null the old
    /// block is unchanged.
    ///
    /// # Safety
    ///
    /// As for [`raw_dealloc`](Self::raw_dealloc) with `old`. If `GROW`, `new` is at least as large.
    /// Otherwise it is at most as large and not empty.
    unsafe fn raw_resize<const GROW: bool>(&self, ptr: *mut u8, old: Layout, new: Layout) -> *mut u8;

    /// Allocates a block for a workload. It is never null, and it is hidden from the optimiser.
    ///
    /// # Safety
    ///
    /// As for [`raw_alloc`](Self::raw_alloc).
    ///
    /// # Panics
    ///
    /// If the contender refuses. The workload ends, and its cell says so.
    #[inline(always)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's duty is the callee's.
        let ptr = black_box(unsafe { self.raw_alloc(layout) });
        if ptr.is_null() {
            refused(layout);
        }
        ptr
    }

    /// Frees a block of a workload, hidden from the optimiser.
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
pub(crate) fn refused(layout: Layout) -> ! {
    panic!("the allocator refused {} bytes aligned to {}", layout.size(), layout.align());
}

/// An allocator that can be a row of a table.
pub(crate) trait Contender: Sized + 'static {
    /// The contender's card.
    const INFO: Info;

    /// The same allocator over a backing allocator that counts. `Self` if it has no such parameter.
    type Metered: Contender;

    /// The heap below the contender, which littering fills with holes. A general allocator names
    /// itself. An allocator that takes chunks from the system's heap names that heap.
    type Backing: Contender;

    /// The allocator as a workload holds it: by value if it is zero-sized, else by reference, as
    /// its users hold it.
    type Ref<'a>: RawAlloc + Copy
    where
        Self: 'a;

    /// Creates an instance.
    fn create() -> Self;

    /// Borrows the instance for a workload.
    fn by_ref(&self) -> Self::Ref<'_>;

    /// Frees everything at once if the allocator can do so. The caller guarantees that no block is
    /// live.
    fn reset(&mut self) {}

    /// Announces the number of live bytes at a time. Only the allocator that does nothing uses it.
    fn expect_live(&mut self, bytes: usize) {
        let _ = bytes;
    }
}

/// Runs containers of allocator-api2 0.2 over a contender. If `HIDDEN`, every pointer is hidden
/// from the optimiser. Workloads over buffers hide the pointers themselves, and no buffer is empty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handle<R, const HIDDEN: bool = true>(pub(crate) R);

impl<R, const HIDDEN: bool> Handle<R, HIDDEN> {
    #[inline(always)]
    fn hide(ptr: *mut u8) -> *mut u8 {
        if HIDDEN { black_box(ptr) } else { ptr }
    }

    /// Converts a block to the return type of [`Allocator`]. It has exactly the requested length,
    /// so that containers behave alike.
    #[inline(always)]
    fn exact(ptr: *mut u8, size: usize) -> Result<NonNull<[u8]>, AllocError> {
        let ptr = NonNull::new(Self::hide(ptr)).ok_or(AllocError)?;
        Ok(NonNull::slice_from_raw_parts(ptr, size))
    }

    /// Returns whether a layout is empty. A block of it is an aligned address without memory.
    #[inline(always)]
    fn is_empty(layout: Layout) -> bool {
        HIDDEN && layout.size() == 0
    }
}

/// Returns an aligned address without memory, for an empty layout.
fn dangling(layout: Layout) -> NonNull<[u8]> {
    NonNull::slice_from_raw_parts(layout.dangling_ptr(), 0)
}

// SAFETY: `RawAlloc` promises valid and exclusive blocks until they are freed, from equivalent
// copies. Empty layouts never reach it.
unsafe impl<R: RawAlloc + Copy, const HIDDEN: bool> Allocator for Handle<R, HIDDEN> {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if Self::is_empty(layout) {
            return Ok(dangling(layout));
        }
        // SAFETY: the size is above zero.
        Self::exact(unsafe { self.0.raw_alloc(layout) }, layout.size())
    }

    #[inline]
    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if Self::is_empty(layout) {
            return Ok(dangling(layout));
        }
        // SAFETY: the size is above zero.
        Self::exact(unsafe { self.0.raw_alloc_zeroed(layout) }, layout.size())
    }

    #[inline]
    unsafe fn deallocate(&self, ptr: NonNull<u8>, layout: Layout) {
        if !Self::is_empty(layout) {
            // SAFETY: a block that is not empty came from `raw_alloc` or `raw_resize` with this
            // layout.
            unsafe { self.0.raw_dealloc(Self::hide(ptr.as_ptr()), layout) }
        }
    }

    #[inline]
    unsafe fn grow(&self, ptr: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if Self::is_empty(old) {
            return self.allocate(new);
        }
        // SAFETY: the block is not empty, so the contender allocated it. `new` is at least as
        // large.
        Self::exact(unsafe { self.0.raw_resize::<true>(Self::hide(ptr.as_ptr()), old, new) }, new.size())
    }

    #[inline]
    unsafe fn shrink(&self, ptr: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if new.size() == 0 {
            // SAFETY: the caller gives up the block.
            unsafe { self.deallocate(ptr, old) };
            return Ok(dangling(new));
        }
        // SAFETY: both sizes are above zero, and `new` is at most as large.
        Self::exact(unsafe { self.0.raw_resize::<false>(Self::hide(ptr.as_ptr()), old, new) }, new.size())
    }
}
