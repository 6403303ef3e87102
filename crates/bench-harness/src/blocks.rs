//! Blocks of any size: the traits that contenders implement, and the methods that workloads call.
//!
//! The compared crates do not share a trait: some implement allocator-api2 0.2, some 0.4, some
//! `GlobalAlloc`. The harness therefore has its own trait, with static dispatch. A contender
//! implements the `raw_*` methods. Most workloads call the other methods, which pass every pointer
//! through [`black_box`] after its allocation and before its free. Without `black_box`, the
//! compiler would remove pairs of `malloc` and `free`, which it knows, but not the same pairs of
//! other allocators.

use core::alloc::Layout;
use core::hint::black_box;
use core::ptr::NonNull;
use std::sync::Arc;

use allocator_api2::alloc::{AllocError, Allocator};

use crate::card::Info;

/// An allocator of blocks of any size, as a workload sees it.
///
/// # Safety
///
/// * A block returned by `raw_alloc`, `raw_alloc_zeroed` or `raw_resize` is null, or it fits the
///   requested layout. It stays valid and exclusive to its holder until it is passed to
///   `raw_dealloc` or `raw_resize`. If [`Caps::keeps_contents`](crate::card::Caps::keeps_contents)
///   is off, blocks may overlap, and workloads read their contents only as bytes.
/// * Copies of an allocator and references to it are equivalent: each may free a block that another
///   allocated.
/// * If the contender's [`Caps::any_thread_free`](crate::card::Caps::any_thread_free) is on, any
///   thread may call `raw_dealloc` while the thread that created the allocator calls `raw_alloc`.
///   If `shared_alloc` is on, any thread may call any method.
pub(crate) unsafe trait RawAlloc {
    /// Whether the workload verifies the bytes that it wrote: `true` in a counted run, which is a
    /// check or the memory pass, and `false` in a timed run.
    const CHECKED: bool = false;

    /// Returns a block for `layout`, or null if the allocator refuses the request.
    ///
    /// # Safety
    ///
    /// The size of `layout` must be above zero.
    unsafe fn raw_alloc(&self, layout: Layout) -> *mut u8;

    /// Returns a zeroed block for `layout`, or null if the allocator refuses the request.
    ///
    /// # Safety
    ///
    /// The size of `layout` must be above zero.
    unsafe fn raw_alloc_zeroed(&self, layout: Layout) -> *mut u8;

    /// Frees a block.
    ///
    /// # Safety
    ///
    /// This allocator must have returned `ptr` for `layout`, and the caller must not use `ptr`
    /// afterwards.
    unsafe fn raw_dealloc(&self, ptr: *mut u8, layout: Layout);

    /// Resizes a block and keeps its contents: grows it if `GROW` is `true`, and shrinks it
    /// otherwise. Returns the address of the resized block, which may have moved. If this method
    /// returns null, the old block is unchanged.
    ///
    /// # Safety
    ///
    /// The contract of [`raw_dealloc`](Self::raw_dealloc) applies to `ptr` and `old`. `new` must
    /// have the alignment of `old`. If `GROW` is `true`, `new` must be at least as large as `old`.
    /// Otherwise `new` must be at most as large as `old`, and its size must be above zero.
    unsafe fn raw_resize<const GROW: bool>(&self, ptr: *mut u8, old: Layout, new: Layout) -> *mut u8;

    /// Allocates a block for a workload, and hides it from the optimiser. The result is never null.
    ///
    /// # Safety
    ///
    /// The contract of [`raw_alloc`](Self::raw_alloc) applies.
    ///
    /// # Panics
    ///
    /// Panics if the contender refuses the request. The process ends, and the contender's row in
    /// the report shows the message.
    #[inline(always)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the callee's contract.
        let ptr = black_box(unsafe { self.raw_alloc(layout) });
        if ptr.is_null() {
            refused(layout);
        }
        ptr
    }

    /// Hides a block of a workload from the optimiser, and frees it.
    ///
    /// # Safety
    ///
    /// The contract of [`raw_dealloc`](Self::raw_dealloc) applies.
    #[inline(always)]
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the callee's contract.
        unsafe { self.raw_dealloc(black_box(ptr), layout) }
    }
}

/// Panics because the allocator of a workload returned null for `layout`.
#[cold]
#[inline(never)]
pub(crate) fn refused(layout: Layout) -> ! {
    panic!("the allocator refused {} bytes aligned to {}", layout.size(), layout.align());
}

