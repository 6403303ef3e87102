//! Workloads over allocators of blocks of any size.

pub mod batch;
pub mod frames;
pub mod grow;
pub mod handoff;
pub mod json;
pub mod pair;
pub mod pareto;
pub mod replay;
pub mod slots;
pub mod straggler;
pub mod threads;
pub mod window;

use core::alloc::Layout;

use super::mix;
use crate::blocks::RawAlloc;
use crate::tally;

/// A layout whose parts are known to be valid.
#[inline(always)]
fn layout(size: usize, align: usize) -> Layout {
    debug_assert!(Layout::from_size_align(size, align).is_ok(), "size {size}, alignment {align}");
    // SAFETY: all callers pass a power of two of at most 64 and sizes of at most 64 KiB.
    unsafe { Layout::from_size_align_unchecked(size, align) }
}

/// Writes the first and the last byte of a block.
///
/// # Safety
///
/// The block is `size` bytes long, `size` above zero, and the caller's.
#[inline(always)]
unsafe fn touch(block: *mut u8, size: usize, tag: u8) {
    // SAFETY: the block is not empty.
    unsafe { block.write(tag) };
    // SAFETY: `size - 1` is within the block.
    let last = unsafe { block.add(size - 1) };
    // SAFETY: as above.
    unsafe { last.write(tag) };
}

/// In a check run: reads the first and the last byte back, reports a wrong one, folds both into `sum`.
///
/// # Safety
///
/// As for [`touch`], which was called with the same arguments before.
#[inline(always)]
unsafe fn verify<R: RawAlloc>(block: *mut u8, size: usize, tag: u8, sum: &mut u64) {
    if R::CHECKED {
        // SAFETY: the block is not empty, and its first byte was written.
        let first = unsafe { block.read() };
        // SAFETY: `size - 1` is within the block.
        let last = unsafe { block.add(size - 1) };
        // SAFETY: that byte was written too.
        let last = unsafe { last.read() };
        if first != tag || last != tag {
            tally::damaged();
        }
        *sum = mix(*sum, u64::from(first) | u64::from(last) << 8 | (size as u64) << 16);
    }
}
