//! What a program can do to an allocator, and how eight bytes say it.
//!
//! Sizes are symbolic ([`Extent`]): the same program hits the class edges of whatever subject it is run on.
//!
//! ```text
//! byte 0     1       2, 3        4       5, 6      7
//! kind | extent | magnitude | align |  pick   | detail
//! ```
//!
//! Every word means an operation. Small numbers mean simple ones, so that shrinking a word simplifies it.
#![forbid(unsafe_code)]

use core::alloc::Layout;

use crate::config::{LARGEST_DRAWN, RARE_ALIGN};

/// An operation as it is stored.
pub type Word = [u8; 8];

/// A size, or a difference of sizes, that is resolved when the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// So many bytes.
    Bytes(usize),
    /// One of the subject's interesting sizes, by index modulo their number, and a little more or less.
    Edge {
        /// Which of them.
        index: u8,
        /// Bytes added to it.
        delta: i8,
    },
    /// A size that no machine has: `isize::MAX`, halved up to three times, less a few bytes.
    Huge {
        /// How often it is halved.
        halved: u8,
        /// Bytes taken from it.
        less: u8,
    },
}

impl Extent {
    /// The size it stands for, for a subject with these interesting sizes.
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

    /// Whether no machine can serve it.
    #[must_use]
    pub const fn is_huge(self) -> bool {
        matches!(self, Self::Huge { .. })
    }

    /// The size that a block of `old` bytes grows to: by so many bytes, or to that size if it is larger.
    #[must_use]
    pub fn grown(self, old: usize, edges: &[usize]) -> usize {
        let size = self.resolve(edges);
        if matches!(self, Self::Bytes(_)) { old.saturating_add(size) } else { old.max(size) }
    }

    /// The size that a block of `old` bytes shrinks to: by so many bytes, or to that size if it is smaller.
    /// A huge extent shrinks to nothing.
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
            // Mostly small, as real programs are.
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

/// A layout of `size` bytes, cut down to the largest that an alignment of `align` allows.
#[must_use]
pub fn clamped(size: usize, align: usize) -> Layout {
    let largest = isize::MAX as usize - (align - 1);
    Layout::from_size_align(size.min(largest), align)
        .expect("the size was clamped and alignments are powers of two")
}

/// One operation. `pick` names a live block by its index, oldest first, modulo their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `allocate`.
    Allocate {
        /// Size of the block.
        size: Extent,
        /// Its alignment in bytes.
        align: usize,
    },
    /// `allocate_zeroed`.
    AllocateZeroed {
        /// Size of the block.
        size: Extent,
        /// Its alignment in bytes.
        align: usize,
    },
    /// `allocate` on a thread of its own, which is gone before the block is used.
    AllocateElsewhere {
        /// Size of the block.
        size: Extent,
        /// Its alignment in bytes.
        align: usize,
    },
    /// `grow` with the same alignment.
    Grow {
        /// Which block.
        pick: u16,
        /// By, or to, how much.
        by: Extent,
    },
    /// `grow_zeroed` with the same alignment.
    GrowZeroed {
        /// Which block.
        pick: u16,
        /// By, or to, how much.
        by: Extent,
    },
    /// `grow` to another alignment.
    GrowAlign {
        /// Which block.
        pick: u16,
        /// By, or to, how much.
        by: Extent,
        /// The new alignment in bytes.
        align: usize,
    },
    /// `grow_zeroed` to another alignment.
    GrowZeroedAlign {
        /// Which block.
        pick: u16,
        /// By, or to, how much.
        by: Extent,
        /// The new alignment in bytes.
        align: usize,
    },
    /// `shrink` with the same alignment.
    Shrink {
        /// Which block.
        pick: u16,
        /// By, or to, how much.
        by: Extent,
    },
    /// `shrink` to another alignment.
    ShrinkAlign {
        /// Which block.
        pick: u16,
        /// By, or to, how much.
        by: Extent,
        /// The new alignment in bytes.
        align: usize,
    },
    /// Frees a block.
    Free {
        /// Which block.
        pick: u16,
    },
    /// Frees the oldest block.
    FreeFifo,
    /// Frees the youngest block.
    FreeLifo,
    /// Moves blocks to another thread, which checks and frees them.
    HandOver {
        /// The first of them.
        pick: u16,
        /// How many.
        count: u8,
    },
    /// Asks the allocator to give back what it can.
    Trim,
    /// Reads all live blocks again.
    CheckAll,
}

/// What an [`Op`] does, without its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
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

/// What byte 0 of a word means, modulo 32. Slightly more blocks are allocated than freed, so that they pile up.
const KINDS: [Kind; 32] = {
    use Kind::{
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

impl Kind {
    /// A byte 0 that means this kind.
    pub(crate) fn byte(self) -> u8 {
        KINDS.iter().position(|&kind| kind == self).expect("every kind stands in the table") as u8
    }
}

/// Most alignments are those of ordinary types, some of pages and above, one in 256 is absurd.
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
    /// The operation that `word` means: every word means one.
    #[must_use]
    pub fn decode(word: Word) -> Self {
        let [kind, extent, low, high, aligned, pick_low, pick_high, detail] = word;
        let by = Extent::decode(extent, u16::from_le_bytes([low, high]), detail);
        let align = align(aligned);
        let pick = u16::from_le_bytes([pick_low, pick_high]);
        match KINDS[usize::from(kind) % KINDS.len()] {
            Kind::Allocate => Self::Allocate { size: by, align },
            Kind::AllocateZeroed => Self::AllocateZeroed { size: by, align },
            Kind::AllocateElsewhere => Self::AllocateElsewhere { size: by, align },
            Kind::Grow => Self::Grow { pick, by },
            Kind::GrowZeroed => Self::GrowZeroed { pick, by },
            Kind::GrowAlign => Self::GrowAlign { pick, by, align },
            Kind::GrowZeroedAlign => Self::GrowZeroedAlign { pick, by, align },
            Kind::Shrink => Self::Shrink { pick, by },
            Kind::ShrinkAlign => Self::ShrinkAlign { pick, by, align },
            Kind::Free => Self::Free { pick },
            Kind::FreeFifo => Self::FreeFifo,
            Kind::FreeLifo => Self::FreeLifo,
            Kind::HandOver => Self::HandOver { pick, count: 1 + detail % 6 },
            Kind::Trim => Self::Trim,
            Kind::CheckAll => Self::CheckAll,
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
        (0..count).map(|_| Op::decode(rng.next().to_le_bytes())).collect()
    }

    #[test]
    fn random_words_reach_every_kind() {
        let drawn = drawn();
        for kind in KINDS {
            let word = [kind.byte(), 0, 0, 0, 0, 0, 0, 0];
            let wanted = core::mem::discriminant(&Op::decode(word));
            assert!(drawn.iter().any(|op| core::mem::discriminant(op) == wanted), "{kind:?} is never drawn");
        }
    }

    #[test]
    fn boundary_sizes_and_alignments_are_drawn() {
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
    fn every_extent_makes_a_layout() {
        let mut rng = SplitMix::new(4);
        for _ in 0..if cfg!(miri) { 300 } else { 20_000 } {
            let word = rng.next().to_le_bytes();
            let extent = Extent::decode(word[0], u16::from_le_bytes([word[1], word[2]]), word[3]);
            let old = rng.below(5000);
            let edges = [0, 48, usize::MAX];
            assert!(extent.grown(old, &edges) >= old);
            assert!(extent.shrunk(old, &edges) <= old);
            assert_eq!(clamped(extent.resolve(&edges), align(word[4])).align(), align(word[4]));
        }
    }
}
