//! Defines counters of the bytes and blocks held, which any thread may update.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The bytes and blocks held at one moment. The numbers are exact if no call is in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// The sum of the requested sizes of all blocks held, in bytes.
    pub bytes: usize,
    /// The largest number of bytes held at one time since the start, or since the peak was last
    /// reset.
    pub peak: usize,
    /// The number of blocks held, including zero-sized ones.
    pub blocks: usize,
    /// Bytes ever allocated: the sizes of all new blocks, and the bytes that resizes added. Wraps
    /// at 2^32 on 32-bit targets.
    pub taken: u64,
}

/// The counters of a [`Level`]. They are no wider than a pointer, because some targets have no
/// 64-bit atomics.
#[derive(Debug)]
pub(crate) struct Gauge {
    bytes: AtomicUsize,
    peak: AtomicUsize,
    blocks: AtomicUsize,
    taken: AtomicUsize,
}

impl Gauge {
    pub(crate) const fn new() -> Self {
        Self {
            bytes: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            blocks: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
        }
    }

    /// Counts a new block of `bytes` bytes.
    pub(crate) fn take(&self, bytes: usize) {
        self.blocks.fetch_add(1, Relaxed);
        self.add(bytes);
    }

    /// Counts the free of a block of `bytes` bytes.
    pub(crate) fn give(&self, bytes: usize) {
        self.blocks.fetch_sub(1, Relaxed);
        self.bytes.fetch_sub(bytes, Relaxed);
    }

    /// Counts the resize of a block from `old` to `new` bytes.
    pub(crate) fn resize(&self, old: usize, new: usize) {
        if new >= old {
            self.add(new - old);
        } else {
            self.bytes.fetch_sub(old - new, Relaxed);
        }
    }

    pub(crate) fn level(&self) -> Level {
        Level {
            bytes: self.bytes.load(Relaxed),
            peak: self.peak.load(Relaxed),
            blocks: self.blocks.load(Relaxed),
            taken: self.taken.load(Relaxed) as u64,
        }
    }

    /// Restarts the peak from the bytes held now.
    pub(crate) fn reset_peak(&self) {
        self.peak.store(self.bytes.load(Relaxed), Relaxed);
    }

    fn add(&self, bytes: usize) {
        let held = self.bytes.fetch_add(bytes, Relaxed).wrapping_add(bytes);
        self.peak.fetch_max(held, Relaxed);
        self.taken.fetch_add(bytes, Relaxed);
    }
}

impl Default for Gauge {
    fn default() -> Self {
        Self::new()
    }
}
