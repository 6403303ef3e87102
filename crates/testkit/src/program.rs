//! Defines programs: sequences of operations, generated from bytes, from a seed, or by proptest.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::fmt;

use proptest::prelude::{Strategy, any};

use crate::ops::{Op, OpKind, OpWord};
use crate::rng::SplitMix;

/// The mix of operations in a program generated from a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// All kinds of operation.
    Mixed,
    /// Blocks are freed in the order in which they were allocated, as from a queue.
    Fifo,
    /// Blocks are freed in the reverse order of their allocation, as from a stack.
    Lifo,
    /// A few live blocks are grown and shrunk repeatedly.
    Resize,
    /// Blocks move between threads.
    HandOver,
    /// The allocator is trimmed repeatedly, with a few live blocks.
    Trim,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Self; 6] =
        [Self::Mixed, Self::Fifo, Self::Lifo, Self::Resize, Self::HandOver, Self::Trim];

    /// Returns the kinds to draw from. A kind that is listed twice is drawn twice as often. If the
    /// slice is empty, all kinds are drawn, as often as random words encode them.
    const fn kinds(self) -> &'static [OpKind] {
        use OpKind::{
            Allocate, AllocateElsewhere, AllocateZeroed, CheckAll, Free, FreeFifo, FreeLifo, Grow, GrowAlign,
            GrowZeroed, GrowZeroedAlign, HandOver, Shrink, ShrinkAlign, Trim,
        };
        match self {
            Self::Mixed => &[],
            Self::Fifo => &[
                Allocate,
                Allocate,
                Allocate,
                Allocate,
                AllocateZeroed,
                AllocateZeroed,
                FreeFifo,
                FreeFifo,
                FreeFifo,
                FreeFifo,
                FreeFifo,
                CheckAll,
            ],
            Self::Lifo => &[
                Allocate,
                Allocate,
                Allocate,
                Allocate,
                AllocateZeroed,
                AllocateZeroed,
                FreeLifo,
                FreeLifo,
                FreeLifo,
                FreeLifo,
                FreeLifo,
                CheckAll,
            ],
            Self::Resize => &[
                Allocate,
                AllocateZeroed,
                Free,
                FreeLifo,
                Grow,
                Grow,
                GrowZeroed,
                GrowZeroed,
                GrowAlign,
                GrowZeroedAlign,
                Shrink,
                Shrink,
                Shrink,
                ShrinkAlign,
                CheckAll,
            ],
            Self::HandOver => &[
                Allocate,
                Allocate,
                Allocate,
                Allocate,
                AllocateZeroed,
                AllocateElsewhere,
                Free,
                FreeFifo,
                HandOver,
                GrowZeroed,
                Trim,
            ],
            Self::Trim => {
                &[Allocate, Allocate, Allocate, Grow, Free, FreeFifo, FreeLifo, Trim, Trim, CheckAll]
            }
        }
    }
}

/// A sequence of operations. Every byte string decodes to a program, and any subsequence of a
/// program's operations is a program.
#[derive(Clone, PartialEq, Eq)]
pub struct Program {
    words: Vec<OpWord>,
}

impl Program {
    /// Decodes a program from bytes, eight for each operation. Pads the last operation with zeros.
    /// Fuzz targets call this function.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let word = |chunk: &[u8]| {
            let mut word = OpWord::default();
            word[..chunk.len()].copy_from_slice(chunk);
            word
        };
        Self { words: bytes.chunks(size_of::<OpWord>()).map(word).collect() }
    }

    /// Returns the bytes that decode to this program.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.words.concat()
    }

    /// Generates a program of `len` operations with the mix `profile`. Equal arguments give equal
    /// programs.
    #[must_use]
    pub fn from_seed(seed: u64, len: usize, profile: Profile) -> Self {
        let mut rng = SplitMix::new(seed);
        let kinds = profile.kinds();
        let mut words = Vec::with_capacity(len);
        for _ in 0..len {
            let mut word = rng.draw().to_le_bytes();
            if !kinds.is_empty() {
                word[0] = kinds[rng.below(kinds.len())].byte();
            }
            words.push(word);
        }
        Self { words }
    }

    /// Returns a proptest strategy for programs of at most `len` operations. It shrinks a program
    /// to fewer and simpler operations.
    pub fn strategy(len: usize) -> impl Strategy<Value = Self> {
        proptest::collection::vec(any::<OpWord>(), 0..=len).prop_map(|words| Self { words })
    }

    /// Returns the operations in order.
    pub fn ops(&self) -> impl Iterator<Item = Op> + '_ {
        self.words.iter().map(|&word| Op::decode(word))
    }

    /// Returns the number of operations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Returns whether the program has no operations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ops()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_decode_to_a_program() {
        for len in [0, 1, 7, 8, 9, 64] {
            let bytes = alloc::vec![0xff; len];
            let program = Program::from_bytes(&bytes);
            assert_eq!(program.len(), len.div_ceil(8));
            assert_eq!(program.ops().count(), program.len());
            assert_eq!(&program.to_bytes()[..len], &bytes[..]);
        }
    }

    #[test]
    fn program_round_trips_through_bytes() {
        for profile in Profile::ALL {
            let program = Program::from_seed(5, 50, profile);
            assert_eq!(Program::from_bytes(&program.to_bytes()), program);
            assert_eq!(Program::from_seed(5, 50, profile), program);
            assert_ne!(Program::from_seed(6, 50, profile), program);
        }
    }

    #[test]
    fn profile_generates_only_its_kinds() {
        let program = Program::from_seed(1, 400, Profile::Fifo);
        let ops = program.ops().filter(|op| !matches!(op, Op::Allocate { .. } | Op::AllocateZeroed { .. }));
        assert!(ops.into_iter().all(|op| matches!(op, Op::FreeFifo | Op::CheckAll)));
    }
}
