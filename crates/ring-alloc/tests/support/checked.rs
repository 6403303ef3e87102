//! The live blocks of an allocator, with an oracle that checks every operation on these blocks.

use core::alloc::Layout;

use allocator_api2::alloc::{AllocError, Allocator};
use ephemera_testkit::oracle::Oracle;

/// Live blocks of `alloc`, oldest first. Dropping this value frees the blocks.
#[derive(Debug)]
pub(crate) struct Checked<'a, A: Allocator> {
    alloc: &'a A,
    pub(crate) oracle: Oracle,
}

/// Returns a layout that the test knows to be valid.
pub(crate) fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).expect("a layout")
}

impl<'a, A: Allocator> Checked<'a, A> {
    pub(crate) fn new(alloc: &'a A) -> Self {
        Self { alloc, oracle: Oracle::new(true) }
    }

    /// Allocates a block and returns its address. Checks that a refusal leaves all blocks
    /// unchanged.
    pub(crate) fn allocate(&mut self, layout: Layout) -> Result<usize, AllocError> {
        let Ok(given) = self.alloc.allocate(layout) else {
            self.oracle.check().expect("a refusal changes nothing");
            return Err(AllocError);
        };
        // SAFETY: the allocator has just served the block for this layout, and `free` removes the
        // block from the oracle before it frees the block.
        unsafe { self.oracle.insert(given, layout, false) }.expect("a good block");
        Ok(given.addr().get())
    }

    /// Grows block `index`, with zeroed new bytes if `zeroed`, or shrinks it if `new` is smaller.
    /// Returns the block's address. Checks that a refusal leaves all blocks unchanged.
    pub(crate) fn resize(&mut self, index: usize, new: Layout, zeroed: bool) -> Result<usize, AllocError> {
        let (start, old) = (self.oracle.blocks()[index].start(), self.oracle.blocks()[index].layout());
        let grows = new.size() >= old.size();
        let given = if grows && zeroed {
            // SAFETY: this allocator served the live block with layout `old`, and `new` is not
            // smaller.
            unsafe { self.alloc.grow_zeroed(start, old, new) }
        } else if grows {
            // SAFETY: this allocator served the live block with layout `old`, and `new` is not
            // smaller.
            unsafe { self.alloc.grow(start, old, new) }
        } else {
            // SAFETY: this allocator served the live block with layout `old`, and `new` is smaller.
            unsafe { self.alloc.shrink(start, old, new) }
        };
        let Ok(given) = given else {
            self.oracle.check().expect("a refusal changes nothing");
            return Err(AllocError);
        };
        // SAFETY: the allocator has just returned `given` for block `index` and layout `new`.
        unsafe { self.oracle.resized(index, given, new, grows && zeroed) }.expect("a good block");
        Ok(given.addr().get())
    }

    /// Frees block `index`.
    pub(crate) fn free(&mut self, index: usize) {
        let block = self.oracle.remove(index).expect("a block holds what was written to it");
        // SAFETY: this allocator served the block, and the oracle has just removed it.
        unsafe { block.free(self.alloc) };
    }
}

impl<A: Allocator> Drop for Checked<'_, A> {
    fn drop(&mut self) {
        // Leak the blocks after a failed check, because a second panic would hide the first one.
        while !std::thread::panicking() && !self.oracle.is_empty() {
            self.free(0);
        }
    }
}
