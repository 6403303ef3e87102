//! Sequences of operations, drawn from bytes, from a seed, or by proptest.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::fmt;

use proptest::prelude::{Strategy, any};

use crate::ops::{Kind, Op, Word};
use crate::rng::SplitMix;

/// Which operations a program drawn from a seed consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// All of them.
    Mixed,
    /// Blocks are freed in the order they were allocated in: a queue.
    Fifo,
    /// Blocks are freed in the opposite order: a stack.
    Lifo,
    /// Few blocks that are grown and shrunk over and over.
    Resize,
    /// Blocks move between threads.
    HandOver,
    /// Memory is asked back all the time, with a few blocks live.
    Trim,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Self; 6] =
        [Self::Mixed, Self::Fifo, Self::Lifo, Self::Resize, Self::HandOver, Self::Trim];

    /// The kinds it draws from, evenly; none for all of them.
    const fn kinds(self) -> &'static [Kind] {
        use Kind::{
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

/// A sequence of operations. Any bytes are one, any part of one is one.
#[derive(Clone, PartialEq, Eq)]
pub struct Program {
    words: Vec<Word>,
}

impl Program {
    /// The program that `bytes` mean, eight to an operation; a rest is filled up with zeros. For fuzzers.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let word = |chunk: &[u8]| {
            let mut word = Word::default();
            word[..chunk.len()].copy_from_slice(chunk);
            word
        };
        Self { words: bytes.chunks(size_of::<Word>()).map(word).collect() }
    }

    /// The bytes that mean this program.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.words.concat()
    }

    /// A program of `len` operations of `profile`, the same for equal arguments.
    #[must_use]
    pub fn from_seed(seed: u64, len: usize, profile: Profile) -> Self {
        let mut rng = SplitMix::new(seed);
        let kinds = profile.kinds();
        let mut words = Vec::with_capacity(len);
        for _ in 0..len {
            let mut word = rng.next().to_le_bytes();
            if !kinds.is_empty() {
                word[0] = kinds[rng.below(kinds.len())].byte();
            }
            words.push(word);
        }
        Self { words }
    }

    /// Programs of at most `len` operations, for proptest; they shrink to fewer and simpler operations.
    pub fn strategy(len: usize) -> impl Strategy<Value = Self> {
        proptest::collection::vec(any::<Word>(), 0..=len).prop_map(|words| Self { words })
    }

    /// The operations in order.
    pub fn ops(&self) -> impl Iterator<Item = Op> + '_ {
        self.words.iter().map(|&word| Op::decode(word))
    }

    /// Number of operations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether there is no operation.
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
    fn any_bytes_are_a_program() {
        for len in [0, 1, 7, 8, 9, 64] {
            let bytes = alloc::vec![0xff; len];
            let program = Program::from_bytes(&bytes);
            assert_eq!(program.len(), len.div_ceil(8));
            assert_eq!(program.ops().count(), program.len());
            assert_eq!(&program.to_bytes()[..len], &bytes[..]);
        }
    }

    #[test]
    fn bytes_of_a_program_mean_the_same_program() {
        for profile in Profile::ALL {
            let program = Program::from_seed(5, 50, profile);
            assert_eq!(Program::from_bytes(&program.to_bytes()), program);
            assert_eq!(Program::from_seed(5, 50, profile), program);
            assert_ne!(Program::from_seed(6, 50, profile), program);
        }
    }

    #[test]
    fn a_profile_draws_only_its_kinds() {
        let program = Program::from_seed(1, 400, Profile::Fifo);
        let ops = program.ops().filter(|op| !matches!(op, Op::Allocate { .. } | Op::AllocateZeroed { .. }));
        assert!(ops.into_iter().all(|op| matches!(op, Op::FreeFifo | Op::CheckAll)));
    }
}
