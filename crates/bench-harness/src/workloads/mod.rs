//! The workloads: functions generic over a contender's reference, and the cells that the runner times.
//!
//! A workload is a plain function (`pair`, `churn`, …) so that `cargo bench` runs the very same code; beside it stands a
//! cell that owns the contender and what lives from one sample to the next. Dispatch is static within a sample; a cell is
//! called through a `dyn` once a sample.

pub mod batch;
mod catalogue;
pub mod grow;
pub mod handoff;
pub mod json;
pub mod pair;
pub mod rng;
pub mod slots;
pub mod straggler;
pub mod window;

use core::alloc::Layout;
use std::sync::Arc;

pub use self::catalogue::{Kind, Need, Scale, Spec, catalogue};
use self::json::Document;
use crate::alloc::RawAlloc;
use crate::tally;

/// What a cell needs to know beside its parameters.
#[derive(Clone, Debug)]
pub struct Context {
    /// Seeds every table: the same seed gives the same operations.
    pub seed: u64,
    /// The text that R1 parses.
    pub document: Arc<Document>,
    /// Where a second thread is pinned to, if anywhere.
    pub second_cpu: Option<usize>,
}

/// One workload over one contender, ready to run.
pub trait Cell {
    /// Does a fixed amount of work; in a checked cell the result depends on all that was read back.
    fn run(&mut self, units: u64) -> u64;

    /// Operations in a unit: what a time is divided by.
    fn ops_per_unit(&self) -> u64 {
        1
    }
}

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

/// Folds a word into a checksum that depends on the order.
#[inline(always)]
fn mix(sum: u64, word: u64) -> u64 {
    (sum ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
}
