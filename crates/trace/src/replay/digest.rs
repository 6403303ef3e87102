//! Identifies the operations of a trace, so that the advice can match the figures of a replay with
//! their trace.
#![forbid(unsafe_code)]

use core::fmt;

use ephemera_recorder::{TraceEvent, What};

/// A digest of the operations of a trace: their kinds, threads, addresses, sizes and alignments, in
/// the recorded order. The digest does not depend on times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest(u64);

impl Digest {
    pub(crate) fn add(&mut self, event: &TraceEvent) {
        let (kind, address, size) = match event.what {
            What::Alloc { address, size, align_log2, zeroed } => {
                (if zeroed { 2 } else { 1 } | u64::from(align_log2) << 8, address, size)
            }
            What::Free { address } => (3, address, 0),
            What::Resize { address } => (4, address, 0),
            What::Resized { address, size } => (5, address, size),
        };
        for word in [kind | u64::from(event.thread) << 16, address, size] {
            self.0 = (self.0 ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
