//! Bursts of blocks of `OneRingAlloc`, and what they leave behind.

use allocator_api2::boxed::Box;
use ring_alloc::OneRingAlloc;

pub(crate) const MIB: usize = 1 << 20;
pub(crate) const BURST: usize = 64 * MIB;
/// The bytes of repeated bursts. They are short, so that each follows the last one soon.
pub(crate) const SHORT: usize = 16 * MIB;
pub(crate) const CHUNK: usize = 32 << 10;
pub(crate) const PAGE: usize = 4 << 10;

/// The bytes that may stay beside pages of purged chunks: freed chunks with their pages, and other
/// memory.
pub(crate) const KEPT: usize = 6 * MIB;

/// A block, of which a chunk of 32 KiB has 31.
pub(crate) type Block = Box<[u64; 128], OneRingAlloc>;
pub(crate) type Burst = Vec<Option<Block>>;

/// Allocates blocks of this number of bytes together.
pub(crate) fn burst(bytes: usize) -> Burst {
    (0..bytes / 1_024).map(|number| Some(Box::new_in([number as u64; 128], OneRingAlloc))).collect()
}

/// Returns the resident bytes of the process.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("the system has this file");
    let pages = pages.split(' ').nth(1).and_then(|word| word.parse::<usize>().ok());
    pages.expect("the second word is a number") * PAGE
}

/// Returns the page faults of the process so far.
fn faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("the system has this file");
    let after_name = stat.rsplit(')').next().expect("the name of the program");
    // The fields after the name start with the third one, and `minflt` is the tenth.
    after_name.split_whitespace().nth(7).and_then(|word| word.parse().ok()).expect("a number")
}

pub(crate) fn in_order(blocks: &mut Burst) {
    blocks.iter_mut().for_each(|block| *block = None);
}

/// What a burst left behind.
pub(crate) struct After {
    /// The bytes that stay resident of those at the peak.
    pub(crate) left: usize,
    /// The page faults during its allocation.
    pub(crate) faults: u64,
}

/// Measures a burst that `make` allocates and `free` frees.
pub(crate) fn measured(make: impl FnOnce() -> Burst, free: fn(&mut Burst)) -> After {
    let faults_before = faults();
    let mut blocks = make();
    let (faults, peak) = (faults() - faults_before, resident());
    free(&mut blocks);
    // The system's allocator may have served the burst from resident pages that it kept.
    let bytes = blocks.len() * 1_024;
    After { left: (resident() + bytes).saturating_sub(peak), faults }
}

/// Checks that the last of ten short bursts take few page faults.
pub(crate) fn check_repeated(after: &[After]) {
    let faults: Vec<_> = after.iter().map(|burst| burst.faults).collect();
    let all = (SHORT / PAGE) as u64;
    assert!(faults[8..].iter().all(|later| *later < all / 4), "{faults:?}");
}
