//! Defines [`Block`], a block that a test has filled with a pattern.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;

use crate::pattern;
use crate::violation::Violation;

/// A live block, filled with the pattern of its seed. The owner of a `Block` has exclusive access
/// to its memory.
///
/// Dropping a `Block` does not free its memory.
#[derive(Debug)]
pub struct Block {
    start: NonNull<u8>,
    layout: Layout,
    seed: u8,
}

// SAFETY: only the owner of a `Block` accesses its bytes, which are not tied to a thread.
// `Block::free` needs the allocator or an equivalent one, so another thread can free the block only
// if it has access to one of these allocators.
unsafe impl Send for Block {}

impl Block {
    /// Fills the memory at `start` with the pattern of `seed`, and returns the block. In a very
    /// large block, fills only the bytes near its ends.
    ///
    /// # Safety
    ///
    /// `start` is valid for reads and writes of `layout.size()` bytes, and no other code accesses
    /// them until the returned `Block` is freed or dropped.
    #[must_use]
    pub unsafe fn fill(start: NonNull<u8>, layout: Layout, seed: u8) -> Self {
        for range in pattern::filled(layout.size()) {
            // SAFETY: the caller guarantees that all bytes of the layout are writable, and the
            // filled ranges are within the layout.
            unsafe { pattern::fill(start, range, seed) };
        }
        Self { start, layout, seed }
    }

    /// Returns a pointer to the first byte.
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns the layout that the block was allocated with.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the address of the first byte, for comparisons and messages.
    #[must_use]
    pub fn address(&self) -> usize {
        self.start.addr().get()
    }

    /// Checks that the block still has its whole pattern.
    ///
    /// # Errors
    ///
    /// Returns [`Violation::Changed`] for the first byte that differs.
    pub fn check(&self) -> Result<(), Violation> {
        // SAFETY: the caller of `fill` guaranteed that the block stays valid while `self` exists,
        // and that no other code accesses it. `fill` initialised the bytes of the filled ranges.
        unsafe { self.check_kept(self.start, self.layout.size()) }
    }

    /// Checks that the first `kept` bytes at `start` have this block's pattern. A resize may have
    /// moved the block there.
    ///
    /// # Errors
    ///
    /// Returns [`Violation::Changed`] for the first byte that differs.
    ///
    /// # Safety
    ///
    /// `start` is valid for reads of `kept` bytes, which no other code writes during the call. The
    /// bytes at offsets that `fill` wrote are initialised.
    pub(crate) unsafe fn check_kept(&self, start: NonNull<u8>, kept: usize) -> Result<(), Violation> {
        for range in pattern::filled(self.layout.size()) {
            let range = range.start.min(kept)..range.end.min(kept);
            // SAFETY: the caller guarantees that `kept` bytes are readable, that no other code
            // writes them, and that the bytes at offsets that `fill` wrote are initialised.
            if let Some(change) = unsafe { pattern::first_change(start, range, self.seed) } {
                return Err(Violation::Changed {
                    address: start.addr().get(),
                    len: kept,
                    offset: change.offset,
                    found: change.found,
                    expected: change.expected,
                });
            }
        }
        Ok(())
    }

    /// Frees the block.
    ///
    /// # Safety
    ///
    /// `alloc`, or an allocator equivalent to it, allocated the block.
    pub unsafe fn free<A: Allocator>(self, alloc: &A) {
        // SAFETY: the caller guarantees that `alloc` or an equivalent allocator allocated the
        // block. The block is live, because `self` is its only owner.
        unsafe { alloc.deallocate(self.start, self.layout) };
    }
}

/// Checks that bytes `from..layout.size()` of a new or grown block are zero. In a very large block,
/// checks only the bytes near its ends.
///
/// # Errors
///
/// Returns [`Violation::NotZero`] for the first byte that is not zero.
///
/// # Safety
///
/// `start` is valid for reads of `layout.size()` bytes, which no other code writes during the call.
/// The bytes from `from` on are initialised.
pub(crate) unsafe fn check_zeroed(start: NonNull<u8>, layout: Layout, from: usize) -> Result<(), Violation> {
    for range in pattern::filled(layout.size()) {
        let range = range.start.max(from)..range.end.max(from);
        // SAFETY: the caller guarantees that the bytes from `from` to the end of the layout are
        // readable and initialised, and that no other code writes them.
        if let Some(change) = unsafe { pattern::first_nonzero(start, range) } {
            return Err(Violation::NotZero {
                address: start.addr().get(),
                len: layout.size(),
                offset: change.offset,
                found: change.found,
            });
        }
    }
    Ok(())
}
