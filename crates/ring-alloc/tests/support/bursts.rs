//! Helpers for tests with bursts of blocks of `OneRingAlloc`.

use allocator_api2::boxed::Box;
use ephemera_testkit::bursts::BurstMemory;
use ring_alloc::OneRingAlloc;

pub(crate) const MIB: usize = 1 << 20;
pub(crate) const BURST: usize = 64 * MIB;
/// The number of bytes in a burst that a test repeats, small enough that each burst soon follows
/// the previous one.
pub(crate) const SHORT: usize = 16 * MIB;

/// The number of bytes that may stay resident: cached spans, and other memory. It is less than a
/// page of each chunk of a burst of [`BURST`] bytes.
pub(crate) const KEPT: usize = 6 * MIB;

/// A block of 1 KiB. A chunk holds 31 of them.
pub(crate) type Block = Box<[u64; 128], OneRingAlloc>;
pub(crate) type Burst = Vec<Option<Block>>;

/// Allocates blocks of 1 KiB each and `bytes` bytes in total.
pub(crate) fn burst(bytes: usize) -> Burst {
    (0..bytes / 1_024).map(|number| Some(Box::new_in([number as u64; 128], OneRingAlloc))).collect()
}

pub(crate) fn in_order(blocks: &mut Burst) {
    blocks.iter_mut().for_each(|block| *block = None);
}

/// Returns how many bytes of a burst of [`BURST`] bytes stay resident. Takes the peak minus `BURST`
/// as the level before the burst, because the burst may have reused cached spans.
pub(crate) fn left(memory: BurstMemory) -> usize {
    (memory.after + BURST).saturating_sub(memory.peak)
}
