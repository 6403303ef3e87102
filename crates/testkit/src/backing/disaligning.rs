//! Defines a backing allocator that aligns blocks no better than requested.

use core::alloc::Layout;
use core::ptr::{self, NonNull};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use allocator_api2::alloc::{AllocError, Allocator, Global};

/// The largest alignment in bytes at which [`Disaligning`] shifts blocks. A shift takes as many
/// additional bytes as the alignment, so blocks with a larger alignment are not shifted.
pub const LARGEST_SHIFTED_ALIGN: usize = 1 << 20;

/// An allocator that returns blocks at odd multiples of the requested alignment, in slices of
/// exactly the requested size. A block aligned to more than [`LARGEST_SHIFTED_ALIGN`] may be at any
/// multiple.
///
/// These blocks reveal code that relies on accidental alignment or on additional bytes. Every
/// resize moves the block.
#[derive(Debug, Default)]
pub struct Disaligning<A = Global> {
    inner: A,
    /// Maps the address of a block to the inner allocator's block that contains it.
    inner_blocks: Mutex<HashMap<usize, InnerBlock>>,
}

#[derive(Debug)]
struct InnerBlock {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the pointer is used only to free the block. `Disaligning` is `Send` or `Sync` only if the
// inner allocator is, and then another thread may free the blocks of the inner allocator.
unsafe impl Send for InnerBlock {}

impl Disaligning {
    /// Creates a `Disaligning` over the global allocator.
    #[must_use]
    pub fn new() -> Self {
        Self::over(Global)
    }
}

impl<A> Disaligning<A> {
    /// Creates a `Disaligning` over `inner`.
    #[must_use]
    pub fn over(inner: A) -> Self {
        Self { inner, inner_blocks: Mutex::new(HashMap::new()) }
    }

    /// Returns the inner allocator.
    #[must_use]
    pub const fn inner(&self) -> &A {
        &self.inner
    }

    /// Locks the map, even if a panic has poisoned the lock.
    fn inner_blocks(&self) -> MutexGuard<'_, HashMap<usize, InnerBlock>> {
        self.inner_blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// SAFETY: each block has size zero, or lies inside a live block of `inner`, which only `deallocate`
// of the same block frees. `Disaligning` is not `Clone`. The default resizing methods allocate,
// copy and free.
unsafe impl<A: Allocator> Allocator for Disaligning<A> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let align = layout.align();
        if layout.size() == 0 {
            let nowhere = ptr::without_provenance_mut::<u8>(align);
            let nowhere = NonNull::new(nowhere).ok_or(AllocError)?;
            return Ok(NonNull::slice_from_raw_parts(nowhere, 0));
        }
        let slack = if align <= LARGEST_SHIFTED_ALIGN { align } else { 0 };
        let size = layout.size().checked_add(slack).ok_or(AllocError)?;
        let inner_layout = Layout::from_size_align(size, align).map_err(|_| AllocError)?;
        let start = self.inner.allocate(inner_layout)?.cast::<u8>();
        let even = (start.addr().get() / align).is_multiple_of(2);
        // SAFETY: the inner block is `slack` bytes longer than the layout, so the shifted block
        // ends inside it.
        let shifted = unsafe { start.add(if even { slack } else { 0 }) };
        self.inner_blocks().insert(shifted.addr().get(), InnerBlock { start, layout: inner_layout });
        Ok(NonNull::slice_from_raw_parts(shifted, layout.size()))
    }

    unsafe fn deallocate(&self, ptr: NonNull<u8>, layout: Layout) {
        if layout.size() == 0 {
            return;
        }
        let block = self.inner_blocks().remove(&ptr.addr().get());
        let block =
            block.unwrap_or_else(|| panic!("{ptr:p} with {layout:?} was freed, but is not allocated"));
        // SAFETY: `inner` allocated this block with this layout. The block was just removed from
        // the map, so it is freed once.
        unsafe { self.inner.deallocate(block.start, block.layout) };
    }
}
