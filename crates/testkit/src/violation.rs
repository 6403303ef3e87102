//! What the suite can find wrong with an allocator, as values that say what, where and how much.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::alloc::Layout;
use core::error::Error;
use core::fmt;

use crate::ops::Op;
use crate::program::Program;

/// A promise of the `Allocator` trait, or of this workspace, that was not kept. Addresses are for reading only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A block shares bytes with one that is live.
    Overlap {
        /// Address of the new block.
        address: usize,
        /// Its length in bytes.
        len: usize,
        /// Address of the live block.
        other: usize,
        /// Length of the live block in bytes.
        other_len: usize,
    },
    /// A block reaches beyond the end of the address space.
    Wrapped {
        /// Address of the block.
        address: usize,
        /// Its length in bytes.
        len: usize,
    },
    /// A block is not aligned as was asked.
    Misaligned {
        /// Address of the block.
        address: usize,
        /// The alignment that was asked for.
        align: usize,
    },
    /// The slice that was returned has another length than was asked for.
    WrongLength {
        /// Bytes asked for.
        asked: usize,
        /// Bytes given.
        given: usize,
    },
    /// A live block, or the part that a resize has to keep, no longer holds what was written to it.
    Changed {
        /// Address of the block.
        address: usize,
        /// Its length in bytes.
        len: usize,
        /// Offset of the first changed byte.
        offset: usize,
        /// What stands there.
        found: u8,
        /// What was written there.
        expected: u8,
    },
    /// Memory that had to be zeroed is not.
    NotZero {
        /// Address of the block.
        address: usize,
        /// Its length in bytes.
        len: usize,
        /// Offset of the first byte that is not zero.
        offset: usize,
        /// What stands there.
        found: u8,
    },
    /// An ordinary request was refused although the backing allocator had refused nothing.
    Refused {
        /// The request.
        layout: Layout,
    },
    /// A subject that says it hands blocks over did the errand on the thread that sent it.
    NotElsewhere,
    /// After every block was freed, bytes are still held.
    BytesLeft {
        /// Bytes held before the program ran: 0 except for subjects with global state.
        before: usize,
        /// Bytes held after it.
        after: usize,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Overlap { address, len, other, other_len } => write!(
                f,
                "block of {len} bytes at {address:#x} overlaps the live block of {other_len} bytes at {other:#x}"
            ),
            Self::Wrapped { address, len } => {
                write!(f, "block of {len} bytes at {address:#x} reaches beyond the address space")
            }
            Self::Misaligned { address, align } => {
                write!(f, "block at {address:#x} is not aligned to {align}")
            }
            Self::WrongLength { asked, given } => {
                write!(f, "asked for {asked} bytes and got a slice of {given}")
            }
            Self::Changed { address, len, offset, found, expected } => write!(
                f,
                "byte {offset} of the block of {len} bytes at {address:#x} is {found:#04x}, written was {expected:#04x}"
            ),
            Self::NotZero { address, len, offset, found } => {
                write!(f, "byte {offset} of the zeroed block of {len} bytes at {address:#x} is {found:#04x}")
            }
            Self::Refused { layout } => write!(
                f,
                "{} bytes aligned to {} were refused although the backing allocator refused nothing",
                layout.size(),
                layout.align()
            ),
            Self::NotElsewhere => {
                write!(f, "an errand for another thread was run on the thread that sent it")
            }
            Self::BytesLeft { before, after } => {
                write!(f, "{after} bytes are held after every block was freed, {before} were before")
            }
        }
    }
}

impl Error for Violation {}

/// When in a run something was found wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// A fresh allocator that served nothing was finished.
    Fresh,
    /// The operation with this index.
    Op(usize, Op),
    /// The last check, or the freeing of what the program left.
    Closing,
    /// The allocator was finished.
    Finish,
}

/// Which calls of the backing allocator are refused during a run. Calls are counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusing {
    /// None.
    Nothing,
    /// This call only.
    Once(u64),
    /// This call and every one after it.
    From(u64),
}

/// A failed run: what was found, when, and the program to find it again.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What was found.
    pub violation: Violation,
    /// When it was found.
    pub stage: Stage,
    /// Which calls of the backing allocator were refused.
    pub refusing: Refusing,
    /// The program that was run, as [`Program::from_bytes`] takes it.
    pub program: Vec<u8>,
}

impl Failure {
    pub(crate) fn new(violation: Violation, stage: Stage, refusing: Refusing, program: &Program) -> Self {
        Self { violation, stage, refusing, program: program.to_bytes() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.stage {
            Stage::Fresh => write!(f, "before the first operation")?,
            Stage::Op(index, op) => write!(f, "operation {index}, {op:?}")?,
            Stage::Closing => write!(f, "while what was left was freed")?,
            Stage::Finish => write!(f, "at the end")?,
        }
        write!(f, ": {}", self.violation)?;
        match self.refusing {
            Refusing::Nothing => {}
            Refusing::Once(call) => write!(f, " [backing call {call} refused]")?,
            Refusing::From(call) => write!(f, " [backing calls refused from {call} on]")?,
        }
        write!(f, "\nagain with: Program::from_bytes(&{:?})", self.program)
    }
}

impl Error for Failure {}
