//! Defines the operations of a program, and their encoding in eight bytes each.
//!
//! Sizes are symbolic ([`Extent`]), so the same program reaches the class edges of every subject.
//!
//! ```text
//! byte 0     1       2, 3        4       5, 6      7
//! kind | extent | magnitude | align |  pick   | detail
//! ```
//!
//! Every word of eight bytes decodes to an operation. Smaller bytes encode simpler operations, so
//! an operation becomes simpler when proptest shrinks its word.
#![forbid(unsafe_code)]

use core::alloc::Layout;

use crate::config::{LARGEST_DRAWN, RARE_ALIGN};

/// An encoded operation.
pub type OpWord = [u8; 8];

/// A size, or a difference of sizes, that the suite resolves when the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// A number of bytes.
    Bytes(usize),
    /// One of the subject's interesting sizes, or a size close to it.
    Edge {
        /// The index of the interesting size, modulo the number of interesting sizes.
        index: u8,
        /// The number of bytes to add to that size.
        delta: i8,
    },
    /// A size that no 64-bit machine can serve: `isize::MAX`, halved up to three times, minus up to
    /// 255 bytes.
    Huge {
        /// The number of times that `isize::MAX` is halved, at most three.
        halved: u8,
        /// The number of bytes to subtract.
        less: u8,
    },
}

impl Extent {
    /// Returns this extent as a size in bytes. `edges` are the subject's interesting sizes. If
    /// there are none, 64 replaces them.
    #[must_use]
    pub fn resolve(self, edges: &[usize]) -> usize {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Edge { index, delta } => {
                let edge = if edges.is_empty() { 64 } else { edges[usize::from(index) % edges.len()] };
                edge.saturating_add_signed(isize::from(delta))
            }
            Self::Huge { halved, less } => (isize::MAX as usize >> halved.min(3)) - usize::from(less),
        }
    }

    /// Returns whether this is an [`Extent::Huge`].
    #[must_use]
    pub const fn is_huge(self) -> bool {
        matches!(self, Self::Huge { .. })
    }

    /// Returns the size that a block of `old` bytes grows to. [`Extent::Bytes`] is the difference.
    /// Any other extent is the new size, unless `old` is larger.
    #[must_use]
    pub fn grown(self, old: usize, edges: &[usize]) -> usize {
        let size = self.resolve(edges);
        if matches!(self, Self::Bytes(_)) { old.saturating_add(size) } else { old.max(size) }
    }

    /// Returns the size that a block of `old` bytes shrinks to. [`Extent::Bytes`] is the
    /// difference, and [`Extent::Edge`] the new size, unless `old` is smaller. For
    /// [`Extent::Huge`], returns 0.
    #[must_use]
    pub fn shrunk(self, old: usize, edges: &[usize]) -> usize {
        match self {
            Self::Bytes(bytes) => old.saturating_sub(bytes),
            Self::Edge { .. } => old.min(self.resolve(edges)),
            Self::Huge { .. } => 0,
        }
    }

    fn decode(selector: u8, magnitude: u16, detail: u8) -> Self {
        let magnitude = usize::from(magnitude);
        let delta = usize::from(detail % 3);
        match selector {
            // Mostly small sizes, as in real programs.
            0..=111 => Self::Bytes(magnitude % 257),
            112..=127 => Self::Bytes(magnitude % 2),
            128..=159 => Self::Bytes(magnitude % 4097),
            // Powers of two and their neighbours.
            160..=199 => {
                let power = 1_usize << (magnitude % 21);
                Self::Bytes((power + delta - 1).min(LARGEST_DRAWN))
            }
            200..=243 => Self::Edge {
                index: selector.wrapping_add(detail),
                delta: [0, -1, 1, 8, -8, 16][magnitude % 6],
            },
            244..=251 => Self::Bytes((magnitude * 16).min(LARGEST_DRAWN)),
            252..=255 => Self::Huge { halved: detail % 4, less: (magnitude % 200) as u8 },
        }
    }
}

/// Returns a layout of `size` bytes, or of the largest size that the alignment `align` allows if
/// `size` is larger.
#[must_use]
pub fn clamped(size: usize, align: usize) -> Layout {
    let largest = isize::MAX as usize - (align - 1);
    Layout::from_size_align(size.min(largest), align)
        .expect("the size was clamped, and alignments are powers of two")
}

