//! A block that some allocator served and that carries its fill pattern.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;

use crate::pattern;
use crate::violation::Violation;

/// A live block, filled with the pattern of its seed. Whoever holds the value has sole use of the memory.
///
/// Dropping it does not free the block.
#[derive(Debug)]
pub struct Block {
    start: NonNull<u8>,
    layout: Layout,
    seed: u8,
}

// SAFETY: a `Block` is the sole access to its bytes, which have no tie to a thread. Whether the allocator takes
// it back on another thread is said by the allocator's own bounds, which `Block::free` does not touch.
unsafe impl Send for Block {}

impl Block {
    /// Fills the memory at `start` with the pattern of `seed` and takes charge of it.
    ///
    /// # Safety
    ///
    /// `start` is valid for reads and writes of `layout.size()` bytes, by nobody else, until the value is freed
    /// or dropped.
    #[must_use]
    pub unsafe fn fill(start: NonNull<u8>, layout: Layout, seed: u8) -> Self {
        for range in pattern::filled(layout.size()) {
            // SAFETY: the caller vouches for all bytes of the layout, within which the filled ranges lie.
            unsafe { pattern::fill(start, range, seed) };
        }
        Self { start, layout, seed }
    }

    /// The first byte.
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// What it was allocated with.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The address of the first byte, for comparing and printing.
    #[must_use]
    pub fn address(&self) -> usize {
        self.start.addr().get()
    }

    /// Reads the whole pattern again.
    ///
    /// # Errors
    ///
    /// [`Violation::Changed`] with the first byte that differs.
    pub fn check(&self) -> Result<(), Violation> {
        // SAFETY: `fill` was promised that the block stays valid as long as `self` lives.
        unsafe { self.check_kept(self.start, self.layout.size()) }
    }

    /// Checks that the first `kept` bytes at `start`, where the block was moved to, carry this block's pattern.
    ///
    /// # Errors
    ///
    /// [`Violation::Changed`] with the first byte that differs.
    ///
    /// # Safety
    ///
    /// `start` is valid for reads of `kept` bytes, and those that this block had filled are initialised.
    pub(crate) unsafe fn check_kept(&self, start: NonNull<u8>, kept: usize) -> Result<(), Violation> {
        for range in pattern::filled(self.layout.size()) {
            let range = range.start.min(kept)..range.end.min(kept);
            // SAFETY: the caller vouches for `kept` bytes, and `fill` wrote the ranges.
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

    /// Gives the block back.
    ///
    /// # Safety
    ///
    /// It was served by `alloc` or by an allocator that is equivalent to it.
    pub unsafe fn free<A: Allocator>(self, alloc: &A) {
        // SAFETY: the caller vouches for the allocator; the block is live, since `self` was its only owner.
        unsafe { alloc.deallocate(self.start, self.layout) };
    }
}

/// Checks that bytes `from..layout.size()` of a block that nobody wrote to yet are zero.
///
/// # Errors
///
/// [`Violation::NotZero`] with the first byte that is not.
///
/// # Safety
///
/// `start` is valid for reads of `layout.size()` bytes, and those from `from` on are initialised.
pub(crate) unsafe fn check_zeroed(start: NonNull<u8>, layout: Layout, from: usize) -> Result<(), Violation> {
    for range in pattern::filled(layout.size()) {
        let range = range.start.max(from)..range.end.max(from);
        // SAFETY: the caller vouches for the bytes from `from` to the end of the layout.
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
