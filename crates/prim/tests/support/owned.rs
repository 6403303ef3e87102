//! A block of pages that is freed when it is dropped.

use core::alloc::Layout;
use core::ptr::NonNull;

use ephemera_prim::pages::Pages;
use ephemera_prim::traits::Allocator;

pub(crate) fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).expect("a layout")
}

/// A block and its layout. Dropping it frees the block.
pub(crate) struct Owned(pub(crate) NonNull<u8>, pub(crate) Layout);

// SAFETY: an `Owned` has exclusive access to its block.
unsafe impl Send for Owned {}

impl Owned {
    pub(crate) fn new(layout: Layout) -> Option<Self> {
        Some(Self(Pages.allocate(layout).ok()?.cast(), layout))
    }

    /// Writes `byte` to each byte of the block.
    pub(crate) fn fill(&self, byte: u8) {
        // SAFETY: the block is live and has this number of bytes.
        unsafe { self.0.write_bytes(byte, self.1.size()) };
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: callers have written all bytes, or requested zeros.
        unsafe { core::slice::from_raw_parts(self.0.as_ptr(), self.1.size()) }
    }

    pub(crate) fn holds(&self, byte: u8) -> bool {
        self.bytes().iter().all(|found| *found == byte)
    }

    pub(crate) fn grown_zeroed(self, new: Layout) -> Self {
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: the block is live with layout `this.1`, and the callers pass a larger one.
        Self(unsafe { Pages.grow_zeroed(this.0, this.1, new) }.expect("memory").cast(), new)
    }

    pub(crate) fn shrunk(self, new: Layout) -> Self {
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: the block is live with layout `this.1`, and the callers pass a smaller one.
        Self(unsafe { Pages.shrink(this.0, this.1, new) }.expect("memory").cast(), new)
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: the block is live and of this layout.
        unsafe { Pages.deallocate(self.0, self.1) };
    }
}