/// One operation of a program. `pick`, modulo the number of live blocks, is the index of a live
/// block. The oldest block has index 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Calls `allocate`.
    Allocate {
        /// The size of the block.
        size: Extent,
        /// The alignment of the block in bytes.
        align: usize,
    },
    /// Calls `allocate_zeroed`.
    AllocateZeroed {
        /// The size of the block.
        size: Extent,
        /// The alignment of the block in bytes.
        align: usize,
    },
    /// Calls `allocate` on a new thread, which ends before the suite uses the block. A subject that
    /// cannot share its allocator calls `allocate` on the calling thread.
    AllocateElsewhere {
        /// The size of the block.
        size: Extent,
        /// The alignment of the block in bytes.
        align: usize,
    },
    /// Calls `grow` with the same alignment.
    Grow {
        /// The block to resize.
        pick: u16,
        /// The number of bytes to grow by, or the new size.
        by: Extent,
    },
    /// Calls `grow_zeroed` with the same alignment.
    GrowZeroed {
        /// The block to resize.
        pick: u16,
        /// The number of bytes to grow by, or the new size.
        by: Extent,
    },
    /// Calls `grow` with another alignment.
    GrowAlign {
        /// The block to resize.
        pick: u16,
        /// The number of bytes to grow by, or the new size.
        by: Extent,
        /// The new alignment in bytes.
        align: usize,
    },
    /// Calls `grow_zeroed` with another alignment.
    GrowZeroedAlign {
        /// The block to resize.
        pick: u16,
        /// The number of bytes to grow by, or the new size.
        by: Extent,
        /// The new alignment in bytes.
        align: usize,
    },
    /// Calls `shrink` with the same alignment.
    Shrink {
        /// The block to resize.
        pick: u16,
        /// The number of bytes to shrink by, or the new size.
        by: Extent,
    },
    /// Calls `shrink` with another alignment.
    ShrinkAlign {
        /// The block to resize.
        pick: u16,
        /// The number of bytes to shrink by, or the new size.
        by: Extent,
        /// The new alignment in bytes.
        align: usize,
    },
    /// Frees a block.
    Free {
        /// The block to free.
        pick: u16,
    },
    /// Frees the oldest block.
    FreeFifo,
    /// Frees the newest block.
    FreeLifo,
    /// Sends blocks to another thread, which checks and frees them. A subject that cannot share its
    /// allocator frees them on the calling thread.
    HandOver {
        /// The index of the next block to send, modulo the number of blocks not sent yet.
        pick: u16,
        /// The largest number of blocks to send.
        count: u8,
    },
    /// Asks the allocator to return memory to the backing allocator.
    Trim,
    /// Checks the contents of all live blocks.
    CheckAll,
}

/// The kind of an [`Op`], without its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpKind {
    Allocate,
    AllocateZeroed,
    AllocateElsewhere,
    Grow,
    GrowZeroed,
    GrowAlign,
    GrowZeroedAlign,
    Shrink,
    ShrinkAlign,
    Free,
    FreeFifo,
    FreeLifo,
    HandOver,
    Trim,
    CheckAll,
}

/// Maps byte 0 of a word, modulo 32, to a kind of operation. Programs allocate slightly more blocks
/// than they free, so the number of live blocks grows.
const KINDS: [OpKind; 32] = {
    use OpKind::{
        Allocate, AllocateElsewhere, AllocateZeroed, CheckAll, Free, FreeFifo, FreeLifo, Grow, GrowAlign,
        GrowZeroed, GrowZeroedAlign, HandOver, Shrink, ShrinkAlign, Trim,
    };
    [
        Allocate,
        Free,
        Grow,
        Shrink,
        AllocateZeroed,
        GrowZeroed,
        FreeFifo,
        FreeLifo,
        CheckAll,
        GrowAlign,
        ShrinkAlign,
        GrowZeroedAlign,
        Trim,
        HandOver,
        AllocateElsewhere,
        Allocate,
        Allocate,
        Allocate,
        Allocate,
        Allocate,
        Allocate,
        Allocate,
        Allocate,
        AllocateZeroed,
        AllocateZeroed,
        Free,
        Free,
        Free,
        FreeFifo,
        FreeLifo,
        Grow,
        Shrink,
    ]
};

impl OpKind {
    /// Returns the smallest value of byte 0 that encodes this kind.
    pub(crate) fn byte(self) -> u8 {
        KINDS.iter().position(|&kind| kind == self).expect("the table contains every kind") as u8
    }
}

