//! Bytes and blocks held, counted from any thread.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What is held at one moment. Exact while no call is in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Bytes held, by the sizes that were asked for.
    pub bytes: usize,
    /// Most bytes held at once since the start, or since the peak was last reset.
    pub peak: usize,
    /// Blocks held, zero-sized ones included.
    pub blocks: usize,
    /// Bytes ever taken: sizes of all blocks served, and what successful grows added. Modulo 2^32 on 32-bit targets.
    pub taken: u64,
}

/// The counters behind a [`Level`]. No wider than a pointer: the allocators build for targets without 64-bit atomics.
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

    /// A block of `bytes` was served.
    pub(crate) fn take(&self, bytes: usize) {
        self.blocks.fetch_add(1, Relaxed);
        self.add(bytes);
    }

    /// A block of `bytes` came back.
    pub(crate) fn give(&self, bytes: usize) {
        self.blocks.fetch_sub(1, Relaxed);
        self.bytes.fetch_sub(bytes, Relaxed);
    }

    /// A block of `old` bytes has `new` bytes now.
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

    /// The peak starts again from what is held now.
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
