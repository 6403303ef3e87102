//! Defines the violations that the suite can find in an allocator, with addresses and sizes.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::alloc::Layout;
use core::error::Error;
use core::fmt;

use crate::ops::Op;
use crate::program::Program;

/// A violation of the contract of the `Allocator` trait, or of a rule of this workspace. Addresses
/// are for messages only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A new or resized block shares bytes with another live block.
    Overlap {
        /// The address of the new or resized block.
        address: usize,
        /// The length of that block in bytes.
        len: usize,
        /// The address of the other block.
        other: usize,
        /// The length of the other block in bytes.
        other_len: usize,
    },
    /// A block extends beyond the end of the address space.
    Wrapped {
        /// The address of the block.
        address: usize,
        /// The length of the block in bytes.
        len: usize,
    },
    /// A block is not aligned as requested.
    Misaligned {
        /// The address of the block.
        address: usize,
        /// The requested alignment in bytes.
        align: usize,
    },
    /// The returned slice does not have the requested length.
    WrongLength {
        /// The requested length in bytes.
        asked: usize,
        /// The length of the returned slice in bytes.
        given: usize,
    },
    /// The contents of a live block changed, or a resize did not keep its first bytes.
    Changed {
        /// The address of the block.
        address: usize,
        /// The length in bytes of the block, or of the prefix that a resize must keep.
        len: usize,
        /// The offset of the first changed byte.
        offset: usize,
        /// The byte found there.
        found: u8,
        /// The byte written there.
        expected: u8,
    },
    /// A byte that must be zero is not zero.
    NotZero {
        /// The address of the block.
        address: usize,
        /// The length of the block in bytes.
        len: usize,
        /// The offset of the first byte that is not zero.
        offset: usize,
        /// The byte found there.
        found: u8,
    },
    /// The allocator refused an ordinary request although the backing allocator refused nothing.
    Refused {
        /// The request.
        layout: Layout,
    },
    /// A subject with `HAND_OVER` ran a job on the thread that sent the job.
    NotElsewhere,
    /// After every block was freed, the subject holds more bytes from the backing allocator than
    /// before the program ran.
    BytesLeft {
        /// The bytes held before the program ran: 0 except for subjects with global state.
        before: usize,
        /// The bytes held after the program ran.
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
                write!(f, "block of {len} bytes at {address:#x} extends beyond the address space")
            }
            Self::Misaligned { address, align } => {
                write!(f, "block at {address:#x} is not aligned to {align}")
            }
            Self::WrongLength { asked, given } => {
                write!(f, "a request for {asked} bytes returned a slice of {given}")
            }
            Self::Changed { address, len, offset, found, expected } => write!(
                f,
                "byte {offset} of the block of {len} bytes at {address:#x} is {found:#04x}, expected {expected:#04x}"
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
                write!(f, "a job for another thread ran on the thread that sent it")
            }
            Self::BytesLeft { before, after } => {
                write!(f, "{after} bytes are held after every block was freed, and {before} were held before")
            }
        }
    }
}

impl Error for Violation {}

/// The point of a run at which the suite found a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The call to `Subject::finish` on a new allocator, before the first operation.
    Fresh,
    /// The operation with this index.
    Op(usize, Op),
    /// The last check of all blocks, or the frees of the remaining blocks.
    Closing,
    /// The call to `Subject::finish` after every block was freed.
    Finish,
}

/// The calls that the backing allocator refuses during a run. Calls are numbered from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusing {
    /// No call.
    Nothing,
    /// This call only.
    Once(u64),
    /// This call and every later one.
    From(u64),
}

/// A failed run: the violation, the stage of the run, and the program that reproduces it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The property that the allocator violated.
    pub violation: Violation,
    /// The point of the run at which the suite found the violation.
    pub stage: Stage,
    /// The calls that the backing allocator was set to refuse.
    pub refusing: Refusing,
    /// The program, encoded for [`Program::from_bytes`].
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
            Stage::Closing => write!(f, "while the remaining blocks were freed")?,
            Stage::Finish => write!(f, "at the end")?,
        }
        write!(f, ": {}", self.violation)?;
        match self.refusing {
            Refusing::Nothing => {}
            Refusing::Once(call) => write!(f, " [backing call {call} refused]")?,
            Refusing::From(call) => write!(f, " [backing calls from {call} on refused]")?,
        }
        write!(f, "\nto reproduce: Program::from_bytes(&{:?})", self.program)
    }
}

impl Error for Failure {}