/// Decodes an alignment in bytes. Most alignments are alignments of ordinary types, some are up to
/// 64 KiB, and one in 256 is [`RARE_ALIGN`].
fn align(selector: u8) -> usize {
    let selector = usize::from(selector);
    match selector {
        0..=159 => 1 << (selector % 5),
        160..=227 => 1 << (selector % 13),
        228..=254 => 1 << (selector % 17),
        _ => RARE_ALIGN,
    }
}

impl Op {
    /// Decodes a word to an operation.
    #[must_use]
    pub fn decode(word: OpWord) -> Self {
        let [kind, extent, low, high, aligned, pick_low, pick_high, detail] = word;
        let by = Extent::decode(extent, u16::from_le_bytes([low, high]), detail);
        let align = align(aligned);
        let pick = u16::from_le_bytes([pick_low, pick_high]);
        match KINDS[usize::from(kind) % KINDS.len()] {
            OpKind::Allocate => Self::Allocate { size: by, align },
            OpKind::AllocateZeroed => Self::AllocateZeroed { size: by, align },
            OpKind::AllocateElsewhere => Self::AllocateElsewhere { size: by, align },
            OpKind::Grow => Self::Grow { pick, by },
            OpKind::GrowZeroed => Self::GrowZeroed { pick, by },
            OpKind::GrowAlign => Self::GrowAlign { pick, by, align },
            OpKind::GrowZeroedAlign => Self::GrowZeroedAlign { pick, by, align },
            OpKind::Shrink => Self::Shrink { pick, by },
            OpKind::ShrinkAlign => Self::ShrinkAlign { pick, by, align },
            OpKind::Free => Self::Free { pick },
            OpKind::FreeFifo => Self::FreeFifo,
            OpKind::FreeLifo => Self::FreeLifo,
            OpKind::HandOver => Self::HandOver { pick, count: 1 + detail % 6 },
            OpKind::Trim => Self::Trim,
            OpKind::CheckAll => Self::CheckAll,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::rng::SplitMix;

    fn drawn() -> Vec<Op> {
        let mut rng = SplitMix::new(3);
        let count = if cfg!(miri) { 2_000 } else { 100_000 };
        (0..count).map(|_| Op::decode(rng.draw().to_le_bytes())).collect()
    }

    #[test]
    fn random_words_decode_to_every_kind() {
        let drawn = drawn();
        for kind in KINDS {
            let word = [kind.byte(), 0, 0, 0, 0, 0, 0, 0];
            let wanted = core::mem::discriminant(&Op::decode(word));
            assert!(
                drawn.iter().any(|op| core::mem::discriminant(op) == wanted),
                "{kind:?} was never generated"
            );
        }
    }

    #[test]
    fn random_words_decode_to_boundary_sizes_and_alignments() {
        let requests: Vec<(Extent, usize)> = drawn()
            .into_iter()
            .filter_map(|op| if let Op::Allocate { size, align } = op { Some((size, align)) } else { None })
            .collect();
        for wanted in [0, 1, 15, 16, 17, 255, 256, 257, 4095, 4096, 4097] {
            let found = requests.iter().any(|(size, _)| *size == Extent::Bytes(wanted));
            assert!(found || cfg!(miri), "no block of {wanted} bytes");
        }
        assert!(requests.iter().any(|(size, _)| size.is_huge()));
        for power in 0..=16 {
            assert!(
                requests.iter().any(|(_, align)| *align == 1 << power) || cfg!(miri),
                "no alignment 2^{power}"
            );
        }
        assert!(requests.iter().any(|(_, align)| *align == RARE_ALIGN) || cfg!(miri));
    }

    #[test]
    fn every_extent_gives_a_valid_layout() {
        let mut rng = SplitMix::new(4);
        for _ in 0..if cfg!(miri) { 300 } else { 20_000 } {
            let word = rng.draw().to_le_bytes();
            let extent = Extent::decode(word[0], u16::from_le_bytes([word[1], word[2]]), word[3]);
            let old = rng.below(5000);
            let edges = [0, 48, usize::MAX];
            assert!(extent.grown(old, &edges) >= old);
            assert!(extent.shrunk(old, &edges) <= old);
            assert_eq!(clamped(extent.resolve(&edges), align(word[4])).align(), align(word[4]));
        }
    }
}