/// An allocator that can have a row in a table.
pub(crate) trait Contender: Sized + 'static {
    const INFO: Info;

    /// The same allocator over a backing allocator that counts bytes, or `Self` if it does not
    /// accept a backing allocator.
    type Metered: Contender;

    /// The heap that is littered before a workload on a littered heap runs. The system's allocator
    /// and the libraries in C and C++ name themselves. An allocator that cuts blocks from chunks or
    /// pages names the system's heap.
    type Backing: Contender;

    /// The allocator as a workload holds it: by value if it is zero-sized, and by reference
    /// otherwise.
    type Ref<'a>: RawAlloc + Copy
    where
        Self: 'a;

    fn create() -> Self;

    /// Borrows the instance for a workload.
    fn by_ref(&self) -> Self::Ref<'_>;

    /// Frees everything at once, if the allocator can do so. The caller guarantees that no block is
    /// live.
    fn reset(&mut self) {}

    /// Announces the largest number of bytes that will be live at once. Only the allocator that
    /// does nothing uses this number.
    fn expect_live(&mut self, _bytes: usize) {}
}

/// A contender that several pools or threads share.
impl<C: Contender> Contender for Arc<C> {
    const INFO: Info = C::INFO;
    type Metered = Self;
    type Backing = C::Backing;
    type Ref<'a> = C::Ref<'a>;

    fn create() -> Self {
        Self::new(C::create())
    }

    #[inline(always)]
    fn by_ref(&self) -> C::Ref<'_> {
        (**self).by_ref()
    }

    /// Frees everything at once, unless a pool or another thread still has the contender.
    fn reset(&mut self) {
        if let Some(contender) = Self::get_mut(self) {
            contender.reset();
        }
    }
}

/// Adapts a contender to the containers of allocator-api2 0.2. If `HIDDEN` is `true`, it hides
/// every pointer from the optimiser. Workloads over buffers set `HIDDEN` to `false`, because they
/// hide the pointers themselves and never request an empty buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockHandle<R, const HIDDEN: bool = true>(pub(crate) R);

impl<R, const HIDDEN: bool> BlockHandle<R, HIDDEN> {
    #[inline(always)]
    fn hide(ptr: *mut u8) -> *mut u8 {
        if HIDDEN { black_box(ptr) } else { ptr }
    }

    /// Converts a block to the return type of [`Allocator`]. The slice has exactly the requested
    /// length, so containers grow in the same way over all contenders.
    #[inline(always)]
    fn exact(ptr: *mut u8, size: usize) -> Result<NonNull<[u8]>, AllocError> {
        let ptr = NonNull::new(Self::hide(ptr)).ok_or(AllocError)?;
        Ok(NonNull::slice_from_raw_parts(ptr, size))
    }

    /// Returns whether a layout is empty. The block of an empty layout is an aligned address
    /// without memory. Without `HIDDEN`, callers never pass an empty layout, so this is a constant
    /// `false`.
    #[inline(always)]
    fn is_empty(layout: Layout) -> bool {
        HIDDEN && layout.size() == 0
    }
}

// SAFETY: by the contract of `RawAlloc`, blocks are valid and exclusive until they are freed, and
// copies are equivalent. Empty layouts never reach the contender. The trait's other methods are the
// provided ones, which call these three.
unsafe impl<R: RawAlloc + Copy, const HIDDEN: bool> Allocator for BlockHandle<R, HIDDEN> {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if Self::is_empty(layout) {
            return Ok(NonNull::slice_from_raw_parts(layout.dangling_ptr(), 0));
        }
        // SAFETY: the size is above zero. The check above returned for empty layouts, and without
        // `HIDDEN` there are none.
        Self::exact(unsafe { self.0.raw_alloc(layout) }, layout.size())
    }

    #[inline]
    unsafe fn deallocate(&self, ptr: NonNull<u8>, layout: Layout) {
        if !Self::is_empty(layout) {
            // SAFETY: the layout is not empty, so the block came from the contender with this
            // layout.
            unsafe { self.0.raw_dealloc(Self::hide(ptr.as_ptr()), layout) }
        }
    }

    #[inline]
    unsafe fn grow(&self, ptr: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if Self::is_empty(old) {
            return self.allocate(new);
        }
        assert_eq!(old.align(), new.align(), "no workload changes the alignment of a container");
        // SAFETY: `old` is not empty, so the contender allocated the block. `new` is at least as
        // large as `old`, and has its alignment.
        Self::exact(unsafe { self.0.raw_resize::<true>(Self::hide(ptr.as_ptr()), old, new) }, new.size())
    }
}
