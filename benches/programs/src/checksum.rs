//! The checksum of a program's results: 64-bit FNV-1a, which does not allocate.

use core::fmt;
use std::error::Error;

/// The checksum of a program's results, or the error that stopped the program.
pub(crate) type ProgramResult = Result<Checksum, Box<dyn Error>>;

/// The checksum of the bytes that have been added.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Checksum(u64);

impl Checksum {
    /// Creates the checksum of an empty sequence of bytes.
    pub fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Adds `bytes` to the checksum.
    pub fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// Adds the bytes of `number` to the checksum, the least significant byte first.
    pub fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
